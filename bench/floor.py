"""The floor of a checkpoint: a digest of the image, and the fastest durable copy that the disk allows.

An ideal merge performs both steps in parallel, so the floor is the longer of the two times. If the steps are performed
in sequence, their times add up.
"""

from __future__ import annotations

import mmap
import os
import queue
import threading
import time
from pathlib import Path

from bench.phases import Part, Run, run_process

_BUFFER = 4 << 20
_DEPTHS = (1, 2, 4, 8)


def run_floor(image: Path, copy: Path) -> Run:
    """Measure `md5sum`, `copy`, `sum`, and `whole`, the longer of the first two; `way` names the fastest copy.

    A copy is timed until it is durable. Before each measurement, all dirty pages are written back.
    """
    digest = run_process(["md5sum", str(image)])
    copies = {"buffered and synced": _buffered(image, copy)}
    copies |= {f"O_DIRECT, {depth} in flight": direct_copy(image, copy, depth) for depth in _DEPTHS}
    copies = {way: part for way, part in copies.items() if part is not None}
    way, fastest = min(copies.items(), key=lambda item: item[1].seconds)
    both = Part(digest.seconds + fastest.seconds, digest.cpu + fastest.cpu, 0)
    longer = Part(max(digest.seconds, fastest.seconds), both.cpu, 0)
    return Run({"md5sum": digest, "copy": fastest, "sum": both, "whole": longer}, 0, way)


def _buffered(image: Path, copy: Path) -> Part:
    part = run_process(["dd", f"if={image}", f"of={copy}", "bs=4M", "conv=fsync", "status=none"])
    copy.unlink()
    return part


def direct_copy(image: Path, copy: Path, depth: int) -> Part | None:
    """Copy with `depth` direct writes of 4 MiB in flight; None if the file system has no direct I/O."""
    try:
        target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o644)
    except OSError:
        return None
    size, started, cpu = image.stat().st_size, time.monotonic(), time.process_time()
    offsets: queue.SimpleQueue[int] = queue.SimpleQueue()
    for offset in range(0, size, _BUFFER):
        offsets.put(offset)
    try:
        # O_DIRECT writes whole blocks
        os.posix_fallocate(target, 0, size)
        with image.open("rb", buffering=0) as source:
            threads = [threading.Thread(target=_copy, args=(source.fileno(), target, offsets)) for _ in range(depth)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        os.ftruncate(target, size)
        os.fsync(target)
    finally:
        os.close(target)
        copy.unlink()
    return Part(time.monotonic() - started, time.process_time() - cpu, 0)


def _copy(source: int, target: int, offsets: queue.SimpleQueue[int]) -> None:
    with mmap.mmap(-1, _BUFFER) as buffer, memoryview(buffer) as view:
        while True:
            try:
                offset = offsets.get_nowait()
            except queue.Empty:
                return
            count = os.preadv(source, [view], offset)
            whole = -(-count // mmap.PAGESIZE) * mmap.PAGESIZE
            os.pwrite(target, view[:whole], offset)
