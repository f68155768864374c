"""A role with a job, served in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from checkpointer.daemon.process import serve
from checkpointer.roles.role import Job
from hadoop_common.process_control import Control
from hadoop_common.tls.settings import WebAddresses
from site_config.checkpoint_config import CheckpointConfig
from tests.checkpointer.service_support import FakeRole, standby_config


def config() -> CheckpointConfig:
    return replace(standby_config(), web=WebAddresses(("127.0.0.1", 0)), poll_interval=3600.0)


class JobRole(FakeRole):
    """A role with one job that requests a poll while `asks` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.01
        self.runs = 0
        self.asks = threading.Event()
        self.configs: list[CheckpointConfig] = []

    def jobs(self) -> list[Job]:
        return [Job("tail", self.seconds, self._run)]

    def reconfigure(self, config: CheckpointConfig) -> None:
        self.configs.append(config)

    def _run(self) -> bool:
        self.runs += 1
        return self.asks.is_set()


@pytest.fixture
def role() -> JobRole:
    return JobRole()


@contextmanager
def served(role: JobRole, **options: object) -> Iterator[tuple[Control, Future[None]]]:
    control = Control(stop_within=30.0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(serve, role, config(), control, **options)
        try:
            yield control, running
        finally:
            control.stop()
