"""Temporary folders that do not outlive their process, because restored images contain keys of delegation tokens.

A process that receives a terminating signal removes its folders first. The next process of the same user removes the
folders of a killed process. Each process locks its folders (flock), and the system releases the locks when the process
ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from types import FrameType
from typing import NoReturn

SCRATCH_PREFIX = "checkpointer-scratch-"
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder in `parent` (default: the system's folder), and remove it at the end."""
    root = Path(gettempdir()) if parent is None else parent
    _sweep(root)
    folder, lock = _locked_folder(root)
    try:
        with _exit_at_signals():
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder(root: Path) -> tuple[Path, int]:
    while True:
        folder = Path(mkdtemp(prefix=SCRATCH_PREFIX, dir=root))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            # another process has removed the folder as a leftover
            continue
        # on a file system without locks, folders of killed processes remain
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _sweep(root: Path) -> None:
    """Remove the folders of killed processes of this user."""
    for folder in root.glob(f"{SCRATCH_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


@contextmanager
def _exit_at_signals() -> Iterator[None]:
    """Raise SystemExit on a signal that would otherwise end the process without cleanup."""
    main = threading.current_thread() is threading.main_thread()
    replaced = [each for each in _SIGNALS if main and signal.getsignal(each) is signal.SIG_DFL]
    for each in replaced:
        signal.signal(each, _exit)
    try:
        yield
    finally:
        for each in replaced:
            signal.signal(each, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
