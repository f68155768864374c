"""Decisions of a quorum journal's writer based on the nodes' responses: the epoch, and the recovery of a segment.

Both decisions require the responses of a majority, and are correct regardless of the content of all other nodes.

- The epoch is one above all promised epochs. A node outside that majority may have promised a later epoch. This node
  refuses the epoch, but a majority without it is sufficient.
- The copy with the highest `recovery_rank` is kept. A finalized copy results from an earlier decision, so it always
  wins. Among in-progress copies, the copy of the latest epoch wins, because its writer had a majority and had recovered
  all older copies. An epoch has only one writer, so of two copies of one epoch, the shorter copy is a prefix of the
  longer copy.

Two majorities always have a common node. Finalized copies of different length, or a committed transaction after the
best copy, are therefore an error: the directory of a node was damaged or changed manually.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hadoop_rpc.errors import RemoteError
from hadoop_rpc.qjournal_values import PreparedRecovery, SegmentState
from journal.quorum.errors import SegmentRecoveryError, WriterFencedError

# Journal.checkRequest; a plain IOException
_FENCED = re.compile(r"epoch -?\d+ is less than the last promised epoch")


def is_fenced(fault: Exception) -> bool:
    """Return whether a node refused a call because it has promised a later writer's epoch."""
    return isinstance(fault, RemoteError) and _FENCED.search(fault.text) is not None


def next_epoch(promised: Mapping[str, int], established: int | None, granted: Mapping[str, int]) -> int:
    """Return the epoch to propose (QuorumJournalManager.createNewUniqueEpoch).

    Args:
        promised: promised epochs of a majority, by node.
        established: last epoch of this writer; None for a new writer.
        granted: epochs that nodes have promised to this writer since that epoch.

    Raises:
        WriterFencedError: a node has made a promise to another writer since that epoch. This writer must restart before
            it may propose a new epoch.
    """
    if established is not None:
        others = {node: epoch for node, epoch in promised.items() if epoch > established and granted.get(node) != epoch}
        if others:
            promises = ", ".join(f"{node} to epoch {epoch}" for node, epoch in sorted(others.items()))
            raise WriterFencedError(f"epoch {established} has been superseded; promised epochs: {promises}")
    return max(promised.values()) + 1


def newest_segment(first_txids: Iterable[int | None]) -> int | None:
    """Return the first txid of the segment to recover, from the responses to newEpoch; None if all nodes are empty."""
    return max((first for first in first_txids if first is not None), default=None)


def recovery_rank(prepared: PreparedRecovery) -> tuple[bool, bool, int, int]:
    """Return the rank of a node's copy of a segment; the best copy has the highest rank (SegmentRecoveryComparator).

    Copies are compared by these criteria, in this order: whether the copy exists, whether it is finalized, the later of
    the epochs in which it was accepted or written, and its length. All finalized copies have the same rank, because
    they are identical.
    """
    segment = prepared.segment
    if segment is None:
        return (False, False, 0, 0)
    if not segment.in_progress:
        return (True, True, 0, 0)
    return (True, False, _seen_epoch(prepared), segment.last)


def may_differ_unseen(chosen: PreparedRecovery, other: PreparedRecovery) -> bool:
    """Return whether a node may unknowingly keep different transactions with the txids of the chosen copy.

    Hadoop's JournalNode compares only the last txid, and keeps its copy if this txid is the same. Copies that contain
    only START_LOG_SEGMENT are always identical, as are in-progress copies that were written or accepted in the same
    epoch. If the chosen copy is finalized, the epoch of the other copy proves nothing, because a later segment may have
    begun on that node.
    """
    best, own = chosen.segment, other.segment
    if best is None or own is None or not own.in_progress or own.last != best.last or own.last == own.first:
        return False
    return not best.in_progress or _seen_epoch(other) != _seen_epoch(chosen)


def _seen_epoch(prepared: PreparedRecovery) -> int:
    return max(prepared.accepted_in_epoch or 0, prepared.last_writer_epoch)


@dataclass(frozen=True, slots=True)
class ChosenSegment:
    """The agreed content of the segment, and a node with this content."""

    node: str
    segment: SegmentState


def choose_recovery(first_txid: int, prepared: Mapping[str, PreparedRecovery]) -> ChosenSegment | None:
    """Choose the content of the segment that begins at `first_txid`; None if all nodes of the majority lack it.

    Raises:
        SegmentRecoveryError: finalized copies differ in length, a copy belongs to another segment, or transactions that
            a node knows to be committed would be lost.
    """
    held = {node: answer.segment for node, answer in prepared.items() if answer.segment is not None}
    if any(segment.first != first_txid for segment in held.values()):
        raise SegmentRecoveryError(f"asked for the segment of txid {first_txid}, got {_listed(held)}", txid=first_txid)
    ends = {segment.last for segment in held.values() if not segment.in_progress}
    if len(ends) > 1:
        raise SegmentRecoveryError(f"finalized copies differ in length: {_listed(held)}", txid=first_txid)
    if not held:
        return None
    node = max(held, key=lambda each: recovery_rank(prepared[each]))
    committed = {other: answer.last_committed_txid or 0 for other, answer in prepared.items()}
    knows = max(committed, key=lambda each: committed[each])
    if committed[knows] > held[node].last:
        problem = (
            f"the best copy ends with txid {held[node].last}, but {knows} reports that {committed[knows]} is committed"
        )
        raise SegmentRecoveryError(f"{problem}: {_listed(held)}", txid=first_txid)
    return ChosenSegment(node, held[node])


def _listed(held: Mapping[str, SegmentState]) -> str:
    return ", ".join(
        f"{node} {each.first}-{each.last}{' in progress' if each.in_progress else ''}" for node, each in held.items()
    )
