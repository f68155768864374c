"""Recovery of a segment as a round of paxos: what a node tells, what it accepts, the record it keeps (Journal).

A node tells what it holds (prepare), then takes the copy that was chosen (accept). The record in `paxos/FIRST` says
which copy was accepted, and in which epoch; it is on disk before the node answers. The copy itself is fetched and
checked before that, and put in place after it: a kill in between is made good by whoever looks next.

What can never happen: a record of a later epoch gives way to an older one; a finalized copy becomes one of another
length; a committed transaction goes. Each would undo what a majority has decided, so each is an assertion and not a
refusal. The record goes when the segment is finalized, for its length is decided then, and when a segment of its txid
starts over.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from google.protobuf import text_format

from hadoop_rpc.errors import AssertionRemoteError, IllegalStateError, RpcProtocolError
from hadoop_rpc.framing import DelimitedReader, delimited
from hadoop_rpc.namenode_messages import signed, unsigned
from hadoop_rpc.proto import qjournal_protocol_pb2 as pb
from hadoop_rpc.qjournal_messages import segment_message, segment_of
from hadoop_rpc.qjournal_values import INVALID_TXID, PreparedRecovery, SegmentState
from journal_node.rules import Epochs, check_range


@dataclass(frozen=True, slots=True)
class Accepted:
    """A recovery that was accepted here, and in which epoch (PersistedRecoveryPaxosData)."""

    segment: SegmentState
    epoch: int


class Download(Enum):
    """What a copy from another node is needed for, before a recovery is accepted."""

    NOTHING = "the own copy is the wanted one"
    COMPARISON = "the own copy is as long as the wanted one, and may be another"
    REPLACEMENT = "there is no own copy, or one of another length"


def encode_accepted(accepted: Accepted) -> bytes:
    """Content of `paxos/FIRST`: the delimited message, and the same as text for whoever looks into it."""
    message = pb.PersistedRecoveryPaxosData(
        segmentState=segment_message(accepted.segment), acceptedInEpoch=unsigned(accepted.epoch, 64)
    )
    return delimited(message) + b"\n" + text_format.MessageToBytes(message) + b"\n"


def decode_accepted(data: bytes, first_txid: int) -> Accepted:
    """What `paxos/FIRST` says of the segment that begins with `first_txid`.

    Raises:
        IllegalStateError: it is no such record, or one of another segment.
    """
    try:
        message = DelimitedReader(data).read(pb.PersistedRecoveryPaxosData)
    except RpcProtocolError as fault:
        raise IllegalStateError(f"the record of the recovery of segment {first_txid} is damaged: {fault}") from fault
    accepted = Accepted(segment_of(message.segmentState), signed(message.acceptedInEpoch, 64))
    if accepted.segment.first != first_txid:
        problem = f"the record of the recovery of segment {first_txid} is about segment {accepted.segment.first}"
        raise IllegalStateError(problem)
    return accepted


def prepared(segment: SegmentState | None, accepted: Accepted | None, epochs: Epochs) -> PreparedRecovery:
    """What a node tells whoever recovers; `segment` is its own copy (Journal.prepareRecovery).

    Raises:
        AssertionRemoteError: the copy is not what was accepted.
    """
    if segment is not None and not segment.in_progress:
        accepted = None  # another length is never decided once a segment is finalized
    if accepted is not None and (segment is None or segment.last != accepted.segment.last):
        found = "nothing of it" if segment is None else f"it up to txid {segment.last}"
        problem = (
            f"segment {accepted.segment.first} was accepted up to txid {accepted.segment.last}, this node has {found}"
        )
        raise AssertionRemoteError(problem)
    return PreparedRecovery(
        segment=segment if accepted is None else accepted.segment,
        accepted_in_epoch=None if accepted is None else accepted.epoch,
        last_writer_epoch=epochs.writer,
        last_committed_txid=None if epochs.committed == INVALID_TXID else epochs.committed,
    )


def wants_download(
    wanted: SegmentState, own: SegmentState | None, before: Accepted | None, epoch: int, committed: int
) -> Download:
    """Whether a copy has to be fetched before `wanted` can be accepted in `epoch` (Journal.acceptRecovery).

    Stricter than Hadoop, which never compares: the transactions of a writer that reached this node alone have the
    same txids as those that a later writer had a majority take.

    Args:
        own: this node's copy.
        before: what was accepted of this segment earlier.
        committed: newest transaction that is known to be on a majority.

    Raises:
        IllegalArgumentRemoteError: `wanted` holds no transaction.
        AssertionRemoteError: it would undo what has been decided.
    """
    check_range(wanted.first, wanted.last)
    if before is not None and before.epoch > epoch:
        problem = f"segment {wanted.first} was accepted in epoch {before.epoch}, after epoch {epoch}"
        raise AssertionRemoteError(problem)
    if own is None:
        return Download.REPLACEMENT
    if own.last == wanted.last:
        # START_LOG_SEGMENT alone is the same in every attempt, and an epoch has one writer, which chooses once.
        known = not own.in_progress or own.last == own.first or before == Accepted(wanted, epoch)
        return Download.NOTHING if known else Download.COMPARISON
    if own.first <= committed <= own.last and not wanted.first <= committed <= wanted.last:
        problem = f"segment {own.first} up to txid {own.last} cannot give way to one up to txid {wanted.last}"
        raise AssertionRemoteError(f"{problem}: the committed txid {committed} would be lost")
    if not own.in_progress:
        problem = f"segment {own.first} is finalized up to txid {own.last}, it cannot become one up to {wanted.last}"
        raise AssertionRemoteError(problem)
    return Download.REPLACEMENT
