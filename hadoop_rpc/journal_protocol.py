"""JournalProtocol: an active NameNode streams its edits to a backup node; both sides (JournalProtocol.proto)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from hadoop_common.java_numbers import signed32, unsigned32
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.proto import journal_protocol_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.rpc_protocol import MethodHandler, RpcProtocol
from hadoop_rpc.service import CallContext, Service

JOURNAL_PROTOCOL: Final = RpcProtocol(
    "org.apache.hadoop.hdfs.server.protocol.JournalProtocol", pb.DESCRIPTOR.services_by_name["JournalProtocolService"]
)


@dataclass(frozen=True, slots=True)
class JournalInfo:
    """Namespace to which the edits belong."""

    cluster_id: str
    layout_version: int
    namespace_id: int

    @classmethod
    def of(cls, info: StorageInfo) -> JournalInfo:
        return cls(info.cluster_id, info.layout_version, info.namespace_id)


def _info(message: pb.JournalInfoProto) -> JournalInfo:
    return JournalInfo(message.clusterID, signed32(message.layoutVersion), signed32(message.namespaceID))


def _info_message(info: JournalInfo) -> pb.JournalInfoProto:
    return pb.JournalInfoProto(
        clusterID=info.cluster_id,
        layoutVersion=unsigned32(info.layout_version),
        namespaceID=unsigned32(info.namespace_id),
    )


class JournalClient(ProtocolClient):
    """Sender of an active NameNode's edits to one backup node. It raises `RpcError`, and never retries a call."""

    protocol = JOURNAL_PROTOCOL
    default_retry = NO_RETRY

    def journal(self, info: JournalInfo, epoch: int, first_txid: int, count: int, records: bytes) -> None:
        """Send `count` transactions from `first_txid` on; `records` are their bytes as in a segment file."""
        request = pb.JournalRequestProto(
            journalInfo=_info_message(info), firstTxnId=first_txid, numTxns=count, records=records, epoch=epoch
        )
        self._call("journal", request, idempotent=False)

    def start_log_segment(self, info: JournalInfo, epoch: int, txid: int) -> None:
        request = pb.StartLogSegmentRequestProto(journalInfo=_info_message(info), txid=txid, epoch=epoch)
        self._call("startLogSegment", request, idempotent=False)


@dataclass(frozen=True, slots=True)
class FenceResult:
    """State of a backup node when it was fenced."""

    previous_epoch: int
    last_txid: int
    in_sync: bool


class JournalProtocol(Protocol):
    """A backup node as a server; calls arrive in order over one connection."""

    def journal(
        self, info: JournalInfo, epoch: int, first_txid: int, count: int, records: bytes, caller: CallContext
    ) -> None: ...

    def start_log_segment(self, info: JournalInfo, epoch: int, txid: int, caller: CallContext) -> None: ...

    def fence(self, info: JournalInfo, epoch: int, fencer: str, caller: CallContext) -> FenceResult: ...


def journal_service(node: JournalProtocol) -> Service:
    def journal(request: pb.JournalRequestProto, caller: CallContext) -> None:
        info = _info(request.journalInfo)
        node.journal(info, request.epoch, request.firstTxnId, request.numTxns, request.records, caller)

    def start(request: pb.StartLogSegmentRequestProto, caller: CallContext) -> None:
        node.start_log_segment(_info(request.journalInfo), request.epoch, request.txid, caller)

    def fence(request: pb.FenceRequestProto, caller: CallContext) -> pb.FenceResponseProto:
        found = node.fence(_info(request.journalInfo), request.epoch, request.fencerInfo, caller)
        return pb.FenceResponseProto(
            previousEpoch=found.previous_epoch, lastTransactionId=found.last_txid, inSync=found.in_sync
        )

    methods: dict[str, MethodHandler] = {"journal": journal, "startLogSegment": start, "fence": fence}
    return JOURNAL_PROTOCOL.served_by(methods)
