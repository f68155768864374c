"""Decompressed bytes, in memory or in an unlinked temporary file; several streams are decompressed in parallel."""

from __future__ import annotations

import mmap
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from hadoop_common.file_faults import error_text
from hadoop_common.process_tuning import available_cores
from image_format.errors import ImageStorageError

SPOOL_LIMIT = 64 * 1024 * 1024


class Spool:
    """Collector of bytes, which `finish` returns as one read-only array.

    Args:
        directory: directory of the unnamed temporary file; None means the system's default.
        limit: number of bytes that stay in memory before the file is created.
    """

    def __init__(self, directory: Path | None = None, limit: int = SPOOL_LIMIT) -> None:
        self._directory = directory
        self._limit = limit
        self._memory = bytearray()
        self._file: BinaryIO | None = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()
        self._memory = bytearray()

    def write(self, chunk: bytes | memoryview) -> None:
        """Append bytes.

        Raises:
            ImageStorageError: the temporary file cannot be created or written.
        """
        try:
            if self._file is None and len(self._memory) + len(chunk) > self._limit:
                # `__exit__` closes the file; the mapping made by `finish` remains valid.
                self._file = cast(BinaryIO, tempfile.TemporaryFile(dir=self._directory))  # noqa: SIM115
                self._file.write(self._memory)
                self._memory = bytearray()
            if self._file is None:
                self._memory += chunk
            else:
                self._file.write(chunk)
        except OSError as error:
            raise self._failure(error) from error

    def finish(self) -> npt.NDArray[np.uint8]:
        """Return all bytes, which stay valid while the array exists.

        Raises:
            ImageStorageError: the temporary file cannot be written or mapped.
        """
        if self._file is None:
            array = np.frombuffer(self._memory, np.uint8)
            array.flags.writeable = False
            self._memory = bytearray()
            return array
        try:
            self._file.flush()
            return np.frombuffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> ImageStorageError:
        where = self._directory or tempfile.gettempdir()
        hint = "Free space there or choose another spool directory."
        return ImageStorageError(f"cannot spool a decompressed section to {where}: {error_text(error)}", hint=hint)


Stream = Callable[[], Iterator[bytes | memoryview]]

_SLICE = 8 * 1024 * 1024


def read_ahead(streams: Sequence[Stream], spool_dir: Path | None = None, threads: int = 0) -> Iterator[memoryview]:
    """Yield the bytes of `streams` in order, while threads read the next streams ahead.

    Bytes read ahead are in spools, because their sizes are not known beforehand. The spools share one `SPOOL_LIMIT` of
    memory.

    Args:
        threads: number of threads, or 0 for one per core.

    Raises:
        ImageStorageError: the spool folder is full.
        Exception: raised by a stream, after the bytes of the preceding streams.
    """
    workers = min(threads or available_cores(), len(streams))
    reader = _StreamUnpacker(spool_dir, SPOOL_LIMIT // (workers + 2))
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


class _StreamUnpacker:
    """Reader of complete streams until `stop`."""

    def __init__(self, spool_dir: Path | None, limit: int) -> None:
        self._spool_dir = spool_dir
        self._limit = limit
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def take(self, stream: Stream) -> npt.NDArray[np.uint8]:
        """Return all bytes of a stream, or fewer after `stop`."""
        with Spool(self._spool_dir, self._limit) as spool:
            for chunk in stream():
                if self._stopped.is_set():
                    break
                spool.write(chunk)
            return spool.finish()
