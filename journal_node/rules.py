"""What a JournalNode lets a writer do: epochs, serial numbers, the open segment; nothing here does I/O (Journal).

A node holds three numbers against its writers, in `Epochs`.

- `promised` only grows: a call of an older epoch is refused for ever. It is on disk before the promise is told. A
  call of a newer one is a promise too, since a majority has granted that epoch.
- `serial` counts the calls of an epoch up, so that one that was late, or came twice, is refused. It starts over with
  each promise, and with each start of the process.
- `writer`: the epoch that began the last segment. Transactions come from that one alone: a writer that was granted an
  epoch and has not begun a segment here does not know what this node holds.

A segment is absent, open (this process writes it), in progress (a file that nobody writes) or finalized. It opens
with startLogSegment, takes batches without a gap, and is let go of by a write that fails, by a batch of another
segment, by a later epoch and by prepareRecovery. A finalized one never changes, it can only be removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import IllegalArgumentRemoteError, JavaIOError, JournalOutOfSyncError, RemoteError
from hadoop_rpc.qjournal_values import INVALID_TXID, RequestInfo

_NO_SERIAL = -1
# A node that was down meanwhile misses one epoch a failover; a larger step would leave none for the writers to come.
_LARGEST_STEP = 1_000_000
# An operation has an opcode, a txid and a checksum at least.
_SMALLEST_OP = 13
_LONGEST_ID = 255
# of folders and of the names of management beans
_NO_PART_OF_IDS = frozenset('/\\,=:*?"')


@dataclass(frozen=True, slots=True)
class Epochs:
    """What a node has promised and seen.

    Attributes:
        promised: no writer of an older epoch is listened to.
        writer: epoch of the writer that began the last segment.
        serial: of the last call of the promised epoch; not kept over a restart.
        committed: newest transaction that is known to be on a majority, INVALID_TXID where none is.
    """

    promised: int = 0
    writer: int = 0
    serial: int = _NO_SERIAL
    committed: int = INVALID_TXID


@dataclass(frozen=True, slots=True)
class Admission:
    """What holds from a call on, even where the call is refused."""

    epochs: Epochs
    refusal: RemoteError | None = None


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """The segment that is written: `next_txid` has to come now, `size` bytes hold all before it."""

    first: int
    next_txid: int
    layout_version: int
    size: int


@dataclass(frozen=True, slots=True)
class BatchVerdict:
    """Why a batch is refused, None where it is not; `abort` lets go of the open segment."""

    refusal: JournalOutOfSyncError | None = None
    abort: bool = False


def check_journal_id(journal_id: str) -> None:
    """Raises IllegalArgumentRemoteError for what can name no folder or bean (QuorumJournalManager.checkJournalId)."""
    plain = journal_id.isprintable() and not journal_id.startswith(".") and not _NO_PART_OF_IDS & set(journal_id)
    if not (plain and 0 < len(journal_id.encode()) <= _LONGEST_ID):
        problem = f"{journal_id[:80]!a} is not a journal id: a plain name without / and other marks is expected"
        raise IllegalArgumentRemoteError(problem)


def check_namespace(own: StorageInfo, other: StorageInfo, location: str) -> None:
    """Raises JavaIOError where a writer is of another namespace or cluster (JNStorage.checkConsistentNamespace)."""
    pairs = (("namespaceID", own.namespace_id, other.namespace_id), ("clusterID", own.cluster_id, other.cluster_id))
    for name, ours, theirs in pairs:
        if ours != theirs:
            raise JavaIOError(
                f"the {name} of {location} is {ours}, that of the writer {theirs}: they do not belong together"
            )


def promise(now: Epochs, epoch: int) -> Epochs:
    """What holds once `epoch` is promised; raises JavaIOError where it is none that can be (Journal.newEpoch)."""
    if epoch <= now.promised:
        raise JavaIOError(f"epoch {epoch} was proposed, which is not above the last promised epoch {now.promised}")
    if epoch - now.promised > _LARGEST_STEP:
        raise JavaIOError(f"epoch {epoch} is {epoch - now.promised} above {now.promised}, no writer gets so far ahead")
    return replace(now, promised=epoch, serial=_NO_SERIAL)


def admit(now: Epochs, request: RequestInfo) -> Admission:
    """Whether a call of a writer is listened to (Journal.checkRequest)."""
    if request.epoch < now.promised:
        problem = f"the IPC's epoch {request.epoch} is less than the last promised epoch {now.promised}"
        return Admission(now, JavaIOError(problem))
    if request.epoch > now.promised:
        now = promise(now, request.epoch)
    if request.serial <= now.serial:
        problem = f"the IPC's serial {request.serial} is not above {now.serial}, the highest one seen"
        return Admission(now, JournalOutOfSyncError(problem))
    now = replace(now, serial=request.serial)
    if request.committed_txid is None:
        return Admission(now)
    if request.committed_txid < now.committed:
        problem = f"the committed txid cannot go back from {now.committed} to {request.committed_txid}"
        return Admission(now, IllegalArgumentRemoteError(problem))
    return Admission(replace(now, committed=request.committed_txid))


def admit_write(now: Epochs, request: RequestInfo) -> Admission:
    """`admit`, for transactions: they come from who began the segment (Journal.checkWriteRequest)."""
    admission = admit(now, request)
    if admission.refusal is None and request.epoch != now.writer:
        problem = f"the IPC's epoch {request.epoch} is not the current writer epoch {now.writer}"
        return Admission(admission.epochs, JavaIOError(problem))
    return admission


def check_size(count: int, size: int) -> None:
    """Raises IllegalArgumentRemoteError where `size` bytes cannot hold so many transactions."""
    if not _SMALLEST_OP * count <= size:
        raise IllegalArgumentRemoteError(f"{size} bytes cannot hold {count} transactions")


def check_batch(segment: OpenSegment | None, segment_txid: int, first_txid: int) -> BatchVerdict:
    """Whether transactions from `first_txid` on continue the open segment (Journal.journal)."""
    if segment is None:
        return BatchVerdict(JournalOutOfSyncError(f"txid {first_txid} cannot be written, no segment is open"))
    if segment.first != segment_txid:
        # The end of one segment and the start of the next may both have been lost on the way.
        problem = f"the writer is in segment {segment_txid}, but segment {segment.first} is open here"
        return BatchVerdict(JournalOutOfSyncError(problem), abort=True)
    if segment.next_txid != first_txid:
        problem = f"txid {first_txid} cannot be written, {segment.next_txid} has to come next"
        return BatchVerdict(JournalOutOfSyncError(problem))
    return BatchVerdict()


def check_start(txid: int, layout_version: int) -> None:
    """Raises IllegalArgumentRemoteError where no segment can begin so; layout versions are negative."""
    if txid <= 0 or layout_version >= 0:
        raise IllegalArgumentRemoteError(f"no segment begins with txid {txid} in layout {layout_version}")


def check_range(first: int, last: int) -> None:
    """Raises IllegalArgumentRemoteError where a segment could not hold transactions `first` to `last`."""
    if not 0 < first <= last:
        raise IllegalArgumentRemoteError(f"there is no segment of txid {first} to {last}")


def check_end(first: int, last: int, found_last: int) -> None:
    """Raises JournalOutOfSyncError where a segment does not end with the txid it is to be finalized at."""
    if found_last != last:
        problem = f"segment {first} is to end with txid {last}, but it is written up to txid {found_last} here"
        raise JournalOutOfSyncError(problem)


def may_finalize(first: int, epoch: int, accepted_in: int | None, writer: int, newest: int) -> None:
    """Refuse to finalize a segment that is not open here, and may be what another writer left behind.

    Stricter than Hadoop, which asks for the right length alone. Its NameNode has every node finalize what a majority
    accepted, also those that did not, and needs a majority of answers only.

    Args:
        epoch: of the request.
        accepted_in: epoch in which the recovery of the segment was accepted here, None where it was not.
        writer: epoch of the writer that began a segment here last. What it finds in progress here lies before the
            ones it begins, so the newest segment is its own: this node was restarted since it was written.
        newest: first txid of the newest segment here.

    Raises:
        JournalOutOfSyncError: it is not known to be what is to be finalized.
    """
    if accepted_in != epoch and not (writer == epoch and first == newest):
        raise JournalOutOfSyncError(f"segment {first} was not begun in epoch {epoch} here, nor its recovery accepted")
