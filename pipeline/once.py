"""Folders that one process of a host makes and all others use."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from image_format.errors import ImageStorageError


def made_once(scratch: Path, name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` in `scratch`, filled by `make` if no process of this host has done so yet.

    Whoever comes while another one makes it waits. A folder appears whole or not at all, and what a killed process
    left is cleared away by the next one.

    Raises:
        ImageStorageError: `scratch` cannot be written.
    """
    target = scratch / name
    if target.is_dir():
        return target
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        # The kernel frees the lock of a process that dies.
        with (scratch / f"{name}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                for left in scratch.glob(f"{name}.making-*"):
                    shutil.rmtree(left)
                _make(target, make)
    except OSError as error:
        hint = "Free space there, or let spark.local.dir name another folder."
        raise ImageStorageError(f"cannot write {target}: {error}", hint=hint) from error
    return target


def _make(target: Path, make: Callable[[Path], None]) -> None:
    folder = Path(tempfile.mkdtemp(prefix=f"{target.name}.making-", dir=target.parent))
    try:
        make(folder)
        # not `rename_durably`: nobody needs a scratch folder after a crash of the host
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
