"""Decisions of a JournalNode about a writer's calls, without I/O: epochs, serial numbers, open segment (Journal).

A node stores three numbers about its writers in `Epochs`.

- `promised` only increases, so calls with an older epoch are refused permanently. The number is on disk before the
  promise is reported. A call with a newer epoch is also a promise, because a majority has granted that epoch.
- `serial` is the number of the last call in an epoch, by which the node detects late and repeated calls. It starts over
  with each promise and each start of the process.
- `writer` is the epoch that began the last segment. Only this epoch may send transactions: a writer with a granted
  epoch that has not begun a segment on this node does not know this node's transactions.

A segment is absent, open (this process writes it), in progress (a file that is not being written) or finalized.
startLogSegment opens a segment, which then accepts batches without gaps. A failed write, a batch of another segment, a
later epoch and prepareRecovery close the segment, which stays in progress. A finalized segment never changes; it can
only be removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import IllegalArgumentRemoteError, JavaIOError, JournalOutOfSyncError, RemoteError
from hadoop_rpc.qjournal_values import INVALID_TXID, RequestInfo

_NO_SERIAL = -1
# A node that was down misses one epoch per failover. A much larger step would exhaust the epochs of later writers.
_MAX_STEP = 1_000_000
# An operation has at least an opcode, a txid and a checksum.
_MIN_OP_SIZE = 13
_MAX_ID_BYTES = 255
# characters that are not allowed in names of folders or management beans
_FORBIDDEN_IN_IDS = frozenset('/\\,=:*?"')


@dataclass(frozen=True, slots=True)
class Epochs:
    """Promises and observations of a node.

    Attributes:
        promised: newest promised epoch; writers of older epochs are refused.
        writer: epoch of the writer that began the last segment.
        serial: serial number of the last call in the promised epoch; lost at a restart.
        committed: newest transaction that is known to be on a majority; INVALID_TXID if unknown.
    """

    promised: int = 0
    writer: int = 0
    serial: int = _NO_SERIAL
    committed: int = INVALID_TXID


@dataclass(frozen=True, slots=True)
class WriterAdmission:
    """The state after a call, and the refusal of the call, if any."""

    epochs: Epochs
    refusal: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class HostedSegment:
    """The segment being written; its first `size` bytes contain all transactions before `next_txid`."""

    first: int
    next_txid: int
    layout_version: int
    size: int


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """The decision about a batch: its refusal, if any, and whether the open segment must be closed (`abort`)."""

    refusal: JournalOutOfSyncError | None = None
    abort: bool = False


def check_journal_id(journal_id: str) -> None:
    """Raise IllegalArgumentRemoteError for a name that is not allowed (QuorumJournalManager.checkJournalId).

    A folder or a bean could not have this name.
    """
    plain = journal_id.isprintable() and not journal_id.startswith(".") and not _FORBIDDEN_IN_IDS & set(journal_id)
    if not (plain and 0 < len(journal_id.encode()) <= _MAX_ID_BYTES):
        problem = (
            f"{journal_id[:80]!a} is not a journal id: expected a plain name without / or other special characters"
        )
        raise IllegalArgumentRemoteError(problem)


def check_namespace(own: StorageInfo, other: StorageInfo, location: str) -> None:
    """Raise JavaIOError for a writer of another namespace or cluster (JNStorage.checkConsistentNamespace)."""
    pairs = (("namespaceID", own.namespace_id, other.namespace_id), ("clusterID", own.cluster_id, other.cluster_id))
    for name, ours, theirs in pairs:
        if ours != theirs:
            raise JavaIOError(
                f"the {name} of {location} is {ours}, but the writer's is {theirs}: the writer belongs to another "
                "namespace or cluster"
            )


def promise(now: Epochs, epoch: int) -> Epochs:
    """Return the state after promising `epoch`; raise JavaIOError if the promise is impossible (Journal.newEpoch)."""
    if epoch <= now.promised:
        raise JavaIOError(f"the proposed epoch {epoch} is not higher than the last promised epoch {now.promised}")
    if epoch - now.promised > _MAX_STEP:
        raise JavaIOError(f"epoch {epoch} is {epoch - now.promised} above {now.promised}, which is impossible")
    return replace(now, promised=epoch, serial=_NO_SERIAL)


def admit(now: Epochs, request: RequestInfo) -> WriterAdmission:
    """Decide whether to accept a writer's call (Journal.checkRequest)."""
    if request.epoch < now.promised:
        problem = f"the IPC's epoch {request.epoch} is less than the last promised epoch {now.promised}"
        return WriterAdmission(now, JavaIOError(problem))
    if request.epoch > now.promised:
        now = promise(now, request.epoch)
    if request.serial <= now.serial:
        problem = f"the IPC's serial {request.serial} is not higher than {now.serial}, the highest serial seen"
        return WriterAdmission(now, JournalOutOfSyncError(problem))
    now = replace(now, serial=request.serial)
    if request.committed_txid is None:
        return WriterAdmission(now)
    if request.committed_txid < now.committed:
        problem = f"the committed txid cannot go back from {now.committed} to {request.committed_txid}"
        return WriterAdmission(now, IllegalArgumentRemoteError(problem))
    return WriterAdmission(replace(now, committed=request.committed_txid))


