"""Folders that one process of a host creates and all its processes share."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from image_format.errors import ImageStorageError


def create_once(scratch: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder `name` in `scratch`; fill it with `make` unless another process of this host already did.

    Other processes wait while one fills the folder. The folder appears complete or not at all; the next process removes
    the remains of a killed one.

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
        hint = "Free space there, or set spark.local.dir to another folder."
        raise ImageStorageError(f"cannot write {target}: {error}", hint=hint) from error
    return target


def _make(target: Path, make: Callable[[Path], None]) -> None:
    folder = Path(tempfile.mkdtemp(prefix=f"{target.name}.making-", dir=target.parent))
    try:
        make(folder)
        # A plain rename is enough: a scratch folder is useless after a crash of the host.
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
