"""A node's part in the recovery of a segment: prepareRecovery, acceptRecovery, finalizeLogSegment (Journal)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import IllegalArgumentRemoteError, JavaIOError, JournalOutOfSyncError
from hadoop_rpc.qjournal_values import PreparedRecovery, RequestInfo, SegmentState
from journal.primitives import Buffer
from journal_node import names
from journal_node.hosted_journal import HostedJournal
from journal_node.paxos import AcceptedRecovery, DownloadReason, prepared, wants_download
from journal_node.rules import check_end, check_range, may_finalize
from journal_node.segment_scan import scan_end

_LOG = logging.getLogger(__name__)


class SegmentFetch(Protocol):
    """Fetcher of segments from another JournalNode."""

    def __call__(self, url: str, namespace: StorageInfo) -> Iterator[bytes]:
        """Yield the whole file at `url` in pieces.

        Raises:
            HdfsError: the file cannot be fetched completely.
        """


def prepare_recovery(journal: HostedJournal, request: RequestInfo, segment_txid: int) -> PreparedRecovery:
    """Report this node's copy of a segment; from then on, only the caller may write."""
    with journal.lock:
        journal.require_formatted()
        journal.settle_upgrade()
        journal.check_vote()
        journal.check(request)
        journal.abort()
        accepted = accepted_recovery(journal, segment_txid)
        answer = prepared(_own_copy(journal, segment_txid), accepted, journal.epochs)
        _LOG.info("%s: recovery of segment %d is prepared: %s", journal.journal_id, segment_txid, answer)
        return answer


def accept_recovery(
    journal: HostedJournal,
    request: RequestInfo,
    wanted: SegmentState,
    from_url: str,
    fetch: SegmentFetch,
    is_own: Callable[[str], bool],
) -> None:
    """Accept `wanted` for the segment; replace a missing or different copy with the copy at `from_url`.

    The fetched copy is stored separately until the record of the acceptance is durable. Then it replaces this node's
    copy. After a kill, either nothing was accepted, or `prepare_recovery` completes the acceptance (HDFS-3955).

    Args:
        is_own: returns whether a URL belongs to this node, whose copy is then the wanted copy.

    Raises:
        HdfsError: nothing was accepted. A failed comparison is also an error. An unchecked copy may have transactions
            that were never on a majority, whereas a refusal does no more harm than a node that is down.
    """
    with journal.lock:
        journal.require_formatted()
        journal.settle_upgrade()
        journal.check(request)
        journal.abort()
        segments, first = journal.storage.segments, wanted.first
        before = accepted_recovery(journal, first)
        own = _own_copy(journal, first)
        download = wants_download(wanted, own, before, request.epoch, journal.epochs.committed)
        if download is DownloadReason.COMPARISON and is_own(from_url):
            download = DownloadReason.NOTHING
        replaces = False
        if download is not DownloadReason.NOTHING:
            _LOG.info(
                "%s: segment %s is fetched from %s, this node's copy: %s", journal.journal_id, wanted, from_url, own
            )
            chunks = fetch(from_url, journal.require_formatted())
            segments.receive(names.download(first, request.epoch), chunks, checked_end(first, wanted.last))
            replaces = download is DownloadReason.REPLACEMENT or not _is_needless(journal, wanted, request.epoch)
        if not replaces:
            segments.sync(first)
        segments.save_accepted(AcceptedRecovery(wanted, request.epoch))
        if replaces:
            segments.put_in_place(first, request.epoch)
            _follow(journal, own, wanted)
        _LOG.info("%s: recovery of segment %d is accepted: %s", journal.journal_id, first, wanted)


def finalize_log_segment(journal: HostedJournal, request: RequestInfo, first: int, last: int) -> None:
    """Finalize a segment that the writer has opened on this node, or whose recovery this node has accepted."""
    with journal.lock:
        journal.check(request)
        check_range(first, last)
        segments = journal.storage.segments
        written = journal.end_writing(first)
        if written is not None:
            check_end(first, last, written)
        accepted = accepted_recovery(journal, first)
        segment = segments.find(first)
        if segment is None:
            raise JournalOutOfSyncError(f"cannot finalize segment {first}: it does not exist")
        if segment.in_progress:
            if written is None:
                check_end(first, last, journal.end_of(segment).last or first - 1)
                accepted_in = None if accepted is None else accepted.epoch
                may_finalize(first, request.epoch, accepted_in, journal.epochs.writer, segments.listed()[-1].first)
            segments.finalize(first, last)
        elif segment.last != last:
            problem = f"segment {first} was already finalized with txid {segment.last}, not with {last}"
            raise IllegalArgumentRemoteError(problem)
        segments.forget_accepted(first)


def accepted_recovery(journal: HostedJournal, first: int) -> AcceptedRecovery | None:
    """Return the accepted recovery of the segment, after completing an interrupted replacement of its copy."""
    segments = journal.storage.segments
    accepted = segments.accepted(first)
    if accepted is not None and segments.put_in_place(first, accepted.epoch):
        _LOG.warning("%s: the acceptance of %s was interrupted and is completed", journal.journal_id, accepted)
        _follow(journal, None, accepted.segment)
    return accepted


def checked_end(first: int, last: int) -> Callable[[Buffer], None]:
    """Return a function that raises JavaIOError if a file does not have intact transactions `first` to `last`."""

    def check(content: Buffer) -> None:
        end = scan_end(content, first)
        if end.last != last or end.damage:
            found = end.damage or f"it ends with txid {end.last}"
            raise JavaIOError(f"the fetched file is not segment {first} up to txid {last}: {found}")

    return check


def _is_needless(journal: HostedJournal, wanted: SegmentState, epoch: int) -> bool:
    """Remove the fetched copy if it has the same transactions as this node's copy; return whether it was removed."""
    segments = journal.storage.segments
    if not segments.same_as_fetched(wanted.first, wanted.last, epoch):
        _LOG.warning("%s: this node's copy of %s has other transactions and is replaced", journal.journal_id, wanted)
        return False
    segments.drop_fetched(wanted.first, epoch)
    return True


def _follow(journal: HostedJournal, own: SegmentState | None, wanted: SegmentState) -> None:
    """Update the newest txid and the cache after the copy has been replaced."""
    if own is not None and own.first <= journal.highest <= own.last:
        journal.highest = wanted.last
    else:
        journal.highest = max(journal.highest, wanted.last)
    journal.forget_cached()


def _own_copy(journal: HostedJournal, first: int) -> SegmentState | None:
    """Return this node's copy of a segment; set a file without transactions aside (Journal.getSegmentInfo)."""
    segment = journal.storage.segments.find(first)
    if segment is None:
        return None
    end = journal.end_of(segment)
    if end.damage:
        raise JavaIOError(f"{segment.name} in {journal.storage.location} is damaged: {end.damage}")
    if end.last is None:
        journal.storage.segments.set_aside(segment, ".empty")
        return None
    return SegmentState(first, end.last, segment.in_progress)
