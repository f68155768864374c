"""What readers get of a journal, without waiting for its writer (Journal, GetJournalEditServlet)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

from hadoop_rpc.errors import EditsCacheMissError, JavaIOError, NewerTxidError
from hadoop_rpc.namenode_values import EditLogManifest, RemoteEditLog
from hadoop_rpc.qjournal_values import JournaledEdits
from journal_node.hosted_journal import HostedJournal


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment that may be sent: its file's name, how many bytes of it, and where they come from."""

    name: str
    size: int
    content: BinaryIO


def edit_log_manifest(journal: HostedJournal, since: int, *, in_progress_ok: bool) -> EditLogManifest:
    """Segments that hold `since` or begin behind it; of those in progress, what is durable."""
    journal.require_formatted()
    committed = journal.epochs.committed
    try:
        logs = _logs(journal, in_progress_ok=in_progress_ok)
    except FileNotFoundError:
        # One was renamed between the listing and a look into it.
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
            # Its writer went on with another segment, and this node missed the end of this one.
            last = journal.storage.segments.end_of(segment).last
            logs.append(RemoteEditLog(segment.first, segment.first - 1 if last is None else last, in_progress=True))
    return logs


def journaled_edits(journal: HostedJournal, since: int, max_transactions: int) -> JournaledEdits:
    """Transactions from `since` on, from memory.

    Raises:
        JavaIOError: nothing is kept in memory.
        NewerTxidError: `since` is beyond what comes next: this node lags.
        EditsCacheMissError: it is not kept any more.
    """
    journal.require_formatted()
    if journal.cache is None:
        raise JavaIOError("edits are not kept in memory here, set dfs.ha.tail-edits.in-progress to have them served")
    highest = journal.highest
    if since > highest:
        journal.counters.rpc_empty_answers += 1
        if since > highest + 1:
            raise NewerTxidError(f"the newest txid here is {highest}, {since} was asked for")
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


def find_segment(journal: HostedJournal, first: int, *, in_progress_ok: bool) -> SegmentFile | None:
    """The segment that begins with `first`; of the open one, its whole batches."""
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
    return SegmentFile(segment.name.rpartition("/")[2], size, content)
