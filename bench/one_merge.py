"""Times the parts of one merge of a storage directory: one JSON object per line; the new image is removed.

`python -m bench.one_merge [--keep] CURRENT [LOAD REPLAY WRITE]`: --keep keeps the image. With sizes in bytes, the
program touches that much memory before each part, and returns it to the system. On a virtual machine, memory that was
not touched recently can cost between 0.1 and 3 us per KB. After this step, the host has provided the memory.

With --md5-rate, a wait at that rate, which uses no CPU time, replaces every MD5. The result shows how long a merge with
another digest would take. The image is then invalid and is always removed.
"""

from __future__ import annotations

import argparse
import json
import mmap
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest.mock import patch

from checkpointer.merging.offline import merge_directory, plan_directory
from engine.observer import SilentObserver
from engine.warm_up import warm_up
from hadoop_common.process_tuning import collect_garbage_rarely
from image_format.md5_file import read_md5_file

_CREDIT_SECONDS = 0.005


class _Stopwatch(SilentObserver):
    """Stopwatch that prints wall and CPU seconds of each part."""

    def __init__(self, reserves: list[mmap.mmap]) -> None:
        self._reserves = reserves
        self._name = ""
        self._started = self._started_processors = 0.0

    def phase(self, name: str, total: int | None) -> None:
        self.end()
        if self._reserves:
            self._reserves.pop(0).close()
        self._name = {"save": "write"}.get(name, name)
        self._started, self._started_processors = time.monotonic(), time.process_time()

    def end(self) -> None:
        now = time.monotonic()
        if self._name:
            cpu = time.process_time() - self._started_processors
            line = {"phase": self._name, "seconds": now - self._started, "cpu": cpu, "at": now}
            print(json.dumps(line), flush=True)


def _touched(size: int) -> mmap.mmap:
    block = mmap.mmap(-1, size)
    # allocated as the arrays of an index are
    block.madvise(mmap.MADV_HUGEPAGE)
    for start in range(0, size, mmap.PAGESIZE):
        block[start] = 1
    return block


class _PacedDigest:
    """A substitute for an MD5 of `rate` bytes per second; its result is `known`, the digest of the old image."""

    def __init__(self, rate: float, known: bytes) -> None:
        self._rate = rate
        self._known = known
        self._due = 0.0

    def update(self, part: memoryview) -> None:
        # a sleep always takes a little longer than requested
        self._due = max(self._due, time.monotonic() - _CREDIT_SECONDS) + len(part) / self._rate
        time.sleep(max(0.0, self._due - time.monotonic()))

    def digest(self) -> bytes:
        return self._known


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.one_merge", description=__doc__)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--md5-rate", type=float, help="MB/s")
    parser.add_argument("current", type=Path)
    parser.add_argument("touched", type=int, nargs="*")
    arguments = parser.parse_args()
    # as the command `checkpointer` does
    collect_garbage_rarely()
    # The first calls load the compiled kernels, which a daemon does only once.
    warm_up()
    plan = plan_directory(arguments.current.parent)
    watch = _Stopwatch([_touched(size) for size in arguments.touched])
    with ExitStack() as stack:
        if arguments.md5_rate is not None:
            known = read_md5_file(plan.image)
            replaced = partial(_PacedDigest, 1e6 * arguments.md5_rate, known)
            stack.enter_context(patch("hashlib.md5", lambda **_: replaced()))
        result = merge_directory(plan, observer=watch)
    watch.end()
    for path in () if arguments.keep and arguments.md5_rate is None else result.saved.paths:
        path.unlink()
        path.with_name(path.name + ".md5").unlink()


if __name__ == "__main__":
    main()
