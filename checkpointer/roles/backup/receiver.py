"""The backup node's side of JournalProtocol: edits that a NameNode streams are made durable here, then applied.

The states and what changes them are a table, `checkpointer.roles.backup.states`. All is done under one lock, in this
order: the caller is checked, the batch is decoded whole, written and synced in every edits directory that works, and
only then applied. So what is acknowledged is durable, and what cannot be applied is durable all the same.

The namespace belongs to the stream in IN_SYNC, and never else: `converge` hands it over; a segment that freezes it, a
gap and any fault take it back. An open segment is finalized when the next one begins, and when the stream breaks.
When this process ends it stays in progress, as after a crash.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from checkpointer.roles.backup.states import BackupState, StreamEvent, after
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import told
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import JavaIOError, RemoteError, UnregisteredNodeError
from hadoop_rpc.journal_protocol import FenceResult, JournalInfo
from hadoop_rpc.service import CallContext
from journal.binary_codec import check_layout, decode_op
from journal.errors import CorruptOpError, JournalError, TransactionGapError
from journal.operation import EditOp
from journal.raw_segment_writer import RawSegmentWriter
from journal.segment_file import EditLogSegment

_INCORRECT_VERSION = "org.apache.hadoop.hdfs.server.common.IncorrectVersionException"
_FENCED = "org.apache.hadoop.hdfs.server.protocol.FencedException"


class WriterCheck:
    """The namespace whose edits are taken, and the epoch of who may write them; whoever uses it holds a lock."""

    def __init__(self, info: StorageInfo) -> None:
        self._info = JournalInfo.of(info)
        self._epoch = 0

    def use(self, info: StorageInfo) -> None:
        """Go by a new VERSION."""
        self._info = JournalInfo.of(info)

    def check(self, info: JournalInfo, epoch: int) -> None:
        """Refuse edits that are not of this namespace and epoch.

        Raises:
            RemoteError: they are of another layout, namespace or epoch.
        """
        self.check_info(info)
        if epoch != self._epoch:
            raise RemoteError(f"the writer's epoch is {epoch}, this node takes {self._epoch}", class_name=_FENCED)

    def check_info(self, info: JournalInfo) -> None:
        """Refuse another layout or namespace, as `check` does."""
        ours = self._info
        if info.layout_version != ours.layout_version:
            problem = f"layout version {info.layout_version} of the edits is not {ours.layout_version}"
            raise RemoteError(problem, class_name=_INCORRECT_VERSION)
        if info != ours:
            theirs = f"namespace {info.namespace_id} of cluster {info.cluster_id}"
            raise UnregisteredNodeError(
                f"these are edits of {theirs}, this node backs up {ours.namespace_id} of {ours.cluster_id}"
            )

    def fence(self, epoch: int) -> int:
        """Take edits of a newer epoch only; returns the one before.

        Raises:
            RemoteError: the epoch is not newer.
        """
        if epoch <= self._epoch:
            raise RemoteError(f"epoch {epoch} is not newer than {self._epoch}", class_name=_FENCED)
        before, self._epoch = self._epoch, epoch
        return before


_SOURCE = "the stream of edits"


def decode_batch(records: bytes, first_txid: int, count: int, layout_version: int) -> list[EditOp]:
    """The operations in `records`, which are exactly `count` and have the txids from `first_txid` on.

    Raises:
        CorruptOpError: an operation is cut, does not match its checksum, or the count is another one.
        TransactionGapError: a txid is not the one after its predecessor.
        UnsupportedLayoutError: the layout is unknown.
    """
    check_layout(layout_version, file=_SOURCE)
    found: list[EditOp] = []
    position = 0
    while position < len(records):
        expected = first_txid + len(found)
        op, following = decode_op(records, position, layout_version, file=_SOURCE)
        if op.txid != expected:
            raise TransactionGapError(expected, op.txid, file=_SOURCE, offset=position)
        found.append(op)
        position = following
    if len(found) != count or not found:
        problem = f"{len(found)} operations came where {count} were announced"
        raise CorruptOpError(problem, file=_SOURCE, offset=position, txid=first_txid)
    return found


_LOG = logging.getLogger(__name__)
# the namespace gets so many transactions at most while the NameNode waits
_RECENT = 16384


class Replica(Protocol):
    """The namespace that follows the edits."""

    @property
    def usable(self) -> bool: ...

    @property
    def last_txid(self) -> int: ...

    def apply(self, ops: Sequence[EditOp]) -> int: ...


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where the stream stands.

    Attributes:
        last_txid: newest transaction known here; those before it may be missing while the state says so.
        segment: the open segment as far as it is durable, None while there is none.
        reason: why the state is not IN_SYNC.
        streamed: transactions that came since the start.
    """

    state: BackupState
    last_txid: int
    segment: EditLogSegment | None
    reason: str
    streamed: int


