"""Client and server state machines, connected without a socket, with valid and invalid bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.client_state import CallFailure, CallResponse, ClientConnection, ClientState, ConnectionReady
from hadoop_rpc.errors import (
    AccessControlError,
    AuthenticationRequiredError,
    RpcProtocolError,
    RpcServerError,
    StandbyError,
    VersionMismatchError,
)
from hadoop_rpc.framing import DelimitedReader, delimited, frame
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.server_state import Call, ConnectionEnd, HandshakeReply, ServerConnection, ServerState
from hadoop_rpc.wire import (
    CONTEXT_CALL_ID,
    AuthProtocol,
    RpcErrorCode,
    connection_header,
    request_frame,
    sasl_request_frame,
)
from tests.depth import examples

PROTOCOL = "org.example.Protocol"
CLIENT_ID = bytes(range(16))


def client(auth: AuthProtocol = AuthProtocol.NONE) -> ClientConnection:
    return ClientConnection(PROTOCOL, "alice", CLIENT_ID, auth=auth)


def open_server() -> ServerConnection:
    server = ServerConnection()
    assert server.receive(client().open()) == []
    assert server.state is ServerState.OPEN
    return server


def closing(events: list[Call | HandshakeReply | ConnectionEnd]) -> CallFailure:
    """Return a client's view of a server's final error."""
    (event,) = events
    assert isinstance(event, ConnectionEnd)
    there = client()
    there.open()
    (failure,) = there.receive(event.data)
    assert isinstance(failure, CallFailure)
    assert failure.call_id is None
    assert there.state is ClientState.CLOSED
    return failure


@given(
    st.integers(0, (1 << 31) - 1), st.text(max_size=20), st.integers(0, 5), st.lists(st.integers(1, 200), max_size=9)
)
def test_call_and_response_round_trip(call_id: int, reason: str, retry: int, cuts: list[int]) -> None:
    here, server = client(), ServerConnection()
    request = ha.GetServiceStatusResponseProto(state=ha.STANDBY, notReadyReason=reason)
    stream = here.open() + here.ping() + here.call(call_id, "someMethod", request, version=7, retry=retry)
    calls: list[Call | HandshakeReply | ConnectionEnd] = []
    for cut in [*cuts, len(stream)]:
        calls += server.receive(stream[:cut])
        stream = stream[cut:]
    (call,) = calls
    assert call == Call(call_id, CLIENT_ID, retry, PROTOCOL, "someMethod", 7, request.SerializeToString())
    assert (server.user, server.real_user, server.protocol) == ("alice", "", PROTOCOL)
    answer = ha.GetServiceStatusResponseProto(state=ha.ACTIVE)
    assert here.receive(server.respond(call, answer)) == [CallResponse(call_id, answer.SerializeToString())]


def test_server_notes_the_user_who_acts_for_another_user() -> None:
    server = ServerConnection()
    users = pb.UserInformationProto(effectiveUser="alice", realUser="proxy")
    context = delimited(pb.IpcConnectionContextProto(userInfo=users, protocol=PROTOCOL))
    server.receive(connection_header(AuthProtocol.NONE) + request_frame(CONTEXT_CALL_ID, b"", context))
    assert (server.state, server.user, server.real_user) == (ServerState.OPEN, "alice", "proxy")


def test_state_id_is_sent_in_both_directions() -> None:
    server = ServerConnection(state_id=lambda: 4711)
    server.receive(client().open())
    header = pb.RpcRequestHeaderProto(
        rpcKind=pb.RPC_PROTOCOL_BUFFER, rpcOp=0, callId=3, clientId=CLIENT_ID, stateId=4000
    )
    request = pb.RequestHeaderProto(methodName="m", declaringClassProtocolName=PROTOCOL, clientProtocolVersion=1)
    (call,) = server.receive(frame(delimited(header), delimited(request), delimited(ha.MonitorHealthRequestProto())))
    assert isinstance(call, Call)
    assert call.state_id == 4000
    for answer in (server.respond(call, ha.MonitorHealthResponseProto()), server.fail(call, StandbyError("no"))):
        reader = DelimitedReader(answer[4:])
        assert reader.read(pb.RpcResponseHeaderProto).stateId == 4711


@given(st.sampled_from([RpcErrorCode.APPLICATION, RpcErrorCode.NO_SUCH_METHOD]), st.text(min_size=1, max_size=60))
def test_exception_arrives_with_its_class(code: RpcErrorCode, text: str) -> None:
    here, server = client(), open_server()
    here.open()
    (call,) = server.receive(here.call(5, "m", ha.MonitorHealthRequestProto()))
    assert isinstance(call, Call)
    (failure,) = here.receive(server.fail(call, StandbyError(f"x{text}x"), code))
    assert isinstance(failure, CallFailure)
    assert failure.call_id == 5
    assert isinstance(failure.error, StandbyError)
    assert here.state is ClientState.OPEN


def test_java_stack_trace_is_removed_from_the_text() -> None:
    header = pb.RpcResponseHeaderProto(
        callId=1,
        status=pb.RpcResponseHeaderProto.ERROR,
        exceptionClassName="org.apache.hadoop.ipc.StandbyException",
        errorMsg="Operation category WRITE is not supported in state standby\n\tat org.apache.Foo.bar(Foo.java:1)\n",
    )
    here = client()
    here.open()
    (failure,) = here.receive(frame(delimited(header)))
    assert isinstance(failure, CallFailure)
    assert isinstance(failure.error, StandbyError)
    assert failure.error.text == "Operation category WRITE is not supported in state standby"


# ---- negotiation ----


def test_sasl_client_falls_back_to_a_simple_server() -> None:
    here, server = client(AuthProtocol.SASL), ServerConnection()
    (reply,) = server.receive(here.open())
    assert isinstance(reply, HandshakeReply)
    assert here.state is ClientState.NEGOTIATING
    (ready,) = here.receive(reply.data)
    assert isinstance(ready, ConnectionReady)
    assert server.receive(ready.data) == []
    assert server.state is ServerState.OPEN
    assert server.user == "alice"


def test_simple_is_chosen_among_offered_methods() -> None:
    offer = pb.RpcSaslProto(state=pb.RpcSaslProto.NEGOTIATE)
    offer.auths.add(method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default", challenge=b"c")
    offer.auths.add(method="SIMPLE", mechanism="")
    here, server = client(AuthProtocol.SASL), ServerConnection()
    here.open()
    (ready,) = here.receive(_sasl_reply(offer))
    assert isinstance(ready, ConnectionReady)
    assert server.receive(connection_header(AuthProtocol.SASL) + ready.data) == []
    assert server.state is ServerState.OPEN


def test_error_for_a_kerberos_server_names_its_principal() -> None:
    offer = pb.RpcSaslProto(state=pb.RpcSaslProto.NEGOTIATE)
    offer.auths.add(method="TOKEN", mechanism="DIGEST-MD5")
    offer.auths.add(method="KERBEROS", mechanism="GSSAPI", protocol="nn", serverId="host1")
    here = client(AuthProtocol.SASL)
    here.open()
    with pytest.raises(AuthenticationRequiredError, match="TOKEN, KERBEROS as nn/host1"):
        here.receive(_sasl_reply(offer))
    assert here.state is ClientState.CLOSED


def test_a_secure_server_refuses_simple() -> None:
    header = pb.RpcResponseHeaderProto(
        callId=0xFFFFFFFF,
        status=pb.RpcResponseHeaderProto.FATAL,
        exceptionClassName="org.apache.hadoop.security.AccessControlException",
        errorMsg="SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]",
    )
    here = client()
    here.open()
    (failure,) = here.receive(frame(delimited(header)))
    assert isinstance(failure, CallFailure)
    assert isinstance(failure.error, AuthenticationRequiredError)


def test_client_that_requires_kerberos_is_refused() -> None:
    step = pb.RpcSaslProto(state=pb.RpcSaslProto.INITIATE, token=b"t")
    step.auths.add(method="KERBEROS", mechanism="GSSAPI")
    server = ServerConnection()
    failure = closing(server.receive(connection_header(AuthProtocol.SASL) + sasl_request_frame(step)))
    assert isinstance(failure.error, AccessControlError)
    assert "KERBEROS" in failure.error.text


def _sasl_reply(step: pb.RpcSaslProto) -> bytes:
    header = pb.RpcResponseHeaderProto(callId=0xFFFFFFDF, status=pb.RpcResponseHeaderProto.SUCCESS)
    return frame(delimited(header), delimited(step))


# ---- refusals by a server ----


def test_other_rpc_version_is_refused_with_both_versions() -> None:
    failure = closing(ServerConnection().receive(b"hrpc\x08\x00\x00"))
    assert isinstance(failure.error, VersionMismatchError)
    assert "9" in failure.error.text
    assert "8" in failure.error.text


def test_http_request_gets_an_http_response() -> None:
    (event,) = ServerConnection().receive(b"GET / HTTP/1.1\r\n")
    assert isinstance(event, ConnectionEnd)
    assert event.data.startswith(b"HTTP/1.1 404 ")


def test_connection_of_another_protocol_is_closed_without_a_response() -> None:
    (event,) = ServerConnection().receive(b"\x16\x03\x01")
    assert isinstance(event, ConnectionEnd)
    assert event.data == b""


CONTEXT = client().open()[7:]
CALL = request_frame(
    3,
    CLIENT_ID,
    delimited(pb.RequestHeaderProto(methodName="m", declaringClassProtocolName=PROTOCOL, clientProtocolVersion=1)),
    delimited(ha.MonitorHealthRequestProto()),
)


@pytest.mark.parametrize(
    ("stream", "kind", "text"),
    [
        (b"hrpc\x09\x00\x00" + CALL, RpcServerError, "context not established"),
        (b"hrpc\x09\x00\x00" + CONTEXT + CONTEXT, RpcServerError, "already processed"),
        (b"hrpc\x09\x00\xdf" + CONTEXT, RpcServerError, "SASL comes first"),
        (b"hrpc\x09\x00\x51", RpcServerError, "authentication protocol 81"),
        (b"hrpc\x09\x00\x00" + request_frame(-7, b""), RpcServerError, "call id -7"),
        (
            b"hrpc\x09\x00\x00" + frame(delimited(pb.RpcRequestHeaderProto(callId=1, clientId=b""))),
            RpcServerError,
            "rpcOp",
        ),
        (b"hrpc\x09\x00\x00" + b"\xff\xff\xff\xf0", RpcServerError, "-16 bytes"),
        (
            b"hrpc\x09\x00\x00" + request_frame(-3, b"", delimited(pb.IpcConnectionContextProto(protocol=PROTOCOL))),
            AccessControlError,
            "names no user",
        ),
    ],
)
def test_invalid_messages_are_fatal(stream: bytes, kind: type[Exception], text: str) -> None:
    server = ServerConnection()
    failure = closing(server.receive(stream))
    assert isinstance(failure.error, kind)
    assert text in failure.error.text
    assert server.state is ServerState.CLOSED
    assert server.receive(CALL) == []


@examples(300)
@given(
    st.lists(
        st.one_of(st.binary(max_size=40), st.just(CONTEXT), st.just(CALL), st.just(b"hrpc\x09\x00\x00")), max_size=6
    )
)
def test_a_server_survives_any_bytes(chunks: list[bytes]) -> None:
    server = ServerConnection()
    events = [event for chunk in chunks for event in server.receive(chunk)]
    ends = [event for event in events if isinstance(event, ConnectionEnd)]
    assert len(ends) <= 1
    assert (server.state is ServerState.CLOSED) == bool(ends)
    assert not ends or events[-1] is ends[0]


@examples(300)
@given(st.lists(st.one_of(st.binary(max_size=40), st.binary(max_size=30).map(frame)), max_size=6), st.booleans())
def test_a_client_survives_any_bytes(chunks: list[bytes], sasl: bool) -> None:
    here = client(AuthProtocol.SASL if sasl else AuthProtocol.NONE)
    here.open()
    try:
        for chunk in chunks:
            here.receive(chunk)
    except (RpcProtocolError, AuthenticationRequiredError):
        assert here.state is ClientState.CLOSED


def test_calls_need_an_open_connection() -> None:
    with pytest.raises(RuntimeError, match="new, not open"):
        client().call(1, "m", ha.MonitorHealthRequestProto())
