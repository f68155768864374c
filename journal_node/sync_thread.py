"""Syncs this node's journals with their peers, with one thread for each journal (JournalNodeSyncer)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from journal_node.hosted_journal import HostedJournal
from journal_node.node import JournalNode
from journal_node.peers import PeerNode
from journal_node.recovery import SegmentFetch
from journal_node.self_format import format_from_peers
from journal_node.syncer import JournalSyncer

_LOG = logging.getLogger(__name__)


class SyncThread:
    """Sync of journal `journal_id` of `node` with `peers` every `interval` seconds.

    Args:
        may_format: whether an unformatted journal is formatted with the data of its peers.
    """

    def __init__(
        self,
        node: JournalNode,
        journal_id: str,
        peers: Sequence[PeerNode],
        fetch: SegmentFetch,
        *,
        interval: float,
        may_format: bool,
    ) -> None:
        self._node = node
        self._journal_id = journal_id
        self._peers = peers
        self._fetch = fetch
        self._interval = interval
        self._may_format = may_format
        self._journal: HostedJournal | None = None
        self._syncer: JournalSyncer | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sync-{journal_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the segment that is being fetched."""
        self._stopping.set()

    def join(self, seconds: float) -> None:
        """Wait at most `seconds` until the thread has ended."""
        self._thread.join(seconds)

    def _run(self) -> None:
        last = ""
        while not self._stopping.is_set():
            try:
                self.round()
            except (HdfsError, OSError) as error:
                # A lasting fault is logged once, not in each round.
                reason = error_text(error)
                level = logging.DEBUG if reason == last else logging.WARNING
                _LOG.log(level, "%s: no sync now: %s", self._journal_id, reason)
                last = reason
            except Exception:
                # Without this thread, missed segments would never arrive, and no error would be logged.
                _LOG.exception("%s: a fault of the JournalNode itself; the sync continues", self._journal_id)
            self._stopping.wait(self._interval)

    def round(self) -> int:
        """Run one round: format if necessary, then fetch from one peer; return the number of fetched segments.

        Raises:
            HdfsError, OSError: the journal cannot be used.
        """
        journal = self._node.open_journal(self._journal_id)
        if not journal.is_formatted and self._may_format:
            format_from_peers(journal, self._peers)
        if journal is not self._journal:
            # This is the first round, or another folder has replaced the journal's folder.
            self._journal, self._syncer = journal, None
        if self._syncer is None and journal.is_formatted:
            self._syncer = JournalSyncer(journal, self._peers, self._fetch)
            self._syncer.begin()
        return 0 if self._syncer is None else self._syncer.sync()
