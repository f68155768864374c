"""Several streams decompressed on all cores and given out one after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hadoop_common.cores import available_cores
from image_format.spool import SPOOL_LIMIT, Spool

Stream = Callable[[], Iterator[bytes | memoryview]]

_SLICE = 8 * 1024 * 1024


def read_ahead(streams: Sequence[Stream], spool_dir: Path | None = None, threads: int = 0) -> Iterator[memoryview]:
    """The bytes of `streams` in their order; threads take in the next ones meanwhile.

    What was taken in lies in spools, which share one `SPOOL_LIMIT` of memory. Sizes cannot be known beforehand, so
    there is no other place for it yet.

    Args:
        threads: 0 for one on each core.

    Raises:
        ImageStorageError: there is no room to spool; what a stream raises comes after the bytes of those before it.
    """
    workers = min(threads or available_cores(), len(streams))
    reader = _Reader(spool_dir, SPOOL_LIMIT // (workers + 2))
    left = iter(streams)
    with ThreadPoolExecutor(workers, "image-decompress") as pool:
        taken = deque(pool.submit(reader.take, stream) for stream in islice(left, workers + 1))
        try:
            while taken:
                data = taken.popleft().result()
                taken.extend(pool.submit(reader.take, stream) for stream in islice(left, 1))
                for start in range(0, data.size, _SLICE):
                    yield data[start : start + _SLICE].data
        finally:
            reader.stop()
            for future in taken:
                future.cancel()


class _Reader:
    """Takes in whole streams, until `stop`."""

    def __init__(self, spool_dir: Path | None, limit: int) -> None:
        self._spool_dir = spool_dir
        self._limit = limit
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def take(self, stream: Stream) -> npt.NDArray[np.uint8]:
        """All bytes of a stream; fewer where nobody wants them any more."""
        with Spool(self._spool_dir, self._limit) as spool:
            for chunk in stream():
                if self._stopped.is_set():
                    break
                spool.write(chunk)
            return spool.finish()