def admit_write(now: Epochs, request: RequestInfo) -> WriterAdmission:
    """Decide whether to accept transactions; only the segment's writer may send them (Journal.checkWriteRequest)."""
    admission = admit(now, request)
    if admission.refusal is None and request.epoch != now.writer:
        problem = f"the IPC's epoch {request.epoch} is not the current writer epoch {now.writer}"
        return WriterAdmission(admission.epochs, JavaIOError(problem))
    return admission


def check_size(count: int, size: int) -> None:
    """Raise IllegalArgumentRemoteError if `size` bytes are too few for the number of transactions."""
    if not _MIN_OP_SIZE * count <= size:
        raise IllegalArgumentRemoteError(
            f"{counted(count, 'transaction')} cannot have a total size of {counted(size, 'byte')}"
        )


def check_batch(segment: HostedSegment | None, segment_txid: int, first_txid: int) -> BatchDecision:
    """Decide whether transactions from `first_txid` on continue the open segment (Journal.journal)."""
    if segment is None:
        return BatchDecision(JournalOutOfSyncError(f"txid {first_txid} cannot be written: no segment is open"))
    if segment.first != segment_txid:
        # This node may have missed both the end of one segment and the start of the next.
        problem = f"the writer is in segment {segment_txid}, but segment {segment.first} is open on this JournalNode"
        return BatchDecision(JournalOutOfSyncError(problem), abort=True)
    if segment.next_txid != first_txid:
        problem = f"txid {first_txid} cannot be written: {segment.next_txid} must come next"
        return BatchDecision(JournalOutOfSyncError(problem))
    return BatchDecision()


def check_start(txid: int, layout_version: int) -> None:
    """Raise IllegalArgumentRemoteError for an impossible start of a segment; layout versions are negative."""
    if txid <= 0 or layout_version >= 0:
        raise IllegalArgumentRemoteError(f"a segment cannot begin with txid {txid} in layout {layout_version}")


def check_range(first: int, last: int) -> None:
    """Raise IllegalArgumentRemoteError for an impossible range of txids."""
    if not 0 < first <= last:
        raise IllegalArgumentRemoteError(f"a segment cannot have txids {first} to {last}")


def check_end(first: int, last: int, found_last: int) -> None:
    """Raise JournalOutOfSyncError if a segment does not end with the txid of its finalization."""
    if found_last != last:
        problem = f"segment {first} cannot end with txid {last}: this JournalNode has it up to txid {found_last}"
        raise JournalOutOfSyncError(problem)


def may_finalize(first: int, epoch: int, accepted_in: int | None, writer: int, newest: int) -> None:
    """Refuse to finalize a segment that is not open on this node and that another writer may have written.

    This check is stricter than Hadoop's check, which compares only the length. When a majority has accepted a copy,
    Hadoop's NameNode asks all nodes to finalize the copy, even nodes that have not accepted it. The NameNode needs
    responses from only a majority.

    Args:
        epoch: epoch of the request.
        accepted_in: epoch in which this node accepted the recovery of the segment; None if it was not accepted.
        writer: epoch of the writer that began the last segment on this node. Segments in progress from earlier writers
            precede this writer's segments. Therefore, this writer began the newest segment, even if this node was
            restarted after the segment was written.
        newest: first txid of the newest segment on this node.

    Raises:
        JournalOutOfSyncError: this copy might not be the copy to finalize.
    """
    if accepted_in != epoch and not (writer == epoch and first == newest):
        raise JournalOutOfSyncError(f"segment {first} was neither begun nor recovered on this node in epoch {epoch}")
