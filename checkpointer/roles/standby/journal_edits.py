"""Shared edits in a journal of any kind: a quorum of JournalNodes, or another journal with readable segments."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from checkpointer.roles.standby.edit_source import EditsView
from hadoop_common.storage_info import StorageInfo
from journal.errors import JournalError, TransactionGapError
from journal.journal import ReadableSegment
from journal.segment_file import EditLogSegment
from node_state.state import JournalNodeState

_LOG = logging.getLogger(__name__)


class ReadableJournal(Protocol):
    """The part of a `Journal` for readers, which neither fences writers nor changes the journal."""

    def segments(self, from_txid: int, *, in_progress: bool = False) -> Sequence[ReadableSegment]: ...

    def close(self) -> None: ...


class SharedJournalEdits:
    """The edits in a journal (`EditSource`).

    Args:
        location: URI of the journal.
        open_journal: opens the journal for reading, without connecting.
        confirm: returns whether the journal is known to belong to a namespace. It returns False if no node answers, and
            raises StorageError if the journal belongs to another namespace. The reader calls it until it first returns
            True.
        journal_nodes: returns the last responses of the JournalNodes; None if the edits are not on JournalNodes.
        batch: number of transactions of the open segment from which a response may be incomplete; None if responses are
            always complete.
    """

    def __init__(
        self,
        location: str,
        open_journal: Callable[[StorageInfo], ReadableJournal],
        *,
        confirm: Callable[[StorageInfo], bool] = lambda namespace: True,
        journal_nodes: Callable[[], tuple[JournalNodeState, ...] | None] = lambda: None,
        batch: int | None = None,
    ) -> None:
        self._location = location
        self._open_journal = open_journal
        self._confirm = confirm
        self._nodes = journal_nodes
        self._batch = batch
        self._guard = threading.Lock()
        self._namespace: StorageInfo | None = None
        self._journal: ReadableJournal | None = None
        self._confirmed = False
        self._finalized = -1

    # ---- lifecycle -----------------------------------------------------------------------------------------

    @property
    def location(self) -> str:
        return self._location

    def open(self, namespace: StorageInfo) -> None:
        with self._guard:
            self._namespace = namespace
            self._journal = self._open_journal(namespace)
        if not self._is_confirmed(namespace):
            _LOG.warning("the namespace of the edits in %s is unknown, because no node answers", self._location)

    def close(self) -> None:
        with self._guard:
            journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    def _reading(self) -> ReadableJournal:
        """Return the journal, after a check that no node reports another namespace for it."""
        with self._guard:
            journal, namespace = self._journal, self._namespace
        if journal is None or namespace is None:
            raise JournalError("the journal is not open", file=self._location, hint="Start the daemon again.")
        self._is_confirmed(namespace)
        return journal

    def _is_confirmed(self, namespace: StorageInfo) -> bool:
        self._confirmed = self._confirmed or self._confirm(namespace)
        return self._confirmed

    # ---- reading -------------------------------------------------------------------------------------------

    def version(self) -> None:
        """Return None, because the VERSION of a journal cannot be read."""

    def files(self) -> list[EditLogSegment]:
        return []

    def journal_nodes(self) -> tuple[JournalNodeState, ...] | None:
        return self._nodes()

    def finalized_txid(self) -> int:
        return self._finalized

    def update_finalized(self, from_txid: int) -> None:
        """List segments even after a gap, because the newest transaction is important even if it is unreachable."""
        journal = self._reading()
        while True:
            try:
                found = journal.segments(from_txid)
            except TransactionGapError as gap:
                if gap.found is None or gap.found <= from_txid:
                    raise
                from_txid = gap.found
            else:
                self._finalized = found[-1].last if found else -1
                return

    def view(self, from_txid: int, *, in_progress: bool) -> EditsView:
        journal = self._reading()
        fault = ""
        found: Sequence[ReadableSegment] = ()
        if in_progress:
            try:
                found = _listed(journal, from_txid, in_progress=True)
            except TransactionGapError:
                raise
            except JournalError as error:
                fault = str(error)
        if not found:
            # Perhaps only the open segment is unreadable. Edits in progress come from the nodes' caches, and nodes that
            # lag behind may hide segments that other nodes have finalized.
            found = _listed(journal, from_txid, in_progress=False)
        finalized = tuple(each for each in found if not each.in_progress)
        tail = next((each for each in found if each.in_progress), None)
        if finalized:
            self._finalized = finalized[-1].last
        last = found[-1].last if found else from_txid - 1
        # JournalNodes do not return a segment's first transaction before the second transaction is written.
        more = tail is not None and self._batch is not None and tail.last - from_txid + 2 >= self._batch
        return EditsView(finalized, tail, last, fault, more)

    # ---- the past ------------------------------------------------------------------------------------------

    def present(self, first: int, last: int) -> Sequence[ReadableSegment]:
        """Return present segments. If `first` is missing, it was purged, or the nodes with it are unavailable."""
        journal = self._reading()
        try:
            found = list(journal.segments(first))
        except TransactionGapError as gap:
            if gap.expected != first or gap.found is None:
                raise
            found = list(journal.segments(gap.found))
        reached = found[-1].last if found else first - 1
        if reached < last:
            try:
                found += journal.segments(reached + 1, in_progress=True)
            except TransactionGapError as gap:
                _LOG.debug("the open segment cannot be read after txid %d: %s", reached, gap)
        return found


def _listed(journal: ReadableJournal, from_txid: int, *, in_progress: bool) -> Sequence[ReadableSegment]:
    """List segments. After a gap, list them again, because a segment may have ended between the nodes' responses."""
    try:
        return journal.segments(from_txid, in_progress=in_progress)
    except TransactionGapError:
        return journal.segments(from_txid, in_progress=in_progress)
