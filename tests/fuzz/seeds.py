"""Seeds for fuzzing: small recorded images, parts of recorded segments, and generated connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import Message

from hadoop_rpc.client_state import ClientConnection, ConnectionReady, NegotiationStep
from hadoop_rpc.errors import StandbyError
from hadoop_rpc.namenode_messages import manifest_message, namespace_message, registration_message, signature_message
from hadoop_rpc.namenode_values import (
    CheckpointSignature,
    EditLogManifest,
    NamenodeRegistration,
    NamenodeRole,
    NamespaceInfo,
    RemoteEditLog,
)
from hadoop_rpc.proto import ha_service_pb2 as ha_pb
from hadoop_rpc.qjournal_messages import (
    journal_state_message,
    journaled_edits_message,
    node_manifest_message,
    prepared_message,
)
from hadoop_rpc.qjournal_values import JournaledEdits, JournalState, NodeManifest, PreparedRecovery, SegmentState
from hadoop_rpc.security import Protection
from hadoop_rpc.server_state import Call, HandshakeReply, ServerConnection
from hadoop_rpc.wire import AuthProtocol
from image_format.codecs import CODECS
from journal.segment_format import HEADER_SIZE, SegmentCursor
from servlets.auth_cookie import Login, signed_cookie
from tests.fuzz.rpc_target import CLIENT_ID, INFO, SERVICES
from tests.fuzz.security_target import NOW, SECRET
from tests.hadoop_rpc.fake_security import PRINCIPAL, PROTOCOL, FakeDoor, FakeSecurity
from tests.hadoop_rpc.name_rules import CASES
from tests.servlets.support import INFO as STORED

RECORDED = Path(__file__).resolve().parent.parent / "recorded"
_LARGEST_IMAGE = 8 << 10
# storage info of the image that the target's server serves
_STORAGE = STORED.colon_string().encode()


def image_seeds() -> Iterator[bytes]:
    """Yield whole images, intact and damaged."""
    for path in sorted(RECORDED.glob("hadoop-*/**/fsimage_*[0-9]")):
        if path.stat().st_size <= _LARGEST_IMAGE:
            yield path.read_bytes()


def edits_seeds() -> Iterator[bytes]:
    """Yield, for each layout and opcode, a segment with the first recorded operation of that kind and its
    neighbours.
    """
    seen: set[tuple[bytes, int]] = set()
    for path in sorted(RECORDED.glob("hadoop-*/*/before/edits_*-*")):
        data = path.read_bytes()
        ops = list(SegmentCursor(data))
        starts = [op.offset for op in ops]
        ends = [*starts[1:], len(data)]
        for number, op in enumerate(ops):
            kind = (data[:4], op.opcode)
            if kind not in seen:
                seen.add(kind)
                yield data[:HEADER_SIZE] + data[starts[max(0, number - 1)] : ends[min(number + 1, len(ops) - 1)]]


def codec_seeds() -> Iterator[bytes]:
    """Yield a small stream of every codec, records and a digest, each after the number of its decoder."""
    content = b"0123456789abcdef" * 20 + bytes(300)
    for number, codec in enumerate(CODECS.values()):
        for size in (0, 1, len(content)):
            compressor = codec.compressor()
            yield bytes([number]) + bytes(compressor.compress(content[:size])) + compressor.finish()
    yield b"\xfe" + b"0123456789abcdef0123456789abcdef *image\n"
    for path in sorted(RECORDED.glob("hadoop-*/empty/before/fsimage_*[0-9]")):
        yield b"\xff" + path.read_bytes()[8:]


def http_seeds() -> Iterator[bytes]:
    """Yield requests of every route, bodies of both forms, and several requests on one connection."""
    requests = [
        b"GET /imagetransfer?getimage=1&txid=51&storageInfo=" + _STORAGE + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /imagetransfer?getedit=1&startTxId=52&endTxId=289 HTTP/1.1\r\nHost: x\r\n\r\n",
        (
            b"PUT /imagetransfer?txid=60&imageFile=IMAGE&File-Length=4&storageInfo=" + _STORAGE + b" HTTP/1.1\r\n"
            b"Host: x\r\nContent-Length: 4\r\n"
            b"X-MD5-Digest: 0123456789abcdef0123456789abcdef\r\n\r\nabcd"
        ),
        (
            b"PUT /imagetransfer?txid=60 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Expect: 100-continue\r\n\r\n4;a=b\r\nabcd\r\n0\r\nA: b\r\n\r\n"
        ),
        b"POST /checkpoint?force=true HTTP/1.1\r\nHost: localhost\r\nX-Requested-By: x\r\nContent-Length: 0\r\n\r\n",
        b"POST /cancel?minutes=3&reason=a%0Ab HTTP/1.1\r\nHost: 127.0.0.1:1\r\nOrigin: http://x\r\n\r\n",
        b"HEAD /jmx?qry=Hadoop:service=*,name=*::Role HTTP/1.0\r\n\r\n",
    ]
    paths = ("status", "metrics", "health/live", "health/ready", "jmx", "no", "jmx?get=Hadoop:service=a,name=b::C")
    requests += [f"GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in paths]
    operations = ("LISTSTATUS", "LISTSTATUS_BATCH&startAfter=a", "GETFILESTATUS", "GETCONTENTSUMMARY", "GETACLSTATUS")
    operations += ("GETXATTRS&encoding=hex&xattr.name=user.a", "LISTXATTRS", "GETHOMEDIRECTORY", "OPEN&offset=1", "X")
    requests += [f"GET /webhdfs/v1/?op={operation} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for operation in operations]
    yield from requests
    yield b"".join(requests)


def rpc_seeds() -> Iterator[bytes]:
    """Yield every call as a server receives it, and its responses as a client receives them, with and without a
    negotiation.
    """
    for auth in AuthProtocol:
        for service in SERVICES:
            for method, details in service.methods.items():
                client = ClientConnection(service.protocol, "alice", CLIENT_ID, auth=auth)
                server = ServerConnection()
                asked, received = client.open(), b""
                for event in server.receive(asked):
                    assert isinstance(event, HandshakeReply)
                    received += event.data
                    (ready,) = client.receive(event.data)
                    assert isinstance(ready, ConnectionReady)
                    asked += ready.data
                asked += client.call(1, method, _request(details.request), retry=0)
                yield b"\x00" + asked
        server = ServerConnection()
        call = Call(1, CLIENT_ID, 0, "protocol", "method", 1, b"")
        number = bytes([3 if auth is AuthProtocol.SASL else 1])
        yield number + received + server.fail(call, StandbyError("the other one is active"))
        for answer in _ANSWERS:
            yield number + received + server.respond(call, answer)


_SIGNATURE = CheckpointSignature(INFO, 7, 9)
_REGISTRATION = NamenodeRegistration("127.0.0.1:50100", "127.0.0.1:50105", INFO, NamenodeRole.BACKUP)
_MANIFEST = EditLogManifest((RemoteEditLog(1, 5), RemoteEditLog(6, 9, in_progress=True)), 5)
_ANSWERS = (
    signature_message(_SIGNATURE),
    namespace_message(NamespaceInfo(INFO, "revision", "3.4.1", "ACTIVE")),
    registration_message(_REGISTRATION),
    manifest_message(_MANIFEST),
    journal_state_message(JournalState(3, 8480, "http://127.0.0.1:8480")),
    node_manifest_message(NodeManifest(_MANIFEST, 8480)),
    prepared_message(PreparedRecovery(SegmentState(6, 9, in_progress=True), 2, 3, 8)),
    journaled_edits_message(JournaledEdits(1, b"header and record")),
)


def _request(kind: type[Message]) -> Message:
    """Return a request whose required fields are set; values of known messages are the same as in the responses."""
    for known in _ANSWERS:
        if isinstance(known, kind):
            return known
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if field.is_required:
            _set(message, field.name)
    return message


def _set(message: Message, name: str) -> None:
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.message_type is not None:
        inner = getattr(message, name)
        inner.CopyFrom(_request(type(inner)))
    elif field.enum_type is not None:
        setattr(message, name, field.enum_type.values[0].number)
    else:
        text = b"record" if field.type == field.TYPE_BYTES else "name"
        setattr(message, name, text if field.cpp_type == field.CPPTYPE_STRING else 1)


def security_seeds() -> Iterator[bytes]:
    """Yield logins with each protection as both sides receive them, requests with tokens, names, keytabs and lists."""
    for protection in Protection:
        client = ClientConnection(PROTOCOL, "", bytes(16), security=FakeSecurity((protection,)))
        server = ServerConnection(security=FakeDoor())
        data, asked, received = client.open(), b"", b""
        while data:
            asked += data
            replies = b"".join(event.data for event in server.receive(data) if isinstance(event, HandshakeReply))
            received += replies
            ready = client.receive(replies)
            data = b"".join(event.data for event in ready if isinstance(event, NegotiationStep | ConnectionReady))
        asked += client.seal(client.call(1, "m", ha_pb.MonitorHealthRequestProto()) + client.ping())
        call = Call(1, bytes(16), 0, PROTOCOL, "m", 1, b"")
        yield b"\0" + asked
        yield b"\1" + received + server.seal(server.respond(call, ha_pb.MonitorHealthResponseProto()))
    cookie = signed_cookie(Login("sn", PRINCIPAL, int(NOW * 1000) + 1000), SECRET)
    for method in (b"GET", b"OPTIONS", b"PUT"):
        yield b"\2" + method + b"\nAuthorization: Negotiate aGVsbG8="
        yield b"\2" + method + b'\nCookie: a=b; hadoop.auth="' + cookie.encode() + b'"'
    yield b"\2GET\nAuthorization: Basic aGVsbG8=\nCookie: hadoop.auth="
    yield b'\3a=b; hadoop.auth="' + cookie.encode() + b'"; c=d'
    yield b"\3hadoop.auth=" + cookie.encode()
    for rules, names in CASES:
        for name in names:
            yield b"\4" + rules.encode() + b"\0" + name.encode()
    entry = b"\0\2\0\1R\0\2nn\0\1h\0\0\0\1\0\0\0\0\1\0\x12\0\4keys\0\0\0\2"
    yield b"\5\5\2" + len(entry).to_bytes(4, "big") + entry + b"\xff\xff\xff\xfc" + bytes(4)
    yield b"\6sn,nn staff\x0010.0.0.0/8,host,::1"
    yield b"\6*\0*"
