"""What fuzzing starts from: small recorded images, segments cut out of recorded ones, and connections as ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import Message

from hadoop_rpc.client_state import ClientConnection, ConnectionReady
from hadoop_rpc.errors import StandbyError
from hadoop_rpc.namenode_messages import (
    manifest_message,
    namespace_message,
    registration_message,
    signature_message,
)
from hadoop_rpc.namenode_values import (
    CheckpointSignature,
    EditLogManifest,
    NamenodeRegistration,
    NamenodeRole,
    NamespaceInfo,
    RemoteEditLog,
)
from hadoop_rpc.proto import journal_protocol_pb2 as journal_pb
from hadoop_rpc.proto import namenode_protocol_pb2 as pb
from hadoop_rpc.server_state import Call, Reply, ServerConnection
from hadoop_rpc.wire import AuthProtocol
from image_format.codecs import CODECS
from journal.segment import HEADER_SIZE, iter_ops
from tests.fuzz.rpc_target import CLIENT_ID, INFO, SERVICES

__all__ = ["codec_seeds", "edits_seeds", "image_seeds", "rpc_seeds"]

RECORDED = Path(__file__).resolve().parent.parent / "recorded"
_LARGEST_IMAGE = 8 << 10


def image_seeds() -> Iterator[bytes]:
    """Whole images, damaged ones among them."""
    for path in sorted(RECORDED.glob("hadoop-*/**/fsimage_*[0-9]")):
        if path.stat().st_size <= _LARGEST_IMAGE:
            yield path.read_bytes()


def edits_seeds() -> Iterator[bytes]:
    """For each layout and opcode a segment of the first recorded operation of that kind and its neighbours."""
    seen: set[tuple[bytes, int]] = set()
    for path in sorted(RECORDED.glob("hadoop-*/*/before/edits_*-*")):
        data = path.read_bytes()
        ops = list(iter_ops(data))
        starts = [op.offset for op in ops]
        ends = [*starts[1:], len(data)]
        for number, op in enumerate(ops):
            kind = (data[:4], op.opcode)
            if kind not in seen:
                seen.add(kind)
                yield data[:HEADER_SIZE] + data[starts[max(0, number - 1)] : ends[min(number + 1, len(ops) - 1)]]


def codec_seeds() -> Iterator[bytes]:
    """A small stream of every codec behind its number, and records and a digest behind theirs."""
    content = b"0123456789abcdef" * 20 + bytes(300)
    for number, codec in enumerate(CODECS.values()):
        for size in (0, 1, len(content)):
            compressor = codec.compressor()
            yield bytes([number]) + bytes(compressor.compress(content[:size])) + compressor.finish()
    yield b"\xfe" + b"0123456789abcdef0123456789abcdef *image\n"
    for path in sorted(RECORDED.glob("hadoop-*/empty/before/fsimage_*[0-9]")):
        yield b"\xff" + path.read_bytes()[8:]


def rpc_seeds() -> Iterator[bytes]:
    """Every call as a server hears it, and its answers as a client does; with and without a negotiation."""
    for auth in AuthProtocol:
        for service in SERVICES:
            for method, details in service.methods.items():
                client = ClientConnection(service.protocol, "alice", CLIENT_ID, real_user="hdfs", auth=auth)
                server = ServerConnection()
                asked, heard = client.open(), b""
                for event in server.receive(asked):
                    assert isinstance(event, Reply)
                    heard += event.data
                    (ready,) = client.receive(event.data)
                    assert isinstance(ready, ConnectionReady)
                    asked += ready.data
                asked += client.call(1, method, _request(details.request), retry=0)
                yield b"\x00" + asked
        server = ServerConnection()
        call = Call(1, CLIENT_ID, 0, "protocol", "method", 1, b"")
        number = bytes([3 if auth is AuthProtocol.SASL else 1])
        yield number + heard + server.fail(call, StandbyError("the other one is active"))
        for answer in _ANSWERS:
            yield number + heard + server.respond(call, answer)


_SIGNATURE = CheckpointSignature(INFO, 7, 9)
_REGISTRATION = NamenodeRegistration("127.0.0.1:50100", "127.0.0.1:50105", INFO, NamenodeRole.BACKUP)
_ANSWERS = (
    signature_message(_SIGNATURE),
    namespace_message(NamespaceInfo(INFO, "revision", "3.4.1", "ACTIVE")),
    registration_message(_REGISTRATION),
    manifest_message(EditLogManifest((RemoteEditLog(1, 5), RemoteEditLog(6, 9, in_progress=True)), 5)),
)


def _request(kind: type[Message]) -> Message:
    """A request whose required fields are set."""
    info = journal_pb.JournalInfoProto(clusterID="CID-1", namespaceID=5)
    made: dict[type[Message], Message] = {
        pb.GetEditLogManifestRequestProto: pb.GetEditLogManifestRequestProto(sinceTxId=1),
        pb.RegisterRequestProto: pb.RegisterRequestProto(registration=_ANSWERS[2]),
        pb.StartCheckpointRequestProto: pb.StartCheckpointRequestProto(registration=_ANSWERS[2]),
        pb.EndCheckpointRequestProto: pb.EndCheckpointRequestProto(registration=_ANSWERS[2], signature=_ANSWERS[0]),
        pb.ErrorReportRequestProto: pb.ErrorReportRequestProto(registration=_ANSWERS[2], errorCode=1, msg="lost"),
        journal_pb.JournalRequestProto: journal_pb.JournalRequestProto(
            journalInfo=info, firstTxnId=1, numTxns=1, records=b"record", epoch=0
        ),
        journal_pb.StartLogSegmentRequestProto: journal_pb.StartLogSegmentRequestProto(
            journalInfo=info, txid=1, epoch=0
        ),
        journal_pb.FenceRequestProto: journal_pb.FenceRequestProto(journalInfo=info, epoch=1, fencerInfo="me"),
    }
    return made.get(kind) or kind()
