"""Processes that a daemon starts: memory limits, and the end of all child processes."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkpointer.daemon.child_process import ChildCommand, ChildQueue
from hadoop_common.process_group import end_process_group, signal_group
from tests.namenode_stub.stub_support import wait_until


class StartedCommand:
    """Recorder of started processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.children: list[subprocess.Popen[str]] = []
        start = subprocess.Popen

        def record(*args: object, **options: object) -> subprocess.Popen[str]:
            child = start(*args, **options)  # type: ignore[call-overload]
            self.children.append(child)
            return child  # type: ignore[no-any-return]

        monkeypatch.setattr("checkpointer.daemon.child_process.subprocess.Popen", record)


def test_lower_hard_limit_of_memory_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    hard_limits = (1 << 30, resource.RLIM_INFINITY, 4 << 30, 0)
    calls: list[tuple[int, ...]] = []

    def prlimit(pid: int, which: int, limits: tuple[int, int] | None = None) -> tuple[int, int]:
        if limits is not None:
            calls.append(limits)
        return hard_limits[len(calls)], hard_limits[len(calls)]

    monkeypatch.setattr(resource, "prlimit", prlimit)
    for _ in hard_limits[:3]:
        ChildCommand((sys.executable, "-c", ""), memory=2 << 30).start().communicate()
    assert [limits[1] for limits in calls] == [1 << 30, 2 << 30, 2 << 30]


def test_process_whose_memory_cannot_be_limited_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    started = StartedCommand(monkeypatch)
    monkeypatch.setattr(resource, "prlimit", refuse)
    ended: list[str] = []
    queue = ChildQueue("the process", ended.append)

    @contextmanager
    def task() -> Iterator[ChildCommand]:
        yield ChildCommand(("sleep", "60"), memory=1 << 30)

    queue.offer(task)
    wait_until("the end", lambda: bool(ended))
    queue.stop()
    assert ended == ["Operation not permitted"]
    (child,) = started.children
    assert child.returncode == -9
    assert not queue.running


def test_queue_continues_after_a_bug_in_a_task() -> None:
    ended: list[str] = []
    queue = ChildQueue("the process", ended.append)

    @contextmanager
    def task() -> Iterator[ChildCommand]:
        raise ValueError("a bug")
        yield

    for number in (1, 2):
        queue.offer(task)
        wait_until("the end", lambda number=number: len(ended) == number)
    queue.stop()
    assert ended == ["a bug", "a bug"]


def test_grandchildren_get_time_to_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hadoop_common.process_group._GRACE_SECONDS", 600.0)
    # the process ends immediately, its child a moment later
    slow = f"trap 'sleep 0.2; touch {tmp_path}/done; exit' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done"
    script = f"({slow}) & while :; do sleep 0.01; done"
    child = ChildCommand(("sh", "-c", script)).start()
    wait_until("the child", (tmp_path / "ready").exists)
    end_process_group(child, "the process")
    assert (tmp_path / "done").exists()
    assert not signal_group(child, 0)
    child.communicate()
