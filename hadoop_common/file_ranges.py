"""Calls of Linux on a range of a file that Python does not offer; elsewhere something that does as much."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache
from typing import Any

_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4  # sync_file_range(2)
_NOT_THERE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ESPIPE)


@cache
def _function(name: str) -> Callable[..., int] | None:
    try:
        return _of_libc(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError):
        return None


def _of_libc(libc: Any, name: str) -> Callable[..., int]:
    found: Callable[..., int] = getattr(libc, name)
    return found


def _sync(descriptor: int, start: int, size: int, flags: int) -> bool:
    """sync_file_range(2); False where system or file system have none."""
    function = _function("sync_file_range")
    if function is None:
        return False
    if function(descriptor, ctypes.c_int64(start), ctypes.c_int64(size), flags) < 0:
        number = ctypes.get_errno()
        if number in _NOT_THERE:
            return False
        raise OSError(number, os.strerror(number))
    return True


def start_write_back(descriptor: int, start: int, size: int) -> None:
    """Begin to write the dirty pages of a range to the disk; it may not wait for that.

    Raises:
        OSError: that failed, or an earlier write did.
    """
    _sync(descriptor, start, size, _WRITE)


def write_back(descriptor: int, start: int, size: int) -> None:
    """Write the dirty pages of a range to the disk, and wait for them; where that cannot be, those of the whole file.

    It is not durable: neither the file's size nor the disk's own cache is cared for.

    Raises:
        OSError: that failed, or an earlier write did.
    """
    if not _sync(descriptor, start, size, _WAIT_BEFORE | _WRITE | _WAIT_AFTER):
        os.fdatasync(descriptor)


def reserve(descriptor: int, start: int, size: int) -> bool:
    """Take room for a range and make the file so long (fallocate(2)); False where that cannot be, whatever the reason.

    Unlike `os.posix_fallocate` it writes nothing where a file system cannot do it.
    """
    function = _function("fallocate")
    return function is not None and function(descriptor, 0, ctypes.c_int64(start), ctypes.c_int64(size)) == 0
