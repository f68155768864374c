"""The double buffer of the edit log (EditsDoubleBuffer): one half fills while the other is written out.

    append   the record goes to the end of the filling half.
    swap     the filling half becomes the flushing one, and an empty half fills. Refused while one is flushing.
    flushed  the flushing half is durable: it goes into the window, and the oldest there leave.

Window, flushing half and filling half follow each other without a gap, for a half begins where the one before ends. So
a record is in one of them only, and no txid is flushed before a smaller one. A half whose flush failed stays the
flushing one for good: nobody may swap again, and `durable_txid` never passes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from journal.journal import RecordBatch


class _Half:
    """Records of transactions one after the other, from `first` on; `ends` says where each of them ends."""

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
        """What is there from `txid` on, which must be one of its transactions."""
        start = 0 if txid == self.first else self.ends[txid - self.first - 1]
        with memoryview(self.data) as view:
            return RecordBatch(txid, self.last, bytes(view[start:]))


class DoubleBuffer:
    """Two buffers of records that change places, and a window of those that were flushed last.

    It takes no locks: all of it belongs under the owner's lock, but for the batch that `swap` gave, which belongs
    to the one thread that swapped until it says `flushed`.

    Args:
        next_txid: of the first record to come; what lies before it is durable.
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
        """Txid of the next record."""
        return self._filling.last + 1

    @property
    def durable_txid(self) -> int:
        """Newest transaction that was flushed; all before it were too."""
        return (self._filling if self._flushing is None else self._flushing).first - 1

    @property
    def oldest_txid(self) -> int:
        """Oldest transaction that `read` can give; `next_txid` where there is none."""
        if self._window:
            return self._window[0].first
        return self.durable_txid + 1

    def append(self, record: bytes) -> int:
        """Add the record of the next transaction to the filling half; returns its txid."""
        self._filling.data += record
        self._filling.ends.append(len(self._filling.data))
        return self._filling.last

    def swap(self) -> RecordBatch | None:
        """What was appended so far, to be flushed; None where that is nothing.

        Raises:
            RuntimeError: the other half was not flushed yet.
        """
        if self._flushing is not None:
            raise RuntimeError("the buffer is swapped before its other half was flushed")
        if not self._filling.ends:
            return None
        self._flushing, self._filling = self._filling, _Half(self.next_txid)
        return self._flushing.batch()

    def flushed(self) -> None:
        """The batch that `swap` gave is durable.

        Raises:
            RuntimeError: none was swapped.
        """
        half, self._flushing = self._flushing, None
        if half is None:
            raise RuntimeError("nothing was swapped")
        self._window.append(half)
        self._window_size += len(half.data)
        while self._window_size > self._window_limit:
            self._window_size -= len(self._window.popleft().data)

    def read(self, from_txid: int, *, durable_only: bool = True) -> list[RecordBatch] | None:
        """Copies of the records from `from_txid` on; an empty list where nothing is newer.

        None where `from_txid` lies before what is kept in memory: the journal has it.

        Args:
            durable_only: leave out what is not flushed yet, which a crash may take back.
        """
        if from_txid < self.oldest_txid:
            return None
        halves = list(self._window)
        if not durable_only:
            halves += [self._filling] if self._flushing is None else [self._flushing, self._filling]
        start = bisect_left(halves, from_txid, key=lambda half: half.last)
        return [half.copy_from(max(from_txid, half.first)) for half in halves[start:] if half.ends]
