"""One merge of a storage directory, its parts timed: a JSON object a line; the image it made is removed.

`python -m bench.one_merge [--keep] CURRENT [LOAD REPLAY WRITE]`: with --keep the image stays. With sizes in bytes, each
part is preceded by touching that much memory and returning it to the system. A virtual machine may provide memory that
was not touched recently at a cost that varies from 0.1 to 3 us per KB; after this step, the memory is backed.
"""

from __future__ import annotations

import argparse
import json
import mmap
import time
from pathlib import Path

from checkpointer.merging.offline import merge_directory, plan_directory
from engine.observer import SilentObserver
from engine.warm_up import warm_up
from hadoop_common.process_tuning import collect_garbage_rarely


class _Stopwatch(SilentObserver):
    """Prints wall and processor seconds of each part."""

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
    # as for the arrays of an index
    block.madvise(mmap.MADV_HUGEPAGE)
    for start in range(0, size, mmap.PAGESIZE):
        block[start] = 1
    return block


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.one_merge", description=__doc__)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("current", type=Path)
    parser.add_argument("touched", type=int, nargs="*")
    arguments = parser.parse_args()
    # as the program does
    collect_garbage_rarely()
    # The first calls load the compiled kernels, which a daemon does only once.
    warm_up()
    plan = plan_directory(arguments.current.parent)
    watch = _Stopwatch([_touched(size) for size in arguments.touched])
    result = merge_directory(plan, observer=watch)
    watch.end()
    for path in () if arguments.keep else result.saved.paths:
        path.unlink()
        path.with_name(path.name + ".md5").unlink()


if __name__ == "__main__":
    main()
