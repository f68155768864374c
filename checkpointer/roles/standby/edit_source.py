"""The edits that the active shares with its standbys, as a standby reads them, wherever they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hadoop_common.storage_info import StorageInfo
from journal.journal import ReadableSegment
from journal.segment_file import EditLogSegment
from servlets.node_state import JournalNodeState


@dataclass(frozen=True, slots=True)
class EditsView:
    """Finalized segments to replay in their order, and what of the open one can be read behind them.

    Attributes:
        last_txid: newest transaction that was found, at least the one before the first that was asked for.
        open_fault: why the open segment could not be read, "" where it could or is not to be.
        more: whether there may be more than this, because one look brings a part only.
    """

    segments: tuple[ReadableSegment, ...]
    tail: ReadableSegment | None
    last_txid: int
    open_fault: str = ""
    more: bool = False


class EditSource(Protocol):
    """Shared edits that are looked at and never changed: who reads them must not be in the way of who writes them.

    One thread at a time follows them with `view`; the rest may be called from any thread.
    """

    @property
    def location(self) -> str:
        """Where they are, for people: a folder, or a URI."""

    def open(self, namespace: StorageInfo) -> None:
        """Begin to read for `namespace`; what cannot be read now may be there later.

        Raises:
            StorageError: they belong to another namespace or cluster.
        """

    def close(self) -> None:
        """Let go of connections; callers that wait for an answer get an error. A second call does nothing."""

    def version(self) -> StorageInfo | None:
        """VERSION that lies beside the edits; None where it cannot be read, so that NameNodes have to tell.

        Raises:
            StorageError: it cannot be read now.
        """

    def view(self, from_txid: int, *, in_progress: bool) -> EditsView:
        """What can be replayed from `from_txid` on.

        Raises:
            TransactionGapError: transactions are missing.
            StorageError, JournalError: they cannot be read.
        """

    def look(self, from_txid: int) -> None:
        """Learn how far finalized segments from `from_txid` on reach, where `finalized_txid` does not look itself.

        Raises:
            StorageError, JournalError: it cannot be told.
        """

    def finalized_txid(self) -> int:
        """Newest transaction of the finalized segments, as far as it is known without waiting; -1 for none.

        Raises:
            StorageError: it cannot be told.
        """

    def present(self, first: int, last: int) -> Sequence[ReadableSegment]:
        """Segments that end at `first` or later, by first txid; the open one, if it can be read, where `last` needs it.

        Raises:
            StorageError, JournalError: they cannot be listed now.
        """

    def files(self) -> list[EditLogSegment]:
        """The segments that are files here, to be served and shown; empty where they are kept in another way.

        Raises:
            StorageError: they cannot be listed.
        """

    def journal_nodes(self) -> tuple[JournalNodeState, ...] | None:
        """The JournalNodes as they answered last; None where the edits are not on some."""
