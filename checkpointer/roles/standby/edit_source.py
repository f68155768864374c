"""Interface to the edits that the active NameNode shares with its standbys, for any kind of storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hadoop_common.storage_info import StorageInfo
from journal.journal import ReadableSegment
from journal.segment_file import EditLogSegment
from node_state.state import JournalNodeState


@dataclass(frozen=True, slots=True)
class EditsView:
    """Finalized segments to replay, in order, and the readable part of the open segment that follows.

    Attributes:
        last_txid: newest transaction found; if none was found, the transaction before the first requested transaction.
        open_fault: reason why the open segment could not be read, "" if it was read or not requested.
        more: whether more edits may exist, because one request returns only a part of the edits.
    """

    segments: tuple[ReadableSegment, ...]
    tail: ReadableSegment | None
    last_txid: int
    open_fault: str = ""
    more: bool = False


class EditSource(Protocol):
    """Read access to shared edits. Implementations neither change the edits nor disturb their writer.

    Only one thread at a time may call `view`; any thread may call the other methods.
    """

    @property
    def location(self) -> str:
        """Location for messages: a folder or a URI."""

    def open(self, namespace: StorageInfo) -> None:
        """Begin to read the edits of `namespace`; edits that are unreadable now may become readable later.

        Raises:
            StorageError: the edits belong to another namespace or cluster.
        """

    def close(self) -> None:
        """Close connections; waiting callers receive an error. A second call has no effect."""

    def version(self) -> StorageInfo | None:
        """Return the VERSION next to the edits; None if it does not exist and NameNodes must be queried.

        Raises:
            StorageError: the VERSION cannot be read now.
        """

    def view(self, from_txid: int, *, in_progress: bool) -> EditsView:
        """Return the edits that can be replayed from `from_txid` on.

        Raises:
            TransactionGapError: transactions are missing.
            StorageError, JournalError: the edits cannot be read.
        """

    def update_finalized(self, from_txid: int) -> None:
        """Find the end of the finalized segments from `from_txid` on, unless `finalized_txid` itself finds this end.

        Raises:
            StorageError, JournalError: the segments cannot be listed.
        """

    def finalized_txid(self) -> int:
        """Return the newest known transaction of the finalized segments, or -1 if there is none; do not wait.

        Raises:
            StorageError: the source cannot be read.
        """

    def present(self, first: int, last: int) -> Sequence[ReadableSegment]:
        """Return segments that end at `first` or later, by first txid. Include the readable open segment if `last`
        requires it.

        Raises:
            StorageError, JournalError: the segments cannot be listed now.
        """

    def files(self) -> list[EditLogSegment]:
        """Return the segments in the shared directory, which this node can serve and display; an empty list if the
        edits are elsewhere.

        Raises:
            StorageError: the files cannot be listed.
        """

    def journal_nodes(self) -> tuple[JournalNodeState, ...] | None:
        """Return the last responses of the JournalNodes; None if the edits are not on JournalNodes."""
