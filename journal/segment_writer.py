"""Common part of the writers of all journals: first a recovery, then one open segment with batches in order.

    closed    A recovery makes the journal ready.
    ready     `JournalLifecycle.opened` makes the journal writing.
    writing   The end of the segment makes the journal ready. Abandoning the segment makes it closed.

Therefore, after a failure, nothing is written before another recovery.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from hadoop_common.file_faults import error_text
from journal.errors import JournalError, JournalInUseError, JournalStorageError, SegmentError, TransactionGapError
from journal.journal import RecordBatch, SegmentWriter

R = TypeVar("R")
W = TypeVar("W", bound=SegmentWriter)
S_co = TypeVar("S_co", bound="SegmentStore", covariant=True)


class JournalLifecycle(Generic[R, W]):
    """Recovery and open segment of a journal.

    Args:
        location: location of the journal, for errors.

    Attributes:
        lock: lock that the journal holds during every change by its writer.
        recovered: result of the last recovery; None before a recovery and after an abandoned segment.
        writer: writer of the open segment.
    """

    def __init__(self, location: str) -> None:
        self.lock = threading.RLock()
        self.recovered: R | None = None
        self.writer: W | None = None
        self._location = location

    def refuse_while_writing(self) -> None:
        """Raise JournalInUseError while a segment is open."""
        if self.writer is not None:
            first = self.writer.first_txid
            raise JournalInUseError(f"segment {first} is being written", file=self._location, txid=first)

    def require_recovered(self, first_txid: int) -> R:
        """Return the recovery's result; raise JournalError, with `first_txid`, if the journal was not recovered."""
        self.refuse_while_writing()
        if self.recovered is None:
            hint = "Call recover first; recovery keeps all synced transactions."
            raise JournalError("the journal was not recovered", file=self._location, txid=first_txid, hint=hint)
        return self.recovered

    def opened(self, writer: W) -> W:
        """Record the open segment, and return its writer."""
        self.writer = writer
        return writer

    def ended(self, *, whole: bool) -> None:
        """Record the end of the segment. Without `whole`, the segment stays in progress and needs a recovery."""
        with self.lock:
            self.writer = None
            if not whole:
                self.recovered = None

    def close(self) -> None:
        """Abandon the open segment."""
        with self.lock:
            if self.writer is not None:
                self.writer.abort()
            self.recovered = None


class SegmentStore(Protocol):
    """Storage of an open segment; `append` and `finalize` raise OSError or JournalError.

    Attributes:
        allows_empty: whether a segment without a transaction can be finalized.
    """

    allows_empty: ClassVar[bool]

    def append(self, batch: RecordBatch) -> None:
        """Make the batch durable."""

    def finalize(self, last_txid: int) -> None: ...

    def abort(self) -> None:
        """Release the segment. This method does not raise exceptions."""


class StoreWriter(Generic[S_co]):
    """`SegmentWriter` on a store. It checks the order of batches, and abandons the segment at the first error.

    Args:
        place: location of the segment, for errors.

    Attributes:
        last_txid: newest durable transaction; `first_txid - 1` while the segment is empty.
    """

    def __init__(
        self, lifecycle: JournalLifecycle[Any, StoreWriter[S_co]], store: S_co, first_txid: int, place: str
    ) -> None:
        self.store = store
        self.first_txid = first_txid
        self.last_txid = first_txid - 1
        self._lifecycle = lifecycle
        self._place = place
        self._open = True

    def append(self, batch: RecordBatch) -> None:
        self._check_open(batch.first)
        if batch.first != self.last_txid + 1:
            raise TransactionGapError(self.last_txid + 1, batch.first, file=self._place)
        with self._abandoning("cannot be written", batch.first):
            self.store.append(batch)
        self.last_txid = batch.last

    def finalize(self, last_txid: int) -> None:
        self._check_open(last_txid)
        if last_txid != self.last_txid:
            problem = f"the segment cannot end with txid {last_txid}: its last txid is {self.last_txid}"
            raise SegmentError(problem, file=self._place, txid=last_txid)
        if last_txid < self.first_txid and not self.store.allows_empty:
            raise SegmentError("an empty segment cannot be finalized", file=self._place, txid=self.first_txid)
        with self._abandoning("cannot be finalized", last_txid):
            self.store.finalize(last_txid)
        self._open = False
        self._lifecycle.ended(whole=True)

    def abort(self) -> None:
        if self._open:
            self._open = False
            self.store.abort()
            self._lifecycle.ended(whole=False)

    def _check_open(self, txid: int) -> None:
        if not self._open:
            hint = "Recover the journal, then begin another segment."
            raise JournalError("the segment was abandoned", file=self._place, txid=txid, hint=hint)

    @contextmanager
    def _abandoning(self, what: str, txid: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.abort()
            problem = f"the segment {what}: {error_text(error, Path(self._place))}"
            raise JournalStorageError(problem, file=self._place, txid=txid) from error
        except BaseException:
            self.abort()
            raise
