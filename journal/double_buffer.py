"""The double buffer of the edit log (EditsDoubleBuffer): one half is filled while the other is flushed.

    append   adds a record at the end of the filling half.
    swap     makes the filling half the flushing half, and begins an empty filling half. It raises an error while a
             flushing half exists.
    flushed  drops the flushing half, which is now durable.

The flushing half and the filling half are consecutive, because a half begins where the previous half ends. Each record
is therefore in exactly one half, and txids are flushed in order. If a flush fails, its half remains the flushing half:
`swap` continues to raise an error, and `durable_txid` does not advance.
"""

from __future__ import annotations

from journal.journal import RecordBatch


class _Half:
    """Records of `count` consecutive transactions from `first` on."""

    __slots__ = ("count", "data", "first")

    def __init__(self, first: int) -> None:
        self.first = first
        self.data = bytearray()
        self.count = 0

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def batch(self) -> RecordBatch:
        return RecordBatch(self.first, self.last, self.data)


class DoubleBuffer:
    """Two alternating buffers of records.

    The class uses no locks: the owner holds its lock around every call. Only the thread that called `swap` may use the
    returned batch, until it calls `flushed`.

    Args:
        next_txid: txid of the first record; earlier transactions are durable.
    """

    def __init__(self, next_txid: int) -> None:
        self._filling = _Half(next_txid)
        self._flushing: _Half | None = None

    @property
    def size(self) -> int:
        """Bytes in the filling half."""
        return len(self._filling.data)

    @property
    def count(self) -> int:
        """Transactions in the filling half."""
        return self._filling.count

    @property
    def next_txid(self) -> int:
        return self._filling.last + 1

    @property
    def durable_txid(self) -> int:
        """Newest flushed transaction; all earlier transactions are also flushed."""
        return (self._filling if self._flushing is None else self._flushing).first - 1

    def append(self, record: bytes) -> int:
        """Add the record of the next transaction to the filling half, and return its txid."""
        self._filling.data += record
        self._filling.count += 1
        return self._filling.last

    def swap(self) -> RecordBatch | None:
        """Return the records appended so far, to be flushed; None if no records were appended.

        Raises:
            RuntimeError: the previous half has not been flushed yet.
        """
        if self._flushing is not None:
            raise RuntimeError("`swap` called before the other half was flushed")
        if not self._filling.count:
            return None
        self._flushing, self._filling = self._filling, _Half(self.next_txid)
        return self._flushing.batch()

    def flushed(self) -> None:
        """Mark the batch that `swap` returned as durable.

        Raises:
            RuntimeError: no batch was swapped.
        """
        if self._flushing is None:
            raise RuntimeError("flushed without a swap")
        self._flushing = None
