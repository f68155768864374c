"""Fetches finalized segments that a node missed from its peers (JournalNodeSyncer).

A missing segment is fetched to a separate folder, checked as a whole, and made durable. Then it is moved into the
journal under the journal's lock, or removed. Each round (`sync`) asks one peer; the peers take turns. During a round,
the writer's calls may begin, finalize or recover segments, or format the journal again. After a restart, `begin`
removes fetched segments that were not moved.

Faults that cannot occur, with the reasons:

- A stored transaction that was never on a majority: only segments up to the committed txid are requested, and
  `move_in_fetched` checks this again. All finalized copies of these segments have the same content.
- A replacement of the writer's open segment: the open segment is not missing when the round begins, and a segment is
  moved only under the lock that the writer's calls hold. An abandoned in-progress copy is set aside. A copy that was
  finalized at the same time has the same content.
- A damaged or short segment that is served: the whole file is checked before its temporary name changes.
- A writer that waits for a slow peer: the lock is not held while a segment is fetched.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_rpc.namenode_values import RemoteEditLog
from hadoop_rpc.qjournal_values import NodeManifest
from journal_node import names
from journal_node.hosted_journal import HostedJournal
from journal_node.peers import PeerNode
from journal_node.recovery import SegmentFetch, checked_end
from journal_node.segment_files import StoredSegment
from journal_node.upkeep import move_in_fetched

_LOG = logging.getLogger(__name__)


class JournalSyncer:
    """Sync of `journal` with `peers`, one peer per round, in turn; not thread-safe."""

    def __init__(self, journal: HostedJournal, peers: Sequence[PeerNode], fetch: SegmentFetch) -> None:
        self._journal = journal
        self._peers = peers
        self._fetch = fetch
        self._turn = 0
        self._logged: dict[str, str] = {}

    def begin(self) -> None:
        """Remove fetched segments that an earlier run left; raise OSError on failure."""
        self._journal.storage.disk.remove_tree(names.EDITS_SYNC)

    def sync(self) -> int:
        """Fetch segments that this node lacks from the next peer; return the number of stored segments.

        An error is logged and ends the round.
        """
        if not self._peers or not self._journal.is_formatted:
            return 0
        peer = self._peers[self._turn % len(self._peers)]
        self._turn += 1
        taken = 0
        try:
            manifest = peer.manifest(self._journal.journal_id)
            for log in self._missing(manifest):
                if not self._take(peer, manifest, log):
                    break
                taken += 1
        except (HdfsError, OSError) as error:
            # The fault of a peer is logged once, not in each round.
            reason = error_text(error)
            level = logging.DEBUG if self._logged.get(peer.name) == reason else logging.WARNING
            _LOG.log(level, "%s: no sync with %s: %s", self._journal.journal_id, peer.name, reason)
            self._logged[peer.name] = reason
        else:
            self._logged.pop(peer.name, None)
        return taken

    def _missing(self, manifest: NodeManifest) -> list[RemoteEditLog]:
        journal = self._journal
        opened = journal.open_segment
        return missing_segments(
            journal.storage.segments.listed(),
            manifest.manifest.logs,
            committed=journal.epochs.committed,
            open_first=None if opened is None else opened.first,
        )

    def _take(self, peer: PeerNode, manifest: NodeManifest, log: RemoteEditLog) -> bool:
        journal = self._journal
        namespace = journal.require_formatted()
        target = names.synced(log.first, log.last)
        url = peer.segment_url(journal.journal_id, log.first, namespace, manifest)
        _LOG.info("%s: segment %d-%d is missing and is fetched from %s", journal.journal_id, log.first, log.last, url)
        journal.storage.disk.make_directory(names.EDITS_SYNC)
        segments = journal.storage.segments
        segments.receive(target, self._fetch(url, namespace), checked_end(log.first, log.last))
        taken = move_in_fetched(journal, target, log.first, log.last)
        if not taken:
            journal.storage.disk.remove(target)
        return taken


def missing_segments(
    own: Sequence[StoredSegment], theirs: Sequence[RemoteEditLog], *, committed: int, open_first: int | None
) -> list[RemoteEditLog]:
    """Return a peer's finalized, completely committed segments that do not overlap this node's finalized segments.

    Args:
        open_first: first txid of the segment that is being written on this node; the writer will finalize it.
    """
    return [
        log
        for log in theirs
        if not log.in_progress
        and log.last <= committed
        and log.first != open_first
        and not any(each.last is not None and each.first <= log.last and log.first <= each.last for each in own)
    ]
