"""The double buffer of the edit log (EditsDoubleBuffer): one half fills while the other is flushed.

    append   adds the record at the end of the filling half.
    swap     makes the filling half the flushing one; an empty half fills. Refused while a half is flushing.
    flushed  moves the flushing half, now durable, into the window, and drops the oldest halves there.

Window, flushing half and filling half are consecutive without a gap, because a half begins where the one before ends.
So each record is in exactly one of them, and txids are flushed in order. A half whose flush failed stays the flushing
one for good: `swap` stays refused, and `durable_txid` never passes that half.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from journal.journal import RecordBatch


class _Half:
    """Records of consecutive transactions from `first` on; `ends` has the end of each record."""

    __slots__ = ("data", "ends", "first")

    def __init__(self, first: int) -> None:
        self.first = first
        self.data = bytearray()
        self.ends: list[int] = []

    @property
    def last(self) -> int:
        return self.first + len(self.ends) - 1

    def batch(self) -> RecordBatch:
        return RecordBatch(self.first, self.last, self.data)

    def copy_from(self, txid: int) -> RecordBatch:
        """Return the records from `txid` on; `txid` must be one of its transactions."""
        start = 0 if txid == self.first else self.ends[txid - self.first - 1]
        with memoryview(self.data) as view:
            return RecordBatch(txid, self.last, bytes(view[start:]))


class DoubleBuffer:
    """Two alternating buffers of records, and a window of the last flushed ones.

    The class takes no locks: the owner holds its lock around every call. Only the batch returned by `swap` belongs to
    the
    thread that swapped, until that thread calls `flushed`.

    Args:
        next_txid: of the first record; earlier transactions are durable.
        window: bytes of flushed records that are kept for readers; 0 for none.
    """

    def __init__(self, next_txid: int, *, window: int = 0) -> None:
        self._filling = _Half(next_txid)
        self._flushing: _Half | None = None
        self._window: deque[_Half] = deque()
        self._window_limit = window
        self._window_size = 0

    @property
    def size(self) -> int:
        """Bytes in the filling half."""
        return len(self._filling.data)

    @property
    def count(self) -> int:
        """Transactions in the filling half."""
        return len(self._filling.ends)

    @property
    def next_txid(self) -> int:
        return self._filling.last + 1

    @property
    def durable_txid(self) -> int:
        """Newest flushed transaction; all earlier ones are flushed too."""
        return (self._filling if self._flushing is None else self._flushing).first - 1

    @property
    def oldest_txid(self) -> int:
        """Oldest transaction that `read` can return; `next_txid` if there is none."""
        if self._window:
            return self._window[0].first
        return self.durable_txid + 1

    def append(self, record: bytes) -> int:
        """Add the record of the next transaction to the filling half; returns its txid."""
        self._filling.data += record
        self._filling.ends.append(len(self._filling.data))
        return self._filling.last

    def swap(self) -> RecordBatch | None:
        """Return the records appended so far, to be flushed; None if there are none.

        Raises:
            RuntimeError: the other half is not flushed yet.
        """
        if self._flushing is not None:
            raise RuntimeError("swap before the other half was flushed")
        if not self._filling.ends:
            return None
        self._flushing, self._filling = self._filling, _Half(self.next_txid)
        return self._flushing.batch()

    def flushed(self) -> None:
        """Mark the batch of `swap` as durable.

        Raises:
            RuntimeError: no batch was swapped.
        """
        half, self._flushing = self._flushing, None
        if half is None:
            raise RuntimeError("flushed without a swap")
        self._window.append(half)
        self._window_size += len(half.data)
        while self._window_size > self._window_limit:
            self._window_size -= len(self._window.popleft().data)

    def read(self, from_txid: int, *, durable_only: bool = True) -> list[RecordBatch] | None:
        """Return copies of the records from `from_txid` on; an empty list if none is newer.

        Returns None if `from_txid` is older than the records in memory; the journal has it.

        Args:
            durable_only: leave out records that are not flushed yet and could be lost in a crash.
        """
        if from_txid < self.oldest_txid:
            return None
        halves = list(self._window)
        if not durable_only:
            halves += [self._filling] if self._flushing is None else [self._flushing, self._filling]
        start = bisect_left(halves, from_txid, key=lambda half: half.last)
        return [half.copy_from(max(from_txid, half.first)) for half in halves[start:] if half.ends]
