"""Reads a journal without waiting for its writer (Journal, GetJournalEditServlet)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

from hadoop_rpc.errors import EditsCacheMissError, JavaIOError, NewerTxidError
from hadoop_rpc.namenode_values import EditLogManifest, RemoteEditLog
from hadoop_rpc.qjournal_values import JournaledEdits
from journal_node.hosted_journal import HostedJournal


@dataclass(frozen=True, slots=True)
class SegmentContent:
    """A segment to send: file name, number of bytes to send, and source of the bytes."""

    name: str
    size: int
    content: BinaryIO


def edit_log_manifest(journal: HostedJournal, since: int, *, in_progress_ok: bool) -> EditLogManifest:
    """Return the segments that contain `since` or begin after it; a segment in progress ends at its durable end."""
    journal.require_formatted()
    committed = journal.epochs.committed
    try:
        logs = _logs(journal, in_progress_ok=in_progress_ok)
    except FileNotFoundError:
        # A segment was renamed after the listing.
        logs = _logs(journal, in_progress_ok=in_progress_ok)
    return EditLogManifest(tuple(log for log in logs if log.last >= max(since, log.first)), committed)


def _logs(journal: HostedJournal, *, in_progress_ok: bool) -> list[RemoteEditLog]:
    opened, highest = journal.open_segment, journal.highest
    listed = journal.storage.segments.listed()
    logs = []
    for segment in listed:
        if segment.last is not None:
            logs.append(RemoteEditLog(segment.first, segment.last))
        elif not in_progress_ok:
            continue
        elif opened is not None and opened.first == segment.first:
            logs.append(RemoteEditLog(segment.first, opened.next_txid - 1, in_progress=True))
        elif segment == listed[-1]:
            logs.append(RemoteEditLog(segment.first, highest, in_progress=True))
        else:
            # The writer continued with another segment, and this node missed the end of this segment.
            last = journal.storage.segments.end_of(segment).last
            logs.append(RemoteEditLog(segment.first, segment.first - 1 if last is None else last, in_progress=True))
    return logs


def journaled_edits(journal: HostedJournal, since: int, max_transactions: int) -> JournaledEdits:
    """Return transactions from `since` on in the cache.

    Raises:
        JavaIOError: the cache is disabled.
        NewerTxidError: `since` is later than the next transaction, so this node lags.
        EditsCacheMissError: `since` is no longer in the cache.
    """
    journal.require_formatted()
    if journal.cache is None:
        raise JavaIOError("this JournalNode does not cache edits; set dfs.ha.tail-edits.in-progress to cache them")
    highest = journal.highest
    if since > highest:
        journal.counters.rpc_empty_answers += 1
        if since > highest + 1:
            raise NewerTxidError(f"the newest txid on this JournalNode is {highest}, but {since} was requested")
        return JournaledEdits(0, b"")
    try:
        edits = journal.cache.retrieve(since, min(max_transactions, highest - since + 1))
    except EditsCacheMissError as error:
        journal.counters.rpc_requests_missed += 1
        journal.counters.rpc_transactions_missed += error.missing
        raise
    journal.counters.rpc_transactions += edits.count
    journal.counters.rpc_bytes += len(edits.content)
    return edits


def find_segment(journal: HostedJournal, first: int, *, in_progress_ok: bool) -> SegmentContent | None:
    """Return the segment that begins with `first`; the open segment is limited to its complete batches."""
    journal.require_formatted()
    opened = journal.open_segment
    found = journal.storage.segments.open(first, in_progress_ok=in_progress_ok)
    if found is None:
        return None
    segment, content = found
    size = content.seek(0, os.SEEK_END)
    content.seek(0)
    if segment.in_progress and opened is not None and opened.first == first:
        size = opened.size
    return SegmentContent(segment.name.rpartition("/")[2], size, content)
