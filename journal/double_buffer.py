"""The double buffer of the edit log (EditsDoubleBuffer): one half fills while the other is written out."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["DoubleBuffer"]


class DoubleBuffer:
    """Two byte buffers that change places.

    It takes no locks: `append`, `size` and `swap` belong under the owner's lock, `flush` to the one thread
    that swapped, which need not hold the lock.
    """

    def __init__(self) -> None:
        self._current = bytearray()
        self._ready = bytearray()
        self._current_txid: int | None = None
        self._ready_txid: int | None = None

    @property
    def size(self) -> int:
        """Bytes in the filling half."""
        return len(self._current)

    def append(self, data: bytes, txid: int) -> None:
        """Add the bytes of transaction `txid` to the filling half."""
        self._current += data
        self._current_txid = txid

    def swap(self) -> None:
        """Let what was appended so far be flushed.

        Raises:
            RuntimeError: the other half was not flushed yet.
        """
        if self._ready:
            raise RuntimeError("the buffer is swapped before its other half was flushed")
        self._current, self._ready = self._ready, self._current
        self._current_txid, self._ready_txid = None, self._current_txid

    def flush(self, sink: Callable[[bytearray], None]) -> int | None:
        """Give the swapped half to `sink`, and empty it; returns its last txid, None when it held nothing.

        The half stays as it is when `sink` raises.
        """
        if self._ready:
            sink(self._ready)
        last_txid = self._ready_txid
        self._ready = bytearray()
        self._ready_txid = None
        return last_txid
