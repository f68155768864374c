"""The journal as a write-ahead log (HDFS-1580): what every kind of it offers, wherever it keeps its segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hadoop_common.storage_info import StorageInfo
from journal.operation import EditOp


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Transactions `first` to `last` one after the other, encoded as in a segment file of the segment's layout."""

    first: int
    last: int
    records: bytes | bytearray | memoryview

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class SegmentWriter(Protocol):
    """The segment in progress of a journal; one thread at a time.

    After an error of `append` or `finalize` the journal may hold the batch, a part of it, or nothing: only
    `Journal.recover` tells, and until then the writer takes nothing more.
    """

    @property
    def first_txid(self) -> int: ...

    def append(self, batch: RecordBatch) -> None:
        """Make `batch` durable; it begins behind the one before, the first one at `first_txid`.

        Raises:
            JournalError: it may not be durable.
        """

    def finalize(self, last_txid: int) -> None:
        """End the segment; `last_txid` is that of the last batch.

        Raises:
            JournalError: the segment may still be in progress.
        """

    def abort(self) -> None:
        """Let go of the segment and leave it in progress; raises nothing."""


class ReadableSegment(Protocol):
    """A segment that can be read, from one or several copies of it.

    Attributes:
        first: its first txid.
        last: the last txid that can be read; of a segment in progress, what was durable when it was looked at.
        name: for errors and logs.
    """

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...

    @property
    def in_progress(self) -> bool: ...

    @property
    def name(self) -> str: ...

    def read(self, from_txid: int) -> Iterator[EditOp]:
        """Operations `from_txid` to `last`.

        Raises:
            JournalError: they cannot be read.
        """


class Journal(Protocol):
    """A write-ahead log of transactions in segments. Any thread may call; one writer at a time.

    Attributes:
        location: its URI.
    """

    @property
    def location(self) -> str: ...

    def is_formatted(self) -> bool:
        """Whether it is there already, with transactions or without.

        Raises:
            JournalError: it cannot be told.
        """

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        """Begin an empty journal for `namespace`.

        Raises:
            JournalExistsError: there is one, and `force` is not set; it is as it was.
            JournalError: it could not be made.
        """

    def recover(self, namespace: StorageInfo) -> None:
        """Fence whoever wrote before, and finalize what was left in progress; a writer does this first.

        Raises:
            JournalError: the journal cannot be recovered, or belongs to another namespace.
        """

    def start_segment(self, first_txid: int, layout_version: int) -> SegmentWriter:
        """Begin a segment; the START_LOG_SEGMENT that it opens with is the caller's to append.

        Raises:
            JournalInUseError: a segment of this journal is being written.
            JournalError: it cannot be begun, or `recover` was not called.
        """

    def segments(self, from_txid: int, *, in_progress: bool = False) -> Sequence[ReadableSegment]:
        """Segments that hold `from_txid` and what follows without a gap, in order; the open one last, if asked for.

        Raises:
            TransactionGapError: transactions are missing between `from_txid` and the newest one.
            JournalError: they cannot be listed.
        """

    def count(self, from_txid: int, *, in_progress: bool = False) -> int:
        """How many transactions there are from `from_txid` on.

        Raises:
            TransactionGapError: some are missing in between; it names them.
        """

    def purge(self, min_txid_to_keep: int) -> None:
        """Remove finalized segments whose transactions all lie before `min_txid_to_keep`.

        Raises:
            JournalError: some could not be removed.
        """

    def close(self) -> None:
        """Let go of connections and files; the segment in progress stays as it is. A second call does nothing."""
