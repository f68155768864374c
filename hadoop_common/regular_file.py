"""Opens files at untrusted paths: only regular files, and without blocking."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from hadoop_common.file_faults import FileFaultError

_MAX_HOLES = 64 * 1024 * 1024

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class NotRegularError(FileFaultError):
    """Refusal of a path that is not a regular file, or of a file of an unexpected kind."""

    def __init__(self, path: Path, reason: str, hint: str) -> None:
        super().__init__(OSError(errno.EINVAL, reason), path, "cannot be read")
        self.hint = hint


class SparseFileError(NotRegularError):
    """Refusal of a file of which large parts were never written."""


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open `path` for reading.

    Args:
        follow: whether the last part of the path may be a symbolic link; False for files served to others.

    Raises:
        NotRegularError: the path is not a regular file.
        OSError: the file cannot be opened; ELOOP for a link that is not followed.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = next((name for test, name in _KINDS if test(mode)), "something else")
            raise NotRegularError(path, f"it is {kind}, not a regular file", "Specify a regular file, or move it away.")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int, *, follow: bool = True) -> bytes:
    """Read a small file.

    Args:
        most: maximum size in bytes.
        follow: see `open_regular`.

    Raises:
        NotRegularError: the path is not a regular file, or the file is larger.
        OSError: the file cannot be read.
    """
    with open_regular(path, follow=follow) as source:
        content = source.read(most + 1)
    if len(content) > most:
        raise NotRegularError(path, f"it has more than {most} bytes", "Check the file: it is not of the expected kind.")
    return content


def refuse_holes(path: Path, source: BufferedReader) -> None:
    """Reject a file with large holes, because writers of images and segments write every byte.

    Raises:
        SparseFileError: the open file has holes of more than 64 MiB in total.
    """
    descriptor, size = source.fileno(), os.fstat(source.fileno()).st_size
    holes = end = 0
    try:
        while end < size and holes <= _MAX_HOLES:
            start = os.lseek(descriptor, end, os.SEEK_HOLE)
            if start < size:
                try:
                    end = os.lseek(descriptor, start, os.SEEK_DATA)
                except OSError:
                    # no data follows
                    end = size
                holes += end - start
            else:
                end = size
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError:
        # the file system does not report holes
        return
    if holes > _MAX_HOLES:
        text = f"it is sparse: of its {size} bytes at least {holes} were never written"
        raise SparseFileError(path, text, "Use another copy; this file is incomplete, or its disk lost parts of it.")
