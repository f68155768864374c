"""Memory of this process: a bound on its growth, and the return of freed memory to the system.

Work that exceeds the bound fails with an error; otherwise, the OOM killer would kill the process.
"""

from __future__ import annotations

import ctypes
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode

_SLACK = 64 << 20
_NO_THREAD = "can't start new thread"
# M_MMAP_THRESHOLD of glibc's malloc.h
_MMAP_THRESHOLD = -3
_LARGE = 128 << 10


class OutOfMemoryError(HdfsError):
    """Work that needs more memory than its limit allows."""

    exit_code: ClassVar[int] = ExitCode.STORAGE


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """Allow the process `size` bytes more than it uses now, plus a margin for threads; mapped files do not count.

    The system enforces the bound (RLIMIT_DATA), so it also applies to compiled code. There is no bound if the system
    does not report the memory of the process.

    Raises:
        OutOfMemoryError: the enclosed work needs more memory.
    """
    taken = _status("VmData")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        if taken:
            _BOUND.begin(taken + size + _SLACK)
        yield
    except MemoryError as error:
        raise _out_of_memory(size) from error
    except RuntimeError as error:
        if str(error) != _NO_THREAD:
            raise
        raise _out_of_memory(size) from error
    finally:
        _BOUND.end()
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def unbounded_memory() -> Iterator[None]:
    """Exempt enclosed allocations from `bounded_memory`, because a compiler that lacks memory would end the process."""
    _BOUND.lift()
    try:
        yield
    finally:
        _BOUND.lower()


class _MemoryBound:
    """The current bound and the number of exemptions; thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._soft: int | None = None
        self._lifted = self._taken = 0

    def begin(self, soft: int) -> None:
        with self._guard:
            self._soft = soft
            self._set(soft)

    def end(self) -> None:
        with self._guard:
            self._soft = None

    def lift(self) -> None:
        with self._guard:
            self._lifted += 1
            if self._lifted == 1 and self._soft is not None:
                self._taken = _status("VmData")
                self._set(resource.RLIM_INFINITY)

    def lower(self) -> None:
        with self._guard:
            self._lifted -= 1
            if not self._lifted and self._soft is not None:
                self._soft += max(0, _status("VmData") - self._taken)
                self._set(self._soft)

    @staticmethod
    def _set(soft: int) -> None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        bounded = soft if hard < 0 else hard if soft < 0 else min(soft, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (bounded, hard))


_BOUND = _MemoryBound()


def return_large_blocks() -> None:
    """Make malloc return freed blocks of 128 KiB and more to the system until this process ends.

    By default, glibc raises this threshold to the size of the last freed block, and frames from many peers fragment the
    memory. Other allocators do not have such a threshold and are not affected.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


def resident_memory() -> int:
    """Return the bytes of the process in physical memory; 0 if unknown."""
    return _status("VmRSS")


def _out_of_memory(size: int) -> OutOfMemoryError:
    hint = "Allow more memory with --memory if you trust the file."
    return OutOfMemoryError(f"the operation needs more memory than its limit of {size >> 20} MiB", hint=hint)


def _status(name: str) -> int:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
