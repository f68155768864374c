"""The write-ahead log (HDFS-1580): interfaces that every kind of journal implements, regardless of its storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hadoop_common.storage_info import StorageInfo
from journal.operation import EditOp


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Consecutive transactions `first` to `last`, encoded as in segment files of the same layout."""

    first: int
    last: int
    records: bytes | bytearray | memoryview

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class SegmentWriter(Protocol):
    """The segment in progress of a journal; not thread-safe.

    If `append` or `finalize` raises an error, the journal may contain the batch, a part of the batch, or nothing. Only
    `Journal.recover` determines its content, and the writer does not accept another batch before that.
    """

    @property
    def first_txid(self) -> int: ...

    def append(self, batch: RecordBatch) -> None:
        """Make `batch` durable. The first batch begins at `first_txid`, and each batch continues the previous batch.

        Raises:
            JournalError: the batch may not be durable.
        """

    def finalize(self, last_txid: int) -> None:
        """End the segment; `last_txid` is the last transaction of the last batch.

        Raises:
            JournalError: the segment may still be in progress.
        """

    def abort(self) -> None:
        """Close the segment, and leave it in progress. This method does not raise exceptions."""


class ReadableSegment(Protocol):
    """A segment that can be read, from one or several copies.

    Attributes:
        first: first txid of the segment.
        last: last readable txid; for a segment in progress, the last durable txid when the segment was listed.
        name: name for errors and logs.
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
        """Yield operations `from_txid` to `last`.

        Raises:
            JournalError: the operations cannot be read.
        """


class Journal(Protocol):
    """A write-ahead log of transactions in segments. Thread-safe; one writer at a time.

    Attributes:
        location: URI of the journal.
    """

    @property
    def location(self) -> str: ...

    def is_formatted(self) -> bool:
        """Return whether the journal already exists, with or without transactions.

        Raises:
            JournalError: the journal cannot be read.
        """

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        """Create an empty journal for `namespace`.

        Raises:
            JournalExistsError: a journal exists and `force` is not set; the journal is unchanged.
            JournalError: the journal cannot be created.
        """

    def recover(self, namespace: StorageInfo) -> None:
        """Fence the previous writer, and finalize the segments in progress. Every writer must call this method first.

        Raises:
            JournalError: the journal cannot be recovered, or belongs to another namespace.
        """

    def start_segment(self, first_txid: int, layout_version: int) -> SegmentWriter:
        """Begin a segment; the caller has to append its START_LOG_SEGMENT.

        Raises:
            JournalInUseError: a segment of this journal is being written.
            JournalError: the segment cannot begin, or `recover` was not called.
        """

    def segments(self, from_txid: int, *, in_progress: bool = False) -> Sequence[ReadableSegment]:
        """Return the segments from `from_txid` on, in order and without gaps; `in_progress` includes the open segment.

        Raises:
            TransactionGapError: transactions are missing between `from_txid` and the newest transaction.
            JournalError: the segments cannot be listed.
        """

    def purge(self, min_txid_to_keep: int) -> None:
        """Remove finalized segments whose transactions are all older than `min_txid_to_keep`.

        Raises:
            JournalError: some segments could not be removed.
        """

    def close(self) -> None:
        """Release connections and files; the segment in progress does not change. A second call does nothing."""
