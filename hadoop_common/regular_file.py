"""Opens files that somebody else may have put there: regular ones only, without waiting for what is none."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from hadoop_common.file_faults import FileFaultError

_MOST_HOLES = 64 * 1024 * 1024

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class NotRegularError(FileFaultError):
    """What is to be read is no regular file, or none of its kind."""

    def __init__(self, path: Path, reason: str, hint: str) -> None:
        super().__init__(OSError(errno.EINVAL, reason), path, "cannot be read")
        self.hint = hint


class SparseFileError(NotRegularError):
    """Large parts of a file were never written."""


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """`path` for reading.

    Args:
        follow: whether the last part of the path may be a symbolic link; not where it is served to others.

    Raises:
        NotRegularError: it is no regular file.
        OSError: it cannot be opened; a link that is not followed is ELOOP.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = next((name for test, name in _KINDS if test(mode)), "something else")
            raise NotRegularError(path, f"it is {kind}, no regular file", "Name a regular file, or move it away.")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int, *, follow: bool = True) -> bytes:
    """All of a small file.

    Args:
        path: of the file.
        most: bytes that it may have.
        follow: as for `open_regular`.

    Raises:
        NotRegularError: it is no regular file, or larger.
        OSError: it cannot be read.
    """
    with open_regular(path, follow=follow) as source:
        content = source.read(most + 1)
    if len(content) > most:
        raise NotRegularError(path, f"it has more than {most} bytes", "Look at it: this is another kind of file.")
    return content


def refuse_holes(path: Path, source: BufferedReader) -> None:
    """A terabyte of nothing is not read: an image or a segment is written from its first byte to its last one.

    Raises:
        SparseFileError: the open file has holes of more than 64 MiB together.
    """
    descriptor, size = source.fileno(), os.fstat(source.fileno()).st_size
    holes = end = 0
    try:
        while end < size and holes <= _MOST_HOLES:
            start = os.lseek(descriptor, end, os.SEEK_HOLE)
            if start < size:
                try:
                    end = os.lseek(descriptor, start, os.SEEK_DATA)
                except OSError:
                    # there are no data behind it
                    end = size
                holes += end - start
            else:
                end = size
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError:
        # the file system does not tell
        return
    if holes > _MOST_HOLES:
        text = f"it is sparse: of its {size} bytes at least {holes} were never written"
        raise SparseFileError(path, text, "Use another copy; this one was cut, or its disk lost parts of it.")
