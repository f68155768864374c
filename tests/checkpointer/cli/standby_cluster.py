"""A NameNode stub and the configuration of a standby, on which commands run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests

from checkpointer.daemon.process import serve
from checkpointer.roles.standby.role import StandbyRole
from hadoop_common.configuration import Configuration
from hadoop_common.process_control import Control
from namenode_stub.config import stub_config
from namenode_stub.demo_conf import DemoPorts, write_configuration
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub
from namenode_stub.ports import free_port
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.cli_runner import run_cli
from tests.namenode_stub.stub_support import wait_until


def write_edits(stub: NameNodeStub, label: str) -> int:
    for number in range(20):
        stub.namespace.mkdirs(f"/{label}/{number}")
    return stub.active.roll() - 1


@contextmanager
def process(conf: Path, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "checkpointer", "run", "--conf", str(conf), "--role", "standby", *options]
    with log.open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()


@contextmanager
def daemon(cluster: Cluster) -> Iterator[None]:
    """Run the daemon in a thread of this process, and stop it at the end."""
    config = CheckpointConfig.from_configuration(load(cluster.conf), Role.STANDBY)
    role, control = StandbyRole(config), Control(stop_within=30.0)
    role.open()
    running = threading.Thread(target=serve, args=(role, config, control))
    running.start()
    try:
        wait_until("the daemon", lambda: answers(cluster.ports.daemon_url))
        yield
    finally:
        control.stop()
        running.join()
        role.close()


def answers(url: str, path: str = "/health/live") -> bool:
    try:
        return requests.get(f"{url}{path}", timeout=600).ok
    except requests.ConnectionError:
        return False


TRANSACTIONS = 1000


def load(conf: Path) -> Configuration:
    return Configuration.load(conf, environment={})


class Cluster:
    """A formatted pair below `root`, its configuration files, and the stub that runs as nn1."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ports = DemoPorts(free_port(), free_port(), free_port())
        write_configuration(root, self.ports, transactions=TRANSACTIONS, period=3600)
        config = stub_config(load(root / "conf-nn1"))
        format_storage(list(config.image_directories), list(config.edits_directories), new_storage_info(-67))
        # The image is made old enough for a Hadoop 3 NameNode to accept another image.
        for image in config.image_directories[0].glob("current/fsimage_*"):
            os.utime(image, (0, 0))
        self.stub_config = replace(config, roll_period=0.0)
        self.conf = root / "conf-nn2"

    def checkpoint(self, *options: str) -> Any:
        return run_cli("checkpoint", "--conf", self.conf, *options)
