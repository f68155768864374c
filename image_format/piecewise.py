"""Compresses one stream in pieces on all cores; the pieces come back in order and the bytes are always the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from hadoop_common.cores import available_cores

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

# Pieces that wait or are worked on, for each thread: enough that none of them runs dry.
_AHEAD = 2


class PieceFormat(Protocol[T]):
    """One stream made of pieces. All but what `prepare` returns is called by one thread, in the stream's order.

    Attributes:
        piece_size: bytes of every piece but the last, which has at least one.
    """

    piece_size: int

    def head(self) -> bytes:
        """What the stream starts with."""

    def prepare(self, piece: bytearray) -> Callable[[], T]:
        """What compresses the next piece; it may be called on any thread."""

    def join(self, compressed: T) -> bytes:
        """The bytes of the next piece in the stream."""

    def tail(self) -> bytes:
        """What the stream ends with."""


class PiecewiseCompressor(Generic[T]):
    """A `Compressor` that has a few pieces in the hands of threads; memory does not grow with the stream.

    Args:
        form: of the stream; used up by it.
        threads: that compress, 0 for one on each core; 1 compresses in the calling thread.
    """

    def __init__(self, form: PieceFormat[T], threads: int = 0) -> None:
        self._form = form
        self._threads = threads or available_cores()
        self._ready = [form.head()]
        self._piece = bytearray()
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[Future[T]] = deque()

    def compress(self, buffer: Buffer) -> bytes:
        """What of the stream is there after `buffer`; raises what compressing an earlier piece raised."""
        view = memoryview(buffer)
        start = 0
        while start < len(view):
            end = start + self._form.piece_size - len(self._piece)
            self._piece += view[start:end]
            start = end
            if len(self._piece) == self._form.piece_size:
                self._submit()
        return self._take()

    def finish(self) -> bytes:
        """The rest of the stream."""
        if self._piece:
            self._submit()
        while self._running:
            self._collect()
        self._ready.append(self._form.tail())
        self.close()
        return self._take()

    def close(self) -> None:
        """Stop the threads; pieces that none of them began are dropped."""
        self._running.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _submit(self) -> None:
        piece, self._piece = self._piece, bytearray()
        task = self._form.prepare(piece)
        # a stream that ends with its first piece is not worth a thread
        if self._threads == 1 or (not self._running and len(piece) < self._form.piece_size):
            self._ready.append(self._form.join(task()))
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "image-compress")
        self._running.append(self._pool.submit(task))
        while len(self._running) > _AHEAD * self._threads or (self._running and self._running[0].done()):
            self._collect()

    def _collect(self) -> None:
        self._ready.append(self._form.join(self._running.popleft().result()))

    def _take(self) -> bytes:
        ready, self._ready = self._ready, []
        return b"".join(ready)
