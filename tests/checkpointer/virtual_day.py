"""A daemon in virtual time that a test advances: its loop, scheduler and jobs run in turn, without waits."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Self

import pytest
from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.base import BaseScheduler

from checkpointer.daemon.process import Clocks, serve
from checkpointer.roles.role import CheckpointRole
from hadoop_common.process_control import Control
from site_config.checkpoint_config import CheckpointConfig

DAY = 86_400.0
# real seconds between two checks of the host's clock
_HEARTBEAT = 0.1


class VirtualClock:
    """Monotonic and wall time that only a test advances, long before the present.

    Attributes:
        passed: monotonic seconds.
        set_back: seconds by which the wall clock was set back.
    """

    def __init__(self) -> None:
        self.began = float(round(time.time() - 100 * DAY))
        self.passed = 0.0
        self.set_back = 0.0

    def monotonic(self) -> float:
        return self.passed

    def wall(self) -> float:
        return self.began + self.passed - self.set_back

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the scheduler's library use this clock."""

        class Virtual(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return cls.fromtimestamp(clock.wall(), tz)

        clock = self
        for module in ("schedulers.base", "triggers.interval", "executors.base"):
            monkeypatch.setattr(f"apscheduler.{module}.datetime", Virtual)


class Scheduler(BaseScheduler):  # type: ignore[misc]
    """Scheduler that runs due jobs in the thread that advances the time."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(timezone=UTC)
        self._clock = clock
        self.running_now = threading.Event()

    def _create_default_executor(self) -> DebugExecutor:
        return DebugExecutor()

    def wakeup(self) -> None:
        """Do nothing, because no thread sleeps."""

    def start(self, *arguments: Any, **options: Any) -> None:
        super().start(*arguments, **options)
        self.running_now.set()

    def shutdown(self, wait: bool = True) -> None:
        super().shutdown(wait)

    def run(self, seconds: float, after: Callable[[], None]) -> None:
        """Advance the time, and run each job when it is due; call `after` after each job."""
        end = self._clock.passed + seconds
        while True:
            wait = min(job.next_run_time.timestamp() for job in self.get_jobs()) - self._clock.wall()
            if self._clock.passed + wait > end:
                break
            self._clock.passed += max(0.0, wait)
            self._process_jobs()
            after()
        self._clock.passed = end


def stamp(folder: Path, clock: VirtualClock) -> None:
    """Set the modification time of files written since the last call to the test's time."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.stat().st_mtime > clock.began + 50 * DAY:
                os.utime(path, (clock.wall(), clock.wall()))


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log and its time, in seconds of the test's clock."""

    at: float
    level: str
    text: str


class LogBook(logging.Handler):
    """The log as an operator sees it, with the test's time."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(logging.INFO)
        self._clock = clock
        self.lines: list[Line] = []

    def emit(self, record: logging.LogRecord) -> None:
        # the servlets of the NameNode run in this process
        if not record.name.startswith(("apscheduler", "servlets.image_")):
            self.lines.append(Line(self._clock.passed, record.levelname, record.getMessage()))

    def since(self, index: int, *levels: str) -> list[str]:
        return [line.text for line in self.lines[index:] if line.level in levels]

    def busiest_hour(self) -> int:
        """Return the largest number of lines in any 3,600 seconds."""
        times = [line.at for line in self.lines]
        return max((sum(1 for other in times[n:] if other < at + 3600) for n, at in enumerate(times)), default=0)


@contextmanager
def daemon(
    role: CheckpointRole, config: CheckpointConfig, clock: VirtualClock, reload: Callable[[], CheckpointConfig]
) -> Iterator[tuple[Scheduler, Control]]:
    """Yield the daemon of `role`; its loop runs in a thread, and its jobs run when the test advances the time."""
    control, scheduler = Control(stop_within=30.0), Scheduler(clock)
    clocks = Clocks(clock.monotonic, clock.wall, lambda: scheduler)
    faults: list[BaseException] = []

    def run() -> None:
        try:
            serve(role, config, control, reload=reload, clocks=clocks, heartbeat=_HEARTBEAT)
        except BaseException as fault:
            faults.append(fault)
            scheduler.running_now.set()

    role.open(control.stopping)
    serving = threading.Thread(target=run)
    serving.start()
    try:
        assert scheduler.running_now.wait(600)
        assert faults == []
        yield scheduler, control
    finally:
        control.stop()
        serving.join()
        role.close()
    assert faults == []
