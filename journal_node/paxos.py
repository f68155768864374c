"""Recovery of a segment as a round of Paxos: report, acceptance, and record of the acceptance (Journal).

A node reports its copy (prepare), then accepts the chosen copy (accept). The record in `paxos/FIRST` names the accepted
copy and its epoch, and is on disk before the node answers. The copy itself is fetched and checked before the record is
written; afterwards, it replaces this node's copy. After a kill between these steps, the next access completes the
replacement.

A record never replaces a record of a later epoch, the length of a finalized copy never changes, and a committed
transaction is never removed. A violation would undo the decision of a majority, so it is an assertion error and not a
refusal. The record is removed when the segment is finalized, because the segment's length is then decided, when another
segment starts at the same txid, and after a rollback of a rolling upgrade has discarded the segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from google.protobuf import text_format

from hadoop_common.java_numbers import signed64, unsigned64
from hadoop_rpc.errors import AssertionRemoteError, IllegalStateError, RpcProtocolError
from hadoop_rpc.framing import DelimitedReader, delimited
from hadoop_rpc.proto import qjournal_protocol_pb2 as pb
from hadoop_rpc.qjournal_messages import segment_message, segment_of
from hadoop_rpc.qjournal_values import INVALID_TXID, PreparedRecovery, SegmentState
from journal_node.rules import Epochs, check_range


@dataclass(frozen=True, slots=True)
class AcceptedRecovery:
    """An accepted recovery with its epoch (PersistedRecoveryPaxosData)."""

    segment: SegmentState
    epoch: int


class DownloadReason(Enum):
    """Reason for fetching, or not fetching, a copy from another node before a recovery is accepted."""

    NOTHING = "this node's copy is the chosen copy"
    COMPARISON = "this node's copy is as long as the chosen copy, but may differ"
    REPLACEMENT = "this node's copy is missing or has a different length"


def encode_accepted(accepted: AcceptedRecovery) -> bytes:
    """Return the content of `paxos/FIRST`: the delimited message, followed by the same record in text form."""
    message = pb.PersistedRecoveryPaxosData(
        segmentState=segment_message(accepted.segment), acceptedInEpoch=unsigned64(accepted.epoch)
    )
    return delimited(message) + b"\n" + text_format.MessageToBytes(message) + b"\n"


def decode_accepted(data: bytes, first_txid: int) -> AcceptedRecovery:
    """Parse `paxos/FIRST` of the segment that begins with `first_txid`.

    Raises:
        IllegalStateError: the record is invalid, or belongs to another segment.
    """
    try:
        message = DelimitedReader(data).read(pb.PersistedRecoveryPaxosData)
    except RpcProtocolError as fault:
        raise IllegalStateError(f"the record of the recovery of segment {first_txid} is damaged: {fault}") from fault
    accepted = AcceptedRecovery(segment_of(message.segmentState), signed64(message.acceptedInEpoch))
    if accepted.segment.first != first_txid:
        problem = f"the record of the recovery of segment {first_txid} belongs to segment {accepted.segment.first}"
        raise IllegalStateError(problem)
    return accepted


def prepared(segment: SegmentState | None, accepted: AcceptedRecovery | None, epochs: Epochs) -> PreparedRecovery:
    """Return the report for a recovery; `segment` is this node's copy (Journal.prepareRecovery).

    Raises:
        AssertionRemoteError: the copy is not the accepted copy.
    """
    if segment is not None and not segment.in_progress:
        accepted = None  # the length of a finalized segment cannot change any more
    if accepted is not None and (segment is None or segment.last != accepted.segment.last):
        found = "no copy" if segment is None else f"a copy up to txid {segment.last}"
        problem = (
            f"segment {accepted.segment.first} was accepted up to txid {accepted.segment.last}; this node has {found}"
        )
        raise AssertionRemoteError(problem)
    return PreparedRecovery(
        segment=segment if accepted is None else accepted.segment,
        accepted_in_epoch=None if accepted is None else accepted.epoch,
        last_writer_epoch=epochs.writer,
        last_committed_txid=None if epochs.committed == INVALID_TXID else epochs.committed,
    )


def wants_download(
    wanted: SegmentState, own: SegmentState | None, before: AcceptedRecovery | None, epoch: int, committed: int
) -> DownloadReason:
    """Return whether, and why, a copy must be fetched before `wanted` is accepted in `epoch` (Journal.acceptRecovery).

    Unlike Hadoop, this node compares copies. A writer's transactions that reached only this node can have the same
    txids as a later writer's transactions on a majority.

    Args:
        own: this node's copy.
        before: earlier acceptance of this segment.
        committed: newest transaction known to be on a majority.

    Raises:
        IllegalArgumentRemoteError: `wanted` is empty.
        AssertionRemoteError: the acceptance would undo a decision.
    """
    check_range(wanted.first, wanted.last)
    if before is not None and before.epoch > epoch:
        problem = f"segment {wanted.first} was accepted in epoch {before.epoch}, after epoch {epoch}"
        raise AssertionRemoteError(problem)
    if own is None:
        return DownloadReason.REPLACEMENT
    if own.last == wanted.last:
        # A single START_LOG_SEGMENT is the same in every attempt, and an epoch's only writer chooses a copy only once.
        known = not own.in_progress or own.last == own.first or before == AcceptedRecovery(wanted, epoch)
        return DownloadReason.NOTHING if known else DownloadReason.COMPARISON
    if own.first <= committed <= own.last and not wanted.first <= committed <= wanted.last:
        problem = f"segment {own.first} up to txid {own.last} cannot be replaced by a copy up to txid {wanted.last}"
        raise AssertionRemoteError(f"{problem}: the committed txid {committed} would be lost")
    if not own.in_progress:
        problem = f"segment {own.first} is finalized up to txid {own.last} and cannot end with txid {wanted.last}"
        raise AssertionRemoteError(problem)
    return DownloadReason.REPLACEMENT
