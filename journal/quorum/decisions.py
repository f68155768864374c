"""What the writer of a quorum journal concludes from the nodes' answers: epochs and the recovery of a segment.

Both decisions are of a majority's answers, and right whatever the other nodes hold.

- The epoch is one above all that were promised. A node outside that majority may have promised more. It refuses then,
  and a majority without it is enough.
- The copy to keep is the one that `recovery_rank` puts highest. A finalized one was decided before, so nothing may
  win over it. Among those in progress the later epoch wins: its writer had a majority, and settled what older ones
  had left. An epoch has one writer, so of two copies the longer one begins with the shorter.

Two finalized copies of different length, and a committed transaction behind the best copy, can never be: each would
mean that two majorities decided without a node in common. They are errors: a node's folder was damaged, or changed by
hand.
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
    """Whether a node refused a call because it has promised itself to a later writer."""
    return isinstance(fault, RemoteError) and _FENCED.search(fault.text) is not None


def next_epoch(promised: Mapping[str, int], established: int | None, granted: Mapping[str, int]) -> int:
    """The epoch that a writer proposes (QuorumJournalManager.createNewUniqueEpoch).

    Args:
        promised: by node, of a majority.
        established: epoch in which this same writer wrote before; None where it has not.
        granted: what nodes promised to this writer since.

    Raises:
        WriterFencedError: a node promised itself to somebody else since this writer wrote. Only a writer that is
            restarted may take over from a later one.
    """
    if established is not None:
        others = {node: epoch for node, epoch in promised.items() if epoch > established and granted.get(node) != epoch}
        if others:
            told = ", ".join(f"{node} to epoch {epoch}" for node, epoch in sorted(others.items()))
            raise WriterFencedError(f"epoch {established} has been superseded; promised epochs: {told}")
    return max(promised.values()) + 1


def newest_segment(first_txids: Iterable[int | None]) -> int | None:
    """First txid of the segment to recover, from the answers to newEpoch; None where no node holds any."""
    return max((first for first in first_txids if first is not None), default=None)


def recovery_rank(prepared: PreparedRecovery) -> tuple[bool, bool, int, int]:
    """Orders what nodes hold of one segment, the best highest (SegmentRecoveryComparator).

    Some of it before nothing, finalized before in progress, then the later epoch that it was accepted or written in,
    then the longer one. Which of two finalized ones does not matter, they are the same.
    """
    segment = prepared.segment
    if segment is None:
        return (False, False, 0, 0)
    if not segment.in_progress:
        return (True, True, 0, 0)
    return (True, False, _seen_epoch(prepared), segment.last)


def may_differ_unseen(chosen: PreparedRecovery, other: PreparedRecovery) -> bool:
    """Whether a node may hold other transactions than the chosen ones under the same txids, and not find out.

    Hadoop's JournalNode compares the last txid alone, and keeps its copy where that is the same. START_LOG_SEGMENT
    alone is the same in any case, and so are copies in progress that were written or accepted in the same epoch.
    Where the chosen one is finalized the other's epoch says nothing: a later segment may have been begun there since.
    """
    best, own = chosen.segment, other.segment
    if best is None or own is None or not own.in_progress or own.last != best.last or own.last == own.first:
        return False
    return not best.in_progress or _seen_epoch(other) != _seen_epoch(chosen)


def _seen_epoch(prepared: PreparedRecovery) -> int:
    return max(prepared.accepted_in_epoch or 0, prepared.last_writer_epoch)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The segment as it is to be on all nodes, and the node that holds it so."""

    node: str
    segment: SegmentState


def choose_recovery(first_txid: int, prepared: Mapping[str, PreparedRecovery]) -> Chosen | None:
    """What becomes of the segment that begins at `first_txid`; None where no node of the majority holds any of it.

    Raises:
        SegmentRecoveryError: finalized copies differ in length, a copy is of another segment, or transactions would
            be lost that a node knows to be committed.
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
            f"the best copy ends with txid {held[node].last}, but {knows} knows that {committed[knows]} is committed"
        )
        raise SegmentRecoveryError(f"{problem}: {_listed(held)}", txid=first_txid)
    return Chosen(node, held[node])


def _listed(held: Mapping[str, SegmentState]) -> str:
    return ", ".join(
        f"{node} {each.first}-{each.last}{' in progress' if each.in_progress else ''}" for node, each in held.items()
    )
