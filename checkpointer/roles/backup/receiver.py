"""The backup node's side of JournalProtocol, which makes edits streamed by a NameNode durable, then applies them.

`checkpointer.roles.backup.states` lists the states and transitions. Each call holds one lock. The call checks the
caller, decodes the whole batch, writes and syncs the batch in every working edits directory, and then applies the
batch. Therefore, every acknowledged batch is durable, even if it cannot be applied.

The stream owns the namespace only in IN_SYNC. `converge` transfers the namespace to the stream. A frozen segment, a gap
or a fault ends this ownership. The receiver finalizes an open segment when the next segment begins or the stream
breaks. When this process ends, the segment remains in progress, as after a crash.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from checkpointer.roles.backup.states import BackupState, StreamEvent, next_state
from engine.warm_namespace import WarmNamespace
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import IncorrectVersionError, JavaIOError, RemoteError, UnregisteredNodeError
from hadoop_rpc.journal_protocol import FenceResult, JournalInfo
from hadoop_rpc.service import CallContext
from journal.binary_codec import check_layout, decode_op
from journal.errors import CorruptOpError, JournalError, TransactionGapError
from journal.operation import EditOp
from journal.raw_segment_writer import RawSegmentWriter
from journal.segment_file import EditLogSegment

_FENCED = "org.apache.hadoop.hdfs.server.protocol.FencedException"


class WriterCheck:
    """Namespace and epoch of the accepted writer; the caller holds a lock."""

    def __init__(self, info: StorageInfo) -> None:
        self._info = JournalInfo.of(info)
        self._epoch = 0

    def use(self, info: StorageInfo) -> None:
        """Apply a new VERSION."""
        self._info = JournalInfo.of(info)

    def check(self, info: JournalInfo, epoch: int) -> None:
        """Refuse edits of another namespace or epoch.

        Raises:
            RemoteError: layout, namespace or epoch differ.
        """
        self.check_info(info)
        if epoch != self._epoch:
            raise RemoteError(
                f"the writer's epoch is {epoch}, but this node accepts epoch {self._epoch}", class_name=_FENCED
            )

    def check_info(self, info: JournalInfo) -> None:
        """Refuse another layout or namespace, as `check` does."""
        ours = self._info
        if info.layout_version != ours.layout_version:
            problem = f"layout version {info.layout_version} of the edits is not {ours.layout_version}"
            raise IncorrectVersionError(problem)
        if info != ours:
            theirs = f"namespace {info.namespace_id} of cluster {info.cluster_id}"
            raise UnregisteredNodeError(
                f"these are edits of {theirs}, but this node backs up {ours.namespace_id} of {ours.cluster_id}"
            )

    def fence(self, epoch: int) -> int:
        """Accept only edits of a newer epoch from now on; return the previous epoch.

        Raises:
            RemoteError: the epoch is not newer.
        """
        if epoch <= self._epoch:
            raise RemoteError(f"epoch {epoch} is not newer than {self._epoch}", class_name=_FENCED)
        before, self._epoch = self._epoch, epoch
        return before


_STREAM = "the stream of edits"


def decode_batch(records: bytes, first_txid: int, count: int, layout_version: int) -> list[EditOp]:
    """Return the operations in `records`, which must be exactly `count` with consecutive txids from `first_txid`.

    Raises:
        CorruptOpError: an operation is truncated or does not match its checksum, or the count differs.
        TransactionGapError: a txid does not follow its predecessor.
        UnsupportedEditsLayoutError: the layout is unknown.
    """
    check_layout(layout_version, file=_STREAM)
    found: list[EditOp] = []
    position = 0
    while position < len(records):
        expected = first_txid + len(found)
        op, following = decode_op(records, position, layout_version, file=_STREAM)
        if op.txid != expected:
            raise TransactionGapError(expected, op.txid, file=_STREAM, offset=position)
        found.append(op)
        position = following
    if len(found) != count or not found:
        problem = f"{counted(len(found), 'operation')} arrived, but {count} were announced"
        raise CorruptOpError(problem, file=_STREAM, offset=position, txid=first_txid)
    return found


_LOG = logging.getLogger(__name__)
# maximum number of transactions to apply while the NameNode waits
_MAX_RECENT_OPS = 16384


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Position of the stream.

    Attributes:
        last_txid: newest known transaction; except in IN_SYNC, earlier transactions may be missing.
        segment: the durable part of the open segment, None if no segment is open.
        reason: reason why the state is not IN_SYNC.
        streamed: transactions received since the start.
    """

    state: BackupState
    last_txid: int
    segment: EditLogSegment | None
    reason: str
    streamed: int


