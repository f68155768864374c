"""Read-only queries about a standby's shared edits in a directory, on JournalNodes or in another journal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from checkpointer.checks.bounded import ask_all
from checkpointer.checks.facts import JournalFacts, Observation
from checkpointer.roles.standby.folder_edits import list_journal
from checkpointer.storage.inspector import read_storage_info
from hadoop_common.addresses import uri_scheme
from hadoop_common.names import SegmentName
from hadoop_common.storage_info import StorageInfo
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions
from journal.errors import TransactionGapError
from journal.journal import Journal, ReadableSegment
from journal.open_journal import open_journal
from journal.quorum.address import SCHEME, QuorumAddress
from journal.quorum.calls import majority
from journal.quorum.node_answers import NodeAnswer, NodeQuery, ask_nodes, lacking_open_segment
from site_config.checkpoint_config import CheckpointConfig

# consecutive requests to each JournalNode
_QUESTIONS = 3


def ask_journal(config: CheckpointConfig, namespace: StorageInfo | None, limit: float) -> JournalFacts | None:
    """Return the facts of the shared edits; None for a role without shared edits.

    Args:
        namespace: namespace to which the journal of each JournalNode should belong; None skips this query.
        limit: time for all queries, in seconds.
    """
    if not config.shared_edits:
        return None
    if config.shared_edits_directory is not None:
        return _directory(config.shared_edits_directory, limit)
    if uri_scheme(config.shared_edits) == SCHEME:
        return _quorum(config, namespace, limit)
    return _journal(config, limit)


def _directory(shared: Path, limit: float) -> JournalFacts:
    folder = shared / "current"
    info = ask_all({shared: lambda: read_storage_info(shared)}, limit)[shared]
    segments = ask_all({folder: lambda: _ranges(folder)}, limit)[folder]
    return JournalFacts(place=str(folder), storage_info=info, segments=segments)


def _ranges(folder: Path) -> tuple[SegmentName, ...]:
    return tuple(SegmentName(each.first, each.last) for each in list_journal(folder))


def _quorum(config: CheckpointConfig, namespace: StorageInfo | None, limit: float) -> JournalFacts:
    address = QuorumAddress.parse(config.shared_edits)
    question = NodeQuery(
        quorum=address,
        user=config.rpc_user,
        timeout=limit / _QUESTIONS,
        nameservice=config.nameservice or None,
        namespace=namespace,
    )
    deadline = time.monotonic() + limit
    answer = ask_all({address.uri: lambda: ask_nodes(question)}, limit)[address.uri]
    found = answer.value or [NodeAnswer(str(node), fault=answer.error) for node in address.nodes]
    nodes = _asked_again(question, found, deadline - time.monotonic())
    return JournalFacts(place=address.uri, segments=_held(nodes), nodes=nodes)


def _asked_again(question: NodeQuery, found: Sequence[NodeAnswer], left: float) -> tuple[NodeAnswer, ...]:
    """Query the nodes that lack the open segment again, because the segment may have only just begun; return all
    responses.

    If a node does not respond again within `left` seconds, use its first response.
    """
    lacking = {node.address for node in lacking_open_segment(found)}
    if not lacking or left <= 0:
        return tuple(found)
    nodes = tuple(node for node in question.quorum.nodes if str(node) in lacking)
    again = replace(question, quorum=replace(question.quorum, nodes=nodes), timeout=left / _QUESTIONS)
    answers = ask_all({"nodes": lambda: ask_nodes(again)}, left)["nodes"].value or []
    newer = {node.address: node for node in answers if not node.fault}
    return tuple(newer.get(node.address, node) for node in found)


def _held(nodes: Iterable[NodeAnswer]) -> Observation[tuple[SegmentName, ...]]:
    """Return the union of the nodes' segments, except segments of another namespace. Without a majority, return an
    error, because a minority may lack finalized segments.
    """
    asked = list(nodes)
    answering = [node for node in asked if not node.fault and node.same_namespace is not False]
    if len(answering) < majority(len(asked)):
        foreign = any(node.same_namespace is False for node in asked)
        what = "list the edits of this namespace" if foreign else "answer"
        return Observation(error=f"{len(answering)} of {len(asked)} JournalNodes {what}")
    logs = {log for node in answering for log in node.logs}
    ranges = {SegmentName(log.first, None if log.in_progress else log.last) for log in logs}
    finalized = {each.first for each in ranges if each.last is not None}
    # a node that missed the end of a segment keeps the segment in progress forever
    kept = (each for each in ranges if each.last is not None or each.first not in finalized)
    return Observation(tuple(sorted(kept, key=lambda each: (each.first, each.last is None, each.last or 0))))


def _journal(config: CheckpointConfig, limit: float) -> JournalFacts:
    uri = config.shared_edits

    def ranges() -> tuple[SegmentName, ...]:
        journal = open_journal(uri, bookkeeper=BookKeeperOptions(config.bookkeeper))
        try:
            segments = _behind_the_gaps(journal)
            return tuple(SegmentName(each.first, None if each.in_progress else each.last) for each in segments)
        finally:
            journal.close()

    return JournalFacts(place=uri, segments=ask_all({uri: ranges}, limit)[uri])


def _behind_the_gaps(journal: Journal) -> Sequence[ReadableSegment]:
    """Return the segments after the last gap; earlier segments were purged or are missing."""
    first = 1
    while True:
        try:
            return journal.segments(first, in_progress=True)
        except TransactionGapError as gap:
            if gap.found is None or gap.found <= first:
                raise
            first = gap.found
