"""Changes of a whole journal: formatting, upgrades, and discarded or fetched segments (Journal)."""

from __future__ import annotations

import logging

from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import IllegalStateError
from hadoop_rpc.qjournal_values import INVALID_TXID
from journal_node import names
from journal_node.hosted_journal import HostedJournal
from journal_node.recovery import accepted_recovery
from journal_node.rules import Epochs

_LOG = logging.getLogger(__name__)


def format_journal(journal: HostedJournal, namespace: StorageInfo, *, force: bool, not_empty: bool = True) -> None:
    """Create an empty journal.

    Args:
        not_empty: whether `force` applies to a journal with segments.

    Raises:
        InconsistentStorageError: a journal exists, and `force` is not set.
        IllegalStateError: the journal has segments, and `not_empty` is not set.
    """
    location = journal.storage.location
    with journal.lock:
        journal.require_open()
        if not namespace.namespace_id:
            raise IllegalStateError("a journal cannot be formatted for the namespaceID 0")
        may_hold = not not_empty and journal.storage.disk.exists(names.CURRENT)
        if may_hold and (segments := journal.storage.segments.listed()):
            raise IllegalStateError(
                f"journal {journal.journal_id} has {counted(len(segments), 'segment')} and is therefore not formatted: "
                "set checkpointer.journalnode.format.not-empty on this node to allow formatting, or move the "
                "journal's folder away"
            )
        _LOG.warning("%s: %s is formatted for %s", journal.journal_id, location, namespace.colon_string())
        journal.abort()
        journal.storage.format(namespace, force=force)
        journal.reload()


def self_format(journal: HostedJournal, namespace: StorageInfo, promised: int) -> None:
    """Create an empty journal for the namespace of the peers' journals, with the newest epoch that a peer has promised.

    This node may have had transactions before, so it reports no segments until a segment begins.
    """
    location = journal.storage.location
    with journal.lock:
        journal.require_open()
        if not journal.is_formatted:
            _LOG.warning("%s: %s formats itself for %s", journal.journal_id, location, namespace.colon_string())
            journal.storage.format(namespace, force=False, epochs=Epochs(promised=promised))
            journal.reload()


def discard_segments(journal: HostedJournal, first_txid: int) -> None:
    """Set aside all segments from `first_txid` on, and remove the records of their recoveries.

    A segment that begins earlier is not split. Interrupted acceptances of earlier segments are completed first, because
    a later recovery would complete them, and restore discarded transactions. After a kill or an error, a repeated call
    completes the discard. Until then, no transactions are missing between segments, and each remaining segment has its
    record.

    Raises:
        IllegalStateError: a segment contains both `first_txid` and earlier transactions.
    """
    with journal.lock:
        journal.require_formatted()
        segments = journal.storage.segments
        recovered = segments.recovered()
        for first in recovered:
            if first < first_txid:
                accepted_recovery(journal, first)
        doomed = []
        for segment in segments.listed():
            if segment.first >= first_txid:
                doomed.append(segment)
            elif (journal.end_of(segment).last or INVALID_TXID) >= first_txid:
                raise IllegalStateError(f"txid {first_txid} is within {segment.name}, which cannot be split")
        journal.abort()
        for segment in reversed(doomed):
            segments.set_aside(segment, ".trash")
        for first in recovered:
            if first >= first_txid:
                segments.forget_accepted(first)
        journal.storage.save_committed(first_txid - 1)
        journal.reload()


def move_in_fetched(journal: HostedJournal, source: str, first: int, last: int) -> bool:
    """Store the finalized segment from `source`.

    Return False if this node is writing the segment, or if the segment may be uncommitted.
    """
    with journal.lock:
        journal.require_formatted()
        segment = journal.open_segment
        if last > journal.epochs.committed or (segment is not None and segment.first == first):
            return False
        if journal.storage.segments.move_in(source, first, last):
            journal.forget_cached()
        journal.highest = max(journal.highest, last)
        journal.counters.segments_synced += 1
        return True


def do_pre_upgrade(journal: HostedJournal) -> None:
    with journal.lock:
        journal.require_formatted()
        journal.abort()
        journal.storage.pre_upgrade()


def do_upgrade(journal: HostedJournal, namespace: StorageInfo) -> None:
    with journal.lock:
        journal.require_formatted()
        journal.storage.upgrade(namespace)
        journal.reload()


def do_finalize(journal: HostedJournal) -> None:
    with journal.lock:
        journal.require_formatted()
        journal.storage.finalize_upgrade()


def can_roll_back(
    journal: HostedJournal, storage: StorageInfo, previous: StorageInfo, target_layout_version: int
) -> bool:
    with journal.lock:
        journal.require_formatted()
        return journal.storage.can_roll_back(storage, previous, target_layout_version)


def do_rollback(journal: HostedJournal) -> None:
    with journal.lock:
        journal.require_formatted()
        journal.abort()
        journal.storage.roll_back()
        journal.reload()