class JournalReceiver:
    """Receiver of the edits of one namespace (`JournalProtocol`); any thread may call any method.

    Every acknowledged transaction is durable in an edits directory. The stream owns the namespace in IN_SYNC, and does
    not access it in any other state.

    Args:
        info: namespace of the edits.
        last_txid: newest transaction in the storage.
        on_directory_failure: called with a failed edits directory during RPC calls, so it must be fast.
    """

    def __init__(
        self,
        info: StorageInfo,
        last_txid: int,
        folders: Sequence[Path],
        replica: WarmNamespace,
        on_directory_failure: Callable[[Path, OSError], None],
    ) -> None:
        self._lock = threading.Lock()
        self._writer_check = WriterCheck(info)
        self._folders = list(folders)
        self._replica = replica
        self._on_directory_failure = on_directory_failure
        self._state = BackupState.DROP_UNTIL_NEXT_ROLL
        self._reason = "no segment has begun since the start"
        self._last_txid = last_txid
        self._writer: RawSegmentWriter | None = None
        self._freeze = self._recovering = False
        self._streamed = 0
        # newest transactions that have not been applied
        self._recent: deque[EditOp] = deque(maxlen=_MAX_RECENT_OPS)

    # ---- observation ---------------------------------------------------------------------------------------

    def position(self) -> StreamPosition:
        with self._lock:
            return StreamPosition(self._state, self._last_txid, self._open_segment(), self._reason, self._streamed)

    def _open_segment(self) -> EditLogSegment | None:
        writer = self._writer
        if writer is None or writer.last_txid < writer.first_txid:
            return None
        return EditLogSegment(writer.first_txid, writer.last_txid, writer.path)

    # ---- JournalProtocol -----------------------------------------------------------------------------------

    def start_log_segment(self, info: JournalInfo, epoch: int, txid: int, caller: CallContext) -> None:
        """Finalize the previous segment, and begin a new segment."""
        with self._lock:
            self._writer_check.check(info, epoch)
            writer = self._writer
            if writer is not None and writer.first_txid == txid == self._last_txid + 1:
                return
            if self._recovering:
                raise JavaIOError("segments of an earlier stream are being recovered; begin another segment")
            if txid <= self._last_txid:
                problem = f"segment {txid} was begun, but this node already has transactions up to {self._last_txid}"
                self._break(problem)
                raise JavaIOError(problem)
            with self._breaking():
                self._finish_segment()
                self._writer = RawSegmentWriter(
                    self._folders, txid, info.layout_version, on_directory_failure=self._on_directory_failure
                )
            gap = txid > self._last_txid + 1
            if gap:
                _LOG.warning("transactions %d to %d did not arrive", self._last_txid + 1, txid - 1)
            self._last_txid = txid - 1
            self._begin(gap)
            _LOG.info("segment %d has begun, state %s", txid, self._state.value)

    def _begin(self, gap: bool) -> None:
        if gap:
            self._move(StreamEvent.SEGMENT_AFTER_GAP)
        else:
            self._move(StreamEvent.SEGMENT_FREEZES if self._freeze else StreamEvent.SEGMENT_CONTINUES)
        self._freeze = False

    def journal(
        self, info: JournalInfo, epoch: int, first_txid: int, count: int, records: bytes, caller: CallContext
    ) -> None:
        """Accept a batch of operations. When the call returns, the batch is durable and, if the namespace is in sync,
        applied.
        """
        with self._lock:
            self._writer_check.check(info, epoch)
            writer = self._writer
            if writer is None:
                raise JavaIOError(f"edits are accepted from the next segment on: {self._reason}")
            if first_txid != self._last_txid + 1:
                problem = f"a batch begins with transaction {first_txid}, expected {self._last_txid + 1}"
                self._break(problem)
                raise JavaIOError(problem)
            with self._breaking():
                ops = decode_batch(records, first_txid, count, writer.layout_version)
                writer.append(records, first_txid + count - 1)
            self._last_txid += count
            self._streamed += count
            if self._state is BackupState.IN_SYNC:
                self._apply(ops)
            else:
                self._recent.extend(ops)

    def fence(self, info: JournalInfo, epoch: int, fencer: str, caller: CallContext) -> FenceResult:
        """Accept only edits of a newer epoch, until this process ends."""
        with self._lock:
            self._writer_check.check_info(info)
            before = self._writer_check.fence(epoch)
            _LOG.warning("fenced by %s at %s with epoch %d", fencer or "an unknown node", caller.peer, epoch)
            return FenceResult(before, self._last_txid, self._state is BackupState.IN_SYNC)

    # ---- for the thread that works on the namespace -------------------------------------------------------

    def use(self, info: StorageInfo, folders: Sequence[Path]) -> None:
        """Apply a new VERSION immediately, and new edits directories from the next segment on."""
        with self._lock:
            self._writer_check.use(info)
            self._folders = list(folders)

    def freeze_at_next_segment(self) -> None:
        """Do not change the namespace from the start of the next segment until `converge`."""
        with self._lock:
            self._freeze = True

    def thaw(self) -> None:
        """Revoke `freeze_at_next_segment`; a frozen namespace remains frozen until `converge`."""
        with self._lock:
            self._freeze = False

    def take_namespace(self) -> bool:
        """After the NameNode has begun a segment, ensure that the stream does not access the namespace.

        Return False if the segment did not arrive, because the NameNode no longer streams to this node.
        """
        with self._lock:
            if self._freeze:
                self._break("the NameNode began a segment, but did not stream it to this node")
                return False
            return True

    def break_off(self, reason: str) -> None:
        """Refuse edits until a segment begins."""
        with self._lock:
            self._break(reason)

    def recover(self, leftovers: Callable[[], None]) -> None:
        """Unless a segment is being written, call `leftovers`, which finalizes segments that were left in progress.

        During the call, refuse new segments, because `leftovers` would also finalize them.
        """
        with self._lock:
            self._recovering = self._writer is None
            if not self._recovering:
                return
        try:
            leftovers()
        finally:
            with self._lock:
                self._recovering = False

    @property
    def open_first(self) -> int | None:
        """First transaction of the segment that is being written; None if no segment is open."""
        with self._lock:
            return None if self._writer is None else self._writer.first_txid

    def start_over(self, last_txid: int) -> None:
        """Set the newest transaction in the storage, unless a running stream continues after that transaction."""
        with self._lock:
            if self._writer is None:
                self._last_txid = last_txid
                self._recent.clear()

    def converge(self) -> bool:
        """If the namespace lacks only the newest transactions, apply them and transfer the namespace to the stream.

        Return False if the namespace lacks older transactions, which must first be read from the segments.

        Raises:
            HdfsError: a transaction cannot be applied.
        """
        with self._lock:
            if self._state is BackupState.IN_SYNC:
                return True
            if self._state is not BackupState.JOURNAL_ONLY or not self._replica.usable:
                return False
            applied = self._replica.last_txid
            rest = [op for op in self._recent if op.txid > applied]
            if applied + len(rest) != self._last_txid:
                return False
            if rest:
                self._replica.apply(rest)
            self._recent.clear()
            self._move(StreamEvent.CONVERGED)
            self._reason = ""
            _LOG.info("in sync with the NameNode at transaction %d", self._last_txid)
            return True

    def check_image(self) -> None:
        """Release a namespace in sync whose image has proved to be damaged; until the next `converge`, only store
        edits.
        """
        with self._lock:
            if self._state is BackupState.IN_SYNC:
                with self._losing_namespace("the namespace is discarded"):
                    self._replica.check_image()

    def release_namespace(self, reason: str) -> None:
        """Ensure that the stream does not access the namespace until the next `converge`; only store edits."""
        with self._lock:
            if self._state is BackupState.IN_SYNC:
                self._move(StreamEvent.NAMESPACE_LOST)
                self._reason = reason

    def close(self) -> None:
        """Refuse edits from now on; the open segment remains in progress, as after a crash."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.abandon()
            self._break("this node is stopping")

    # ---- the caller holds the lock -------------------------------------------------------------------------

    def _apply(self, ops: Sequence[EditOp]) -> None:
        """Apply durable transactions. Do not report faults to the NameNode, because the transactions are durable in any
        case.
        """
        with self._losing_namespace(f"transactions up to {self._last_txid} are stored, but not applied"):
            self._replica.apply(ops)

    @contextmanager
    def _losing_namespace(self, consequence: str) -> Iterator[None]:
        """Log `consequence` and end the stream's ownership of the namespace if a step on the namespace fails."""
        try:
            yield
        except (HdfsError, OSError) as error:
            _LOG.error("%s: %s", consequence, error_text(error))
            reason = error_text(error)
        except Exception as error:
            _LOG.exception("%s because of a bug", consequence)
            reason = f"a bug of this node: {error!r}"
        else:
            return
        self._move(StreamEvent.NAMESPACE_LOST)
        self._reason = reason

    def _move(self, event: StreamEvent) -> None:
        following = next_state(self._state, event)
        if following is not self._state:
            _LOG.debug("%s: %s -> %s", event.value, self._state.value, following.value)
            self._reason = event.value
        self._state = following

    def _break(self, reason: str) -> None:
        if self._state is not BackupState.DROP_UNTIL_NEXT_ROLL:
            _LOG.warning("no edits are accepted until the next segment: %s", reason)
        self._move(StreamEvent.STREAM_BROKEN)
        self._reason = reason
        self._freeze = False
        self._recent.clear()
        try:
            self._finish_segment()
        except JournalError as error:
            _LOG.error("the open segment could not be finished: %s", error)

    def _finish_segment(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self._last_txid = writer.last_txid
            writer.finish()

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Break the stream if a step fails; the caller receives the error as an IOException."""
        try:
            yield
        except (HdfsError, OSError) as error:
            self._break(error_text(error))
            raise
        except BaseException as error:
            self._break(f"a bug of this node: {error!r}")
            raise
