"""A bound on the memory of this process: work that needs more ends with a sentence, not by the system's OOM killer."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from hadoop_common.errors import EXIT_STORAGE, HdfsError

_SLACK = 64 << 20
_NO_THREAD = "can't start new thread"
_CGROUP = Path("/sys/fs/cgroup/memory.max")


class OutOfMemoryError(HdfsError):
    """The work needs more memory than it may have."""

    exit_code: ClassVar[int] = EXIT_STORAGE


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """Let the process take `size` bytes more than it has now, and a little for threads; mapped files do not count.

    The system holds the bound (RLIMIT_DATA), so it holds for compiled code, too. Nothing is bounded where the system
    does not tell what the process has.

    Raises:
        OutOfMemoryError: the work inside needs more.
    """
    taken = _status("VmData")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    soft, hard = taken + size + _SLACK, before[1]
    try:
        if taken:
            resource.setrlimit(resource.RLIMIT_DATA, (soft if hard < 0 else min(soft, hard), hard))
        yield
    except MemoryError as error:
        raise _out_of_memory(size) from error
    except RuntimeError as error:
        if str(error) != _NO_THREAD:
            raise
        raise _out_of_memory(size) from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def available_memory() -> int:
    """Bytes that the system, or the process's control group, can still give; 0 where neither tells."""
    found = [_status("MemAvailable", "/proc/meminfo")]
    with suppress(OSError, ValueError):
        found.append(int(_CGROUP.read_text()))
    return min((size for size in found if size), default=0)


def _out_of_memory(size: int) -> OutOfMemoryError:
    hint = "Allow more with --memory if the file is one that you trust."
    return OutOfMemoryError(f"the work needs more than the {size >> 20} MiB of memory that it may have", hint=hint)


def _status(name: str, path: str = "/proc/self/status") -> int:
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