class JournalReceiver:
    """Takes the edits of one namespace (`JournalProtocol`); any thread may call any method.

    Nothing is acknowledged before it is durable in an edits directory. While the state is IN_SYNC the namespace
    belongs to the stream; in any other state whoever works on it may be sure that the stream leaves it alone.

    Args:
        info: namespace whose edits these are.
        last_txid: newest transaction in the storage.
        on_directory_failure: told of an edits directory that failed; called within calls, so it must be quick.
    """

    def __init__(
        self,
        info: StorageInfo,
        last_txid: int,
        folders: Sequence[Path],
        replica: Replica,
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
        self._freeze = False
        self._streamed = 0
        # what came last while it was not applied
        self._recent: deque[EditOp] = deque(maxlen=_RECENT)

    # ---- observation ---------------------------------------------------------------------------------------

    def position(self) -> StreamPosition:
        """Where the stream stands now."""
        with self._lock:
            return StreamPosition(self._state, self._last_txid, self._open_segment(), self._reason, self._streamed)

    def _open_segment(self) -> EditLogSegment | None:
        writer = self._writer
        if writer is None or writer.last_txid < writer.first_txid:
            return None
        return EditLogSegment(writer.first_txid, writer.last_txid, writer.path)

    # ---- JournalProtocol -----------------------------------------------------------------------------------

    def start_log_segment(self, info: JournalInfo, epoch: int, txid: int, caller: CallContext) -> None:
        """Begin a segment, finishing the one before where it is complete."""
        with self._lock:
            self._writer_check.check(info, epoch)
            writer = self._writer
            if writer is not None and writer.first_txid == txid == self._last_txid + 1:
                return
            if txid <= self._last_txid:
                problem = f"segment {txid} was begun, but transactions up to {self._last_txid} are here already"
                self._break(problem)
                raise JavaIOError(problem)
            with self._breaking():
                self._finish_segment()
                self._writer = RawSegmentWriter(
                    self._folders, txid, info.layout_version, on_directory_failure=self._on_directory_failure
                )
            gap = txid > self._last_txid + 1
            if gap:
                _LOG.warning("transactions %d to %d did not come", self._last_txid + 1, txid - 1)
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
        """Take a batch of operations: durable, and applied where the namespace is in step, when this returns."""
        with self._lock:
            self._writer_check.check(info, epoch)
            writer = self._writer
            if writer is None:
                raise JavaIOError(f"edits are taken from the next segment on: {self._reason}")
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
        """Take edits of a newer epoch only; held until this process ends."""
        with self._lock:
            self._writer_check.check_info(info)
            before = self._writer_check.fence(epoch)
            _LOG.warning("fenced by %s at %s with epoch %d", fencer or "somebody", caller.peer, epoch)
            return FenceResult(before, self._last_txid, self._state is BackupState.IN_SYNC)

    # ---- for whoever keeps the namespace in step -----------------------------------------------------------

    def use(self, info: StorageInfo, folders: Sequence[Path]) -> None:
        """Go by a new VERSION, and use other edits directories from the next segment on."""
        with self._lock:
            self._writer_check.use(info)
            self._folders = list(folders)

    def freeze_at_next_segment(self) -> None:
        """Leave the namespace as it is when the next segment begins, until `converge`."""
        with self._lock:
            self._freeze = True

    def thaw(self) -> None:
        """Take `freeze_at_next_segment` back; a namespace that is frozen already stays so until `converge`."""
        with self._lock:
            self._freeze = False

    def take_namespace(self) -> bool:
        """Make sure that the stream leaves the namespace alone, after the NameNode has begun a segment.

        False where that segment did not come: the NameNode does not stream to this node any more.
        """
        with self._lock:
            if self._freeze:
                self._break("the NameNode began a segment and did not say so here")
                return False
            return True

    def break_off(self, reason: str) -> None:
        """Take no more edits until a segment begins."""
        with self._lock:
            self._break(reason)

    @property
    def open_first(self) -> int | None:
        """First transaction of the segment that the stream writes; None where it writes none."""
        with self._lock:
            return None if self._writer is None else self._writer.first_txid

    def start_over(self, last_txid: int) -> None:
        """The newest transaction in the storage is another one now, unless the stream goes on behind it."""
        with self._lock:
            if self._writer is None:
                self._last_txid = last_txid
                self._recent.clear()

    def converge(self) -> bool:
        """Hand the namespace to the stream if it lacks no more than the newest transactions, which it then gets.

        False where more is missing; what is older than those has to be read from the segments first.

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
            _LOG.info("in step with the NameNode at transaction %d", self._last_txid)
            return True

    def close(self) -> None:
        """Take no more edits; the open segment stays in progress, as it would after a crash."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.abandon()
            self._break("this node is stopping")

    # ---- below: the lock is held ---------------------------------------------------------------------------

    def _apply(self, ops: Sequence[EditOp]) -> None:
        """What cannot be applied is durable all the same, so the NameNode is not told."""
        try:
            self._replica.apply(ops)
        except (HdfsError, OSError) as error:
            _LOG.error("transactions up to %d are stored, but not applied: %s", self._last_txid, told(error))
            self._move(StreamEvent.NAMESPACE_LOST)
            self._reason = told(error)
        except Exception as error:
            _LOG.exception(
                "transactions up to %d are stored, but a fault kept them from the namespace", self._last_txid
            )
            self._move(StreamEvent.NAMESPACE_LOST)
            self._reason = f"a fault of this node itself: {error!r}"

    def _move(self, event: StreamEvent) -> None:
        following = after(self._state, event)
        if following is not self._state:
            _LOG.debug("%s: %s -> %s", event.value, self._state.value, following.value)
            self._reason = event.value
        self._state = following

    def _break(self, reason: str) -> None:
        if self._state is not BackupState.DROP_UNTIL_NEXT_ROLL:
            _LOG.warning("no edits are taken until the next segment: %s", reason)
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
        """Ends the stream where a step fails with an error of ours; the caller learns it as an IOException."""
        try:
            yield
        except (HdfsError, OSError) as error:
            self._break(told(error))
            raise
        except BaseException as error:
            self._break(f"a fault of this node itself: {error!r}")
            raise
