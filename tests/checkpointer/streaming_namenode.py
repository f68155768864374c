"""A NameNode that streams a recorded case to its backup nodes like a real NameNode (JournalSet)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock

from hadoop_common.names import parse_segment, segment_name
from hadoop_rpc.errors import IncorrectVersionError, RpcError, UnregisteredNodeError
from hadoop_rpc.journal_protocol import JournalClient, JournalInfo
from hadoop_rpc.namenode_protocol import (
    CheckpointCommand,
    CheckpointSignature,
    NamenodeRegistration,
    NamenodeRole,
    NamespaceInfo,
)
from hadoop_rpc.service import CallContext
from journal.binary_codec import encode_op
from journal.segment_format import decode_header, encode_header, iter_ops
from journal.system_ops import EndLogSegmentOp, StartLogSegmentOp
from tests.checkpointer.fake_namenode import DEFAULT_CASE, FakeNamenode


@dataclass
class Stream:
    """State of a backup node at the NameNode; the backup node receives nothing until a segment begins."""

    client: JournalClient
    active: bool = False
    faults: list[str] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)


def all_at_once(count: int) -> Iterator[int]:
    yield count


class StreamingNamenode(FakeNamenode):
    """A NameNode whose rolls proceed from one recorded segment to the next; later segments contain only their first
    and last operation.

    Attributes:
        batches: returns the sizes of the batches in which a given number of transactions is sent.
        streams: backup nodes by their RPC address.
        reports, ended: values received by errorReport and endCheckpoint.
        layouts_ahead: number of layouts by which the software is newer than the storage, as during a rolling upgrade.
        reports_software: whether versionRequest returns the layout of the software, as in releases up to 3.3.
        refuses_checkpoints: whether startCheckpoint returns a request to stop.
        after_roll: number of transactions written after each roll, not counting the transactions that begin and end a
            segment.
        tamper: changes a batch in transit (first txid, count, records).
    """

    def __init__(self, folder: Path, case: str = DEFAULT_CASE) -> None:
        super().__init__(folder, case)
        self.batches: Callable[[int], Iterator[int]] = all_at_once
        self.streams: dict[str, Stream] = {}
        self.reports: list[tuple[int, str]] = []
        self.ended: list[CheckpointSignature] = []
        self.refuses_checkpoints = False
        self.need_to_return_image = True
        self.layouts_ahead = 0
        self.reports_software = False
        self.tamper: Callable[[int, int, bytes], tuple[int, int, bytes]] = lambda *batch: batch
        self.epoch = 0
        self.after_roll = 0
        self._log = RLock()
        self._written = self._last
        self._segment_end = self._last
        self._ops = dict(self._recorded())

    # ---- the edit log --------------------------------------------------------------------------------------

    @property
    def segment(self) -> int:
        """First txid of the open segment."""
        return self._last + 1

    @property
    def written(self) -> int:
        return self._written

    def _recorded(self) -> Iterator[tuple[int, bytes]]:
        for first in self._pending:
            content = next(self.folder.glob(f"edits_{first:019d}-*")).read_bytes()
            assert decode_header(content) == self.info.layout_version
            ops = list(iter_ops(content))
            ends = [op.offset for op in ops[1:]] + [len(content.rstrip(b"\xff"))]
            for op, end in zip(ops, ends, strict=True):
                yield op.txid, content[op.offset : end]

    def content(self, first: int, last: int) -> bytes:
        """Return the content of a segment file of these transactions, without padding."""
        return encode_header(self.info.layout_version) + b"".join(self._ops[txid] for txid in range(first, last + 1))

    def _journal_info(self) -> JournalInfo:
        return JournalInfo.of(self.info)

    def write(self, count: int) -> None:
        """Write and stream the next `count` transactions of the open segment, or as many as remain."""
        with self._log:
            for size in self.batches(min(count, self._segment_end - self._written)):
                if size > 0:
                    self._send(size)

    def write_all(self) -> None:
        """Write the rest of the open segment, except its last operation."""
        self.write(max(0, self._segment_end - self._written - 1))

    def _send(self, count: int) -> None:
        first = self._written + 1
        records = b"".join(self._ops[txid] for txid in range(first, first + count))
        self._written += count
        batch = self.tamper(first, count, records)
        sent = set(range(first, first + count))

        def journal(stream: Stream) -> None:
            stream.client.journal(self._journal_info(), self.epoch, *batch)
            stream.acknowledged |= sent

        self._on_each(journal)

    def _on_each(self, action: Callable[[Stream], None], *, begin: bool = False) -> None:
        """Act like JournalSet, where a stream that fails receives nothing until the next segment."""
        for stream in self.streams.values():
            if not (stream.active or begin):
                continue
            stream.active = True
            try:
                action(stream)
            except RpcError as error:
                stream.active = False
                stream.faults.append(str(error))

    def roll(self, *, streamed: bool = True) -> int:
        """End the open segment and begin the next; return its first txid. Without `streamed`, backup nodes do not
        receive the new segment.
        """
        with self._log:
            kept = self.streams
            if not streamed:
                self.streams = {}
            self.write(self._segment_end - self._written)
            self.streams = kept
            self._last = self._written
            first = self.segment
            self._begin(first)
            if streamed:
                info = self._journal_info()
                self._on_each(lambda stream: stream.client.start_log_segment(info, self.epoch, first), begin=True)
            if not streamed:
                self._write_silently(1)
                return first
            self.write(1)
            self.write(min(self.after_roll, self._segment_end - self._written - 1))
            return first

    def _write_silently(self, count: int) -> None:
        kept, self.streams = self.streams, {}
        self.write(count)
        self.streams = kept

    def _begin(self, first: int) -> None:
        if first in self._pending:
            name = parse_segment(next(self.folder.glob(f"edits_{first:019d}-*")).name)
            assert name is not None
            assert name.last is not None
            self._segment_end = name.last
            return
        layout = self.info.layout_version
        ops = (StartLogSegmentOp(txid=first), EndLogSegmentOp(txid=first + 1))
        content = encode_header(layout)
        for op in ops:
            self._ops[op.txid] = encode_op(op, layout)
            content += self._ops[op.txid]
        (self.folder / segment_name(first, first + 1)).write_bytes(content)
        self._segment_end = first + 1

    def restart(self) -> None:
        """Drop all registrations; keep the content of the open segment, and begin another segment."""
        with self._log:
            self.close_streams()
            self.roll(streamed=False)

    def close_streams(self) -> None:
        for stream in self.streams.values():
            stream.client.close()
        self.streams = {}

    def stop(self) -> None:
        self.close_streams()
        super().stop()

    def go_on_as(self, other: StreamingNamenode) -> None:
        """Continue from the state of `other`, with a copy of its folder."""
        self._written, self._last, self._segment_end = other._written, other._last, other._segment_end
        self._ops = dict(other._ops)

    # ---- NamenodeProtocol ----------------------------------------------------------------------------------

    def transaction_id(self, caller: CallContext) -> int:
        self._step("getTransactionId")
        return self._written

    def roll_edit_log(self, caller: CallContext) -> CheckpointSignature:
        self._step("rollEditLog")
        return self._signature(self.roll())

    def _signature(self, segment: int) -> CheckpointSignature:
        return CheckpointSignature(self.info, self.image_txids()[-1], segment)

    @property
    def _software_layout(self) -> int:
        return self.info.layout_version - self.layouts_ahead

    def version_request(self, caller: CallContext) -> NamespaceInfo:
        answer = super().version_request(caller)
        if not self.reports_software:
            return answer
        return replace(answer, storage_info=replace(self.info, layout_version=self._software_layout))

    def register(  # type: ignore[override]
        self, registration: NamenodeRegistration, caller: CallContext
    ) -> NamenodeRegistration:
        self._step("registerSubordinateNamenode")
        reported, expected = registration.storage_info.layout_version, self._software_layout
        if reported != expected:
            raise IncorrectVersionError(
                f"Unexpected version of data node. Reported: {reported}. Expecting = {expected}."
            )
        assert registration.storage_info.namespace_id == self.info.namespace_id
        if registration.role is NamenodeRole.BACKUP and registration.rpc_address not in self.streams:
            host, _, port = registration.rpc_address.rpartition(":")
            self.streams[registration.rpc_address] = Stream(JournalClient(host, int(port), user="hdfs", timeout=600))
        return NamenodeRegistration("127.0.0.1:8020", "127.0.0.1:9870", self.info, NamenodeRole.NAMENODE)

    def _check(self, registration: NamenodeRegistration) -> None:
        theirs, ours = registration.storage_info, self.info
        if (theirs.namespace_id, theirs.cluster_id, theirs.c_time) != (ours.namespace_id, ours.cluster_id, ours.c_time):
            raise UnregisteredNodeError("Unregistered server")

    def start_checkpoint(  # type: ignore[override]
        self, registration: NamenodeRegistration, caller: CallContext
    ) -> CheckpointCommand | None:
        self._step("startCheckpoint")
        self._check(registration)
        if self.refuses_checkpoints:
            return None
        return CheckpointCommand(self._signature(self.roll()), self.need_to_return_image)

    def end_checkpoint(  # type: ignore[override]
        self, registration: NamenodeRegistration, signature: CheckpointSignature, caller: CallContext
    ) -> None:
        self._step("endCheckpoint")
        self.ended.append(signature)

    def error_report(  # type: ignore[override]
        self, registration: NamenodeRegistration, code: int, text: str, caller: CallContext
    ) -> None:
        self._step("errorReport")
        self._check(registration)
        self.reports.append((code, text))
        if code == 1 and (stream := self.streams.pop(registration.rpc_address, None)) is not None:
            stream.client.close()
