"""Linux system calls on file ranges that Python lacks, with fallbacks for other file systems."""

from __future__ import annotations

import ctypes
import errno
import os

_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4  # sync_file_range(2)
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ESPIPE)
_LIBC = ctypes.CDLL(None, use_errno=True)


def _sync(descriptor: int, start: int, size: int, flags: int) -> bool:
    """Call sync_file_range(2); return False if the file system does not support it."""
    if _LIBC.sync_file_range(descriptor, ctypes.c_int64(start), ctypes.c_int64(size), flags) < 0:
        number = ctypes.get_errno()
        if number in _NOT_SUPPORTED:
            return False
        raise OSError(number, os.strerror(number))
    return True


def start_write_back(descriptor: int, start: int, size: int) -> None:
    """Start writing the dirty pages of a range to disk; return without waiting if the system allows that.

    Raises:
        OSError: this write or an earlier write failed.
    """
    _sync(descriptor, start, size, _WRITE)


def write_back(descriptor: int, start: int, size: int) -> None:
    """Write the dirty pages of a range to disk and wait for them; the fallback writes all dirty pages of the file.

    The write does not make the data durable, because it flushes neither the file size nor the disk's cache.

    Raises:
        OSError: this write or an earlier write failed.
    """
    if not _sync(descriptor, start, size, _WAIT_BEFORE | _WRITE | _WAIT_AFTER):
        os.fdatasync(descriptor)


def reserve(descriptor: int, start: int, size: int) -> bool:
    """Allocate space for a range and extend the file (fallocate(2)); return False if that is impossible.

    Unlike `os.posix_fallocate`, this function writes nothing if the file system lacks support.
    """
    return bool(_LIBC.fallocate(descriptor, 0, ctypes.c_int64(start), ctypes.c_int64(size)) == 0)
