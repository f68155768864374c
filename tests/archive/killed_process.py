"""A process that is killed before one of its system calls on the files of an archive."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

_CHANGES = {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}


def is_killed(action: Callable[[Path, Path], None], root: Path, nn: Path, steps: int) -> bool:
    """Run an action in a child that is killed before its `steps`-th system call on a file of the archive."""
    if (pid := os.fork()) == 0:
        try:
            _die_after(root, steps)
            action(root, nn)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def _die_after(root: Path, steps: int) -> None:
    left, fsync = [steps], os.fsync

    def step() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in _CHANGES and str(arguments[0]).startswith(str(root)):
            step()

    def synced(number: int) -> None:
        step()
        fsync(number)

    sys.addaudithook(watch)
    mock.patch("os.fsync", synced).start()
