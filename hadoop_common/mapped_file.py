"""Files mapped for reading.

A file that shrinks while it is being read causes an error instead of killing the process.

A read of a mapped page beyond the end of a file raises SIGBUS. The signal handler of this module maps a page of zeros
instead and records the offset. Readers call `check_whole` before they rely on the data. Normal reads have no additional
cost.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hadoop_common.errors import StorageError
from hadoop_common.file_faults import file_faults
from hadoop_common.regular_file import open_regular, refuse_holes

_HINT = "Make sure that no process writes to the file while it is read, check its disk, then try again."
_SA_SIGINFO = 4
_SI_ADDR = 16
_MAP_FIXED = 16
# machines with these layouts of `struct sigaction` and `siginfo_t`
_MACHINES = ("x86_64", "aarch64")


class ShrunkFileError(StorageError):
    """Failure of a read, because the mapped file shrank or its disk failed; the data read is not the file's content."""


class FailedDiskError(ShrunkFileError):
    """Failure of a disk: a page of a mapped file cannot be read although the file has its full size (EIO)."""


class MappedFile(mmap.mmap):
    """A whole regular file, mapped read-only by `map_regular`.

    Attributes:
        status: the file's status when it was mapped.
    """

    status: os.stat_result
    _path: Path
    _lost: _GuardedMapping

    @property
    def lost(self) -> int:
        """Offset of the first missing page that was read, or -1 if no page is missing."""
        return self._lost.offset

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Ensure that all data read in this context is the file's content.

        Otherwise, raise ShrunkFileError, which also replaces an error raised in the `with` block.
        """
        try:
            yield
        except Exception as error:
            try:
                self.check_whole()
            except ShrunkFileError as cause:
                raise cause from error
            raise
        self.check_whole()

    def check_whole(self) -> None:
        """Check that all data read so far is the file's content.

        Raises:
            ShrunkFileError: the file shrank.
            FailedDiskError: the file's disk failed.
            FileFaultError: the size of the file cannot be determined.
        """
        with file_faults(self._path, "cannot be read"):
            now = self.size()
        if self.lost >= 0:
            text = f"{self._path} became shorter, or its disk failed, while it was read (byte {self.lost})"
            raise (ShrunkFileError if now < len(self) else FailedDiskError)(text, hint=_HINT)
        if now < len(self):
            text = f"{self._path} became shorter while it was read: {now} bytes instead of {len(self)}"
            raise ShrunkFileError(text, hint=_HINT)


def map_regular(path: Path, *, follow: bool = True) -> MappedFile | None:
    """Map a file opened by `open_regular`; return None if it is empty.

    Raises:
        NotRegularError: the path is not a regular file.
        SparseFileError: the file has holes of more than 64 MiB in total.
        OSError: the file cannot be opened or mapped.
    """
    with open_regular(path, follow=follow) as source:
        status = os.fstat(source.fileno())
        size = status.st_size
        if size == 0:
            return None
        refuse_holes(path, source)
        _guard()
        mapped = MappedFile(source.fileno(), size, access=mmap.ACCESS_READ)
    mapped.status = status
    mapped._path = path
    mapped._lost = _GuardedMapping(_address(mapped), size)
    _guarded[id(mapped._lost)] = mapped._lost
    weakref.finalize(mapped, _guarded.pop, id(mapped._lost)).atexit = False
    return mapped


@dataclass
class _GuardedMapping:
    """A mapping, and the offset of its first byte that could not be read; -1 if none."""

    start: int
    size: int
    offset: int = -1


_guarded: dict[int, _GuardedMapping] = {}
_once = threading.Lock()
_kept: list[Any] = []
"""References that must outlive the process's last mapping: the installed signal handler."""


class _Action(ctypes.Structure):
    """`struct sigaction` of Linux on 64 bits, with glibc and with musl."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_byte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Buffer(ctypes.Structure):
    """`Py_buffer`, part of the stable ABI."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def _address(mapped: mmap.mmap) -> int:
    view = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mapped), ctypes.byref(view), 0)
    address = int(view.buf)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return address


def _guard() -> None:
    """Install the SIGBUS handler if the machine is supported."""
    with _once:
        if _kept or os.uname().machine not in _MACHINES:
            return
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
        before = _Action()

        def handle(number: int, info: int, context: int) -> None:
            # the thread was reading the page, so it does not hold any of libc's locks
            address = ctypes.c_uint64.from_address(info + _SI_ADDR).value
            for lost in tuple(_guarded.values()):
                if lost.start <= address < lost.start + lost.size:
                    page = address - address % mmap.PAGESIZE
                    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
                    length = lost.start + lost.size - page
                    if libc.mmap(page, length, mmap.PROT_READ, flags, -1, 0) == page:
                        if lost.offset < 0 or page - lost.start < lost.offset:
                            lost.offset = page - lost.start
                        return
            # the address is not in our mappings, so let the instruction run again with the previous handler
            libc.sigaction(number, ctypes.byref(before), None)

        handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(handle)
        action = _Action(handler=ctypes.cast(handler, ctypes.c_void_p), flags=_SA_SIGINFO)
        libc.sigaction(int(signal.SIGBUS), ctypes.byref(action), ctypes.byref(before))
        _kept.append(handler)
