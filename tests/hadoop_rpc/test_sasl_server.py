"""The server side of a login, connected to the client side by a readable mechanism, and with steps out of order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.access import Caller
from hadoop_rpc.client_state import CallFailure, CallResponse, ClientConnection, ConnectionReady, NegotiationStep
from hadoop_rpc.errors import (
    AccessControlError,
    AuthenticationRequiredError,
    LoginRefusedError,
    NotAuthorizedError,
    RpcError,
    SaslError,
)
from hadoop_rpc.framing import delimited, frame
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.sasl import MAX_HANDSHAKE_FRAME, MAX_TOKEN_FRAME
from hadoop_rpc.security import Protection
from hadoop_rpc.server_state import Call, ConnectionEnd, HandshakeReply, ServerConnection, ServerState
from hadoop_rpc.wire import CONTEXT_CALL_ID, AuthProtocol, connection_header, request_frame, sasl_request_frame
from tests.depth import examples
from tests.hadoop_rpc.fake_security import PRINCIPAL, PROTOCOL, FakeContext, FakeDoor, FakeSecurity, FakeTokens

CLIENT_ID = bytes(range(16))
REQUEST = ha.GetServiceStatusResponseProto(state=ha.STANDBY, notReadyReason="x" * 100)
OFFER = pb.RpcSaslProto.SaslAuth(method="KERBEROS", mechanism="GSSAPI", protocol="nn", serverId="there")
Events = list[Call | HandshakeReply | ConnectionEnd]


class Pair:
    """A client and a server; `wire` records the bytes between them."""

    def __init__(
        self,
        *wanted: Protection,
        offered: tuple[Protection, ...] = tuple(Protection),
        protocol: str = PROTOCOL,
        as_standby: bool = False,
    ) -> None:
        self.door = FakeDoor(offered)
        security = FakeSecurity(wanted or (Protection.AUTHENTICATION,))
        self.client = ClientConnection(protocol, "", CLIENT_ID, security=security)
        self.server = ServerConnection(security=self.door, peer="10.0.0.9", as_standby=as_standby)
        self.wire = b""
        self.failure: RpcError | None = None

    def send(self, data: bytes, cuts: tuple[int, ...] = ()) -> Events:
        """Send bytes to the server in pieces of this size."""
        self.wire += data
        events: Events = []
        for cut in (*cuts, len(data)):
            events += self.server.receive(data[:cut])
            data = data[cut:]
        return events

    def hear(self, events: Events) -> bytes:
        """Return the client's response to the server's bytes."""
        answer = b""
        for event in events:
            assert not isinstance(event, Call)
            data = event.data if isinstance(event, HandshakeReply) else self.server.seal(event.data)
            self.wire += data
            for received in self.client.receive(data):
                if isinstance(received, NegotiationStep | ConnectionReady):
                    answer += received.data
                elif isinstance(received, CallFailure):
                    self.failure = received.error
        return answer

    def log_in(self, cuts: tuple[int, ...] = ()) -> ServerState:
        data = self.client.open()
        while data:
            data = self.hear(self.send(data, cuts))
        return self.server.state


@given(st.sampled_from(Protection), st.lists(st.integers(0, 40), max_size=6).map(tuple))
def test_calls_and_responses_split_anywhere(protection: Protection, cuts: tuple[int, ...]) -> None:
    pair = Pair(protection)
    assert pair.log_in(cuts) is ServerState.OPEN
    assert (pair.server.user, pair.server.real_user, pair.server.sasl.principal) == ("sn", "", PRINCIPAL)
    assert pair.server.sasl.protection is protection
    assert pair.door.asked == [(Caller("10.0.0.9", ("sn",), PRINCIPAL), PROTOCOL)]
    data = pair.client.seal(pair.client.call(7, "someMethod", REQUEST) + pair.client.ping())
    (call,) = pair.send(data, cuts)
    assert isinstance(call, Call)
    assert (call.method, call.body) == ("someMethod", REQUEST.SerializeToString())
    sealed = pair.server.seal(pair.server.respond(call, REQUEST))
    assert (sealed == pair.server.respond(call, REQUEST)) == (protection is Protection.AUTHENTICATION)
    assert pair.client.receive(sealed) == [CallResponse(7, REQUEST.SerializeToString())]


def test_offer_equals_hadoops() -> None:
    pair = Pair()
    (offers,) = pair.send(pair.client.open())
    assert isinstance(offers, HandshakeReply)
    # the NameNode's entry for KERBEROS, except for the host
    entry = "221d0a084b45524245524f5312064753534150491a026e6e22057468657265"
    assert offers.data.hex().endswith(f"08dfffffff0f10001809211001{entry}")


def test_large_response_is_split_into_several_tokens() -> None:
    pair = Pair(Protection.PRIVACY)
    pair.log_in()
    (call,) = pair.send(pair.client.seal(pair.client.call(1, "m", REQUEST)))
    assert isinstance(call, Call)
    large = ha.GetServiceStatusResponseProto(state=ha.STANDBY, notReadyReason="x" * 500_000)
    sealed = pair.server.seal(pair.server.respond(call, large))
    assert pair.client.receive(sealed) == [CallResponse(1, large.SerializeToString())]


# ---- clients without a principal, or with a wrong principal ----


def test_simple_authentication_is_refused_with_hadoops_message() -> None:
    server = ServerConnection(security=FakeDoor())
    (closing,) = server.receive(connection_header(AuthProtocol.NONE))
    assert isinstance(closing, ConnectionEnd)
    assert closing.data[5:11] == b"\x08\xff\xff\xff\xff\x0f"
    plain = ClientConnection(PROTOCOL, "hdfs", CLIENT_ID)
    plain.open()
    (failure,) = plain.receive(closing.data)
    assert isinstance(failure, CallFailure)
    assert isinstance(failure.error, AuthenticationRequiredError)
    assert "SIMPLE authentication is not enabled.  Available:[KERBEROS]" in failure.error.message


def test_error_of_a_client_without_kerberos_names_the_offer() -> None:
    client = ClientConnection(PROTOCOL, "hdfs", CLIENT_ID, auth=AuthProtocol.SASL)
    (offers,) = ServerConnection(security=FakeDoor()).receive(client.open())
    assert isinstance(offers, HandshakeReply)
    with pytest.raises(AuthenticationRequiredError, match="offers KERBEROS as nn/there"):
        client.receive(offers.data)


def test_client_stops_without_a_common_protection() -> None:
    with pytest.raises(AuthenticationRequiredError, match="connections offer privacy, but this side requires auth"):
        Pair(Protection.AUTHENTICATION, offered=(Protection.PRIVACY,)).log_in()


def test_unknown_protocol_is_refused_within_privacy() -> None:
    pair = Pair(Protection.PRIVACY, protocol="org.example.Other")
    assert pair.log_in() is ServerState.CLOSED
    assert isinstance(pair.failure, NotAuthorizedError)
    assert pair.failure.text == "Unknown protocol: org.example.Other"


def test_delegation_token_is_refused_with_a_standby_exception() -> None:
    """After an exception of another class, an application would not ask the active NameNode."""
    server = ServerConnection(security=FakeDoor(), as_standby=True)
    (offers,) = server.receive(
        connection_header(AuthProtocol.SASL) + sasl_request_frame(pb.RpcSaslProto(state=pb.RpcSaslProto.NEGOTIATE))
    )
    assert isinstance(offers, HandshakeReply)
    token = pb.RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default")
    # a client that also has a ticket uses the ticket
    assert offers.data.endswith(pb.RpcSaslProto(auths=[OFFER, token]).SerializePartialToString())
    initiate = pb.RpcSaslProto(state=pb.RpcSaslProto.INITIATE, auths=[token], token=b"")
    (closing,) = server.receive(sasl_request_frame(initiate))
    assert isinstance(closing, ConnectionEnd)
    assert b"org.apache.hadoop.ipc.StandbyException" in closing.data


def test_standby_leaves_the_impersonation_check_to_the_handlers() -> None:
    pair = _impersonating("hdfs", as_standby=True)
    assert (pair.failure, pair.server.user, pair.server.real_user) == (None, "hdfs", "sn")
    assert pair.door.asked == [(Caller("10.0.0.9", ("sn",), PRINCIPAL), PROTOCOL)]


def test_client_that_sends_its_own_short_name_acts_as_itself() -> None:
    """The handlers accept an impersonation only if both names are equal, as in this test."""
    pair = _impersonating("sn", as_standby=True)
    assert (pair.failure, pair.server.user, pair.server.real_user) == (None, "sn", "sn")
    assert pair.server.state is ServerState.OPEN


@pytest.mark.parametrize("user", ["sn", "hdfs"])
def test_impersonation_is_refused(user: str) -> None:
    pair = _impersonating(user)
    assert isinstance(pair.failure, NotAuthorizedError)
    assert pair.failure.text == f"User: {PRINCIPAL} is not allowed to impersonate {user}"


def _impersonating(user: str, *, as_standby: bool = False) -> Pair:
    pair = Pair(as_standby=as_standby)
    state = pair.client.open()
    for _ in range(3):
        state = pair.hear(pair.send(state))
    step = pb.RpcSaslProto()
    header, body = _split(state)
    assert header.callId == -33
    step.ParseFromString(body)
    assert step.state == pb.RpcSaslProto.RESPONSE
    pair.send(state)
    context = pb.IpcConnectionContextProto(userInfo=pb.UserInformationProto(effectiveUser=user), protocol=PROTOCOL)
    pair.hear(pair.send(request_frame(CONTEXT_CALL_ID, b"", delimited(context))))
    return pair


def _split(data: bytes) -> tuple[pb.RpcRequestHeaderProto, bytes]:
    """Split a short frame into header and body."""
    size = data[4]
    header = pb.RpcRequestHeaderProto()
    header.ParseFromString(data[5 : 5 + size])
    return header, data[6 + size :]


def test_call_of_a_protocol_other_than_the_connections_is_refused() -> None:
    pair = Pair()
    pair.log_in()
    other = ClientConnection("org.example.Other", "", CLIENT_ID)
    other.open()
    pair.hear(pair.send(other.call(3, "m", REQUEST)))
    assert isinstance(pair.failure, NotAuthorizedError)


# ---- steps out of order ----


def steps() -> st.SearchStrategy[bytes]:
    """Return valid and invalid steps of a client, and other frames."""
    context = FakeContext()
    tokens = [None, b"", b"hello", b"x", *(context.wrap(bytes((layer, 0, 0, 0)), encrypt=False) for layer in (1, 4, 5))]
    states = [each for each in pb.RpcSaslProto.SaslState.values() if each != pb.RpcSaslProto.NEGOTIATE]
    auths: list[list[pb.RpcSaslProto.SaslAuth]] = [
        [],
        [OFFER],
        [OFFER, OFFER],
        [pb.RpcSaslProto.SaslAuth(method="SIMPLE", mechanism="")],
        [pb.RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default")],
    ]
    made = st.builds(
        lambda state, token, offers: sasl_request_frame(pb.RpcSaslProto(state=state, token=token, auths=offers)),
        st.sampled_from(states),
        st.sampled_from(tokens),
        st.sampled_from(auths),
    )
    negotiate = st.just(sasl_request_frame(pb.RpcSaslProto(state=pb.RpcSaslProto.NEGOTIATE)))
    context_frame = request_frame(CONTEXT_CALL_ID, b"", delimited(pb.IpcConnectionContextProto(protocol=PROTOCOL)))
    return st.one_of(negotiate, made, made, st.just(context_frame), st.binary(max_size=30).map(frame))


@given(st.lists(steps(), max_size=8), st.lists(st.integers(1, 60), max_size=4))
@examples(600)
def test_any_order_ends_in_a_refusal_or_an_authenticated_login(frames: list[bytes], cuts: list[int]) -> None:
    server = ServerConnection(security=FakeDoor(), tokens=FakeTokens())
    stream = connection_header(AuthProtocol.SASL) + b"".join(frames)
    events: Events = []
    for cut in (*cuts, len(stream)):
        events += server.receive(stream[:cut])
        stream = stream[cut:]
    assert not any(isinstance(event, ConnectionEnd) for event in events[:-1])
    if server.state in (ServerState.CONTEXT, ServerState.OPEN):
        assert server.sasl.principal == PRINCIPAL
    if server.state is ServerState.OPEN:
        assert server.user == "sn"


@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        (pb.RpcSaslProto(state=pb.RpcSaslProto.RESPONSE, token=b""), SaslError, "unsupported state RESPONSE"),
        (pb.RpcSaslProto(state=pb.RpcSaslProto.SUCCESS), SaslError, "unsupported state SUCCESS"),
        (pb.RpcSaslProto(state=pb.RpcSaslProto.INITIATE), SaslError, "mechanism is malformed"),
        (
            pb.RpcSaslProto(
                state=pb.RpcSaslProto.INITIATE, auths=[pb.RpcSaslProto.SaslAuth(method="SIMPLE", mechanism="")]
            ),
            AccessControlError,
            r"SIMPLE authentication is not enabled.  Available:\[KERBEROS\]",
        ),
        (
            pb.RpcSaslProto(state=pb.RpcSaslProto.INITIATE, token=b"nothing", auths=[OFFER]),
            SaslError,
            "GSS initiate failed: the token is not from a client",
        ),
    ],
)
def test_invalid_first_steps_are_refused(step: pb.RpcSaslProto, kind: type[RpcError], words: str) -> None:
    server = ServerConnection(security=FakeDoor())
    (closing,) = server.receive(connection_header(AuthProtocol.SASL) + sasl_request_frame(step))
    assert isinstance(closing, ConnectionEnd)
    received = ClientConnection(PROTOCOL, "", CLIENT_ID, auth=AuthProtocol.SASL)
    received.open()
    (failure,) = received.receive(closing.data)
    assert isinstance(failure, CallFailure)
    with pytest.raises((kind, AuthenticationRequiredError, LoginRefusedError), match=words):
        raise failure.error


def test_client_guess_is_answered_with_the_offer_once() -> None:
    server = ServerConnection(security=FakeDoor())
    token = pb.RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default")
    guess = sasl_request_frame(pb.RpcSaslProto(state=pb.RpcSaslProto.INITIATE, auths=[token]))
    (offers,) = server.receive(connection_header(AuthProtocol.SASL) + guess)
    assert isinstance(offers, HandshakeReply)
    (closing,) = server.receive(guess)
    assert isinstance(closing, ConnectionEnd)
    assert b"TOKEN authentication is not enabled" in closing.data


@pytest.mark.parametrize("protection", [Protection.INTEGRITY, Protection.PRIVACY])
def test_frame_outside_a_token_is_refused_with_a_protected_error(protection: Protection) -> None:
    pair = Pair(protection)
    pair.log_in()
    pair.hear(pair.send(pair.client.call(3, "m", REQUEST)))
    assert pair.failure is not None
    assert "outside a token" in pair.failure.message


def test_repeated_or_plain_token_closes_the_connection_without_a_response() -> None:
    for change in ("twice", "clear"):
        pair = Pair(Protection.PRIVACY)
        pair.log_in()
        sealed = pair.client.seal(pair.client.call(3, "m", REQUEST))
        head = FakeContext().wrap(b"", encrypt=True)[:4]
        assert sealed.count(head) == 1
        *_, last = pair.send(sealed * 2 if change == "twice" else sealed.replace(head, b"\0" + head[1:]))
        assert last == ConnectionEnd(b"", last.reason if isinstance(last, ConnectionEnd) else "")


def test_size_limits_of_frames_before_the_login_and_of_tokens_after_it() -> None:
    server = ServerConnection(security=FakeDoor())
    begin = connection_header(AuthProtocol.SASL)
    assert server.receive(begin + (MAX_HANDSHAKE_FRAME).to_bytes(4, "big")) == []
    (closing,) = ServerConnection(security=FakeDoor()).receive(begin + (MAX_HANDSHAKE_FRAME + 1).to_bytes(4, "big"))
    assert isinstance(closing, ConnectionEnd)
    pair = Pair(Protection.PRIVACY)
    pair.log_in()
    (closing,) = pair.send((MAX_TOKEN_FRAME + 1).to_bytes(4, "big"))
    assert isinstance(closing, ConnectionEnd)


def test_frame_length_within_a_token_is_limited() -> None:
    pair = Pair(Protection.PRIVACY)
    pair.log_in()
    (closing,) = pair.send(pair.client.seal(b"\x7f\xff\xff\xff"))
    assert isinstance(closing, ConnectionEnd)
    assert "a frame of 2147483647 bytes was announced" in closing.reason
