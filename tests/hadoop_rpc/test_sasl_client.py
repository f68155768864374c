"""A client's Kerberos login as a state machine, with a fake mechanism; messages arrive in any order and split
anywhere.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.client_state import (
    CallFailure,
    CallResponse,
    ClientConnection,
    ClientState,
    ConnectionReady,
    NegotiationStep,
)
from hadoop_rpc.errors import AuthenticationRequiredError, KerberosError, LoginRefusedError, RpcError, RpcProtocolError
from hadoop_rpc.framing import DelimitedReader, delimited, frame
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.security import Protection, parse_protections
from tests.depth import examples
from tests.hadoop_rpc.fake_security import PRINCIPAL, FakeSecurity, FakeServer, offers, sasl_reply

S = pb.RpcSaslProto
ALL = tuple(Protection)


def client(*protections: Protection, fallback: bool = False) -> ClientConnection:
    security = FakeSecurity(protections or (Protection.AUTHENTICATION,), fallback)
    return ClientConnection("org.example.Protocol", "alice", bytes(16), security=security)


def logged_in(protection: Protection) -> tuple[ClientConnection, FakeServer]:
    here, server = client(protection), FakeServer()
    data = here.open()
    while here.state is ClientState.NEGOTIATING:
        (event,) = here.receive(server.receive(data))
        assert isinstance(event, NegotiationStep | ConnectionReady)
        data = event.data
    assert server.receive(data) == b""
    return here, server


def answer(call_id: int) -> bytes:
    header = pb.RpcResponseHeaderProto(callId=call_id, status=pb.RpcResponseHeaderProto.SUCCESS)
    return frame(delimited(header), delimited(ha.MonitorHealthResponseProto()))


def refusal(call_id: int, kind: str, text: str) -> bytes:
    status = pb.RpcResponseHeaderProto.FATAL
    header = pb.RpcResponseHeaderProto(callId=call_id, status=status, exceptionClassName=kind, errorMsg=text)
    return frame(delimited(header))


# ---- the bytes ----


RESPONSE_HEADER = "0e08dfffffff0f100018093a004001"
REQUEST_HEADER = "0a08021000184122002801"


def recorded(step: str) -> bytes:
    """Return a recorded step of a Hadoop 2.7.3 NameNode, in a frame with its header."""
    return frame(bytes.fromhex(RESPONSE_HEADER), delimited(bytes.fromhex(step)))


def test_frames_equal_hadoops() -> None:
    """Except for the content of tokens, both sides send the same bytes as Java's client and a Hadoop 2.7.3 NameNode."""
    here = client()
    assert here.open().hex() == "687270630900df" + "0000000e" + REQUEST_HEADER + "021001"
    entry = "0a084b45524245524f53120647535341504" + "91a026e6e22096c6f63616c686f7374"
    (initiate,) = here.receive(recorded("1001" + "2221" + entry))
    assert isinstance(initiate, NegotiationStep)
    assert initiate.data[4:].hex() == REQUEST_HEADER + "2c" + "1002" + "1a0568656c6c6f" + "2221" + entry
    (response,) = here.receive(recorded("1003" + "1a07" + b"welcome".hex()))
    assert isinstance(response, NegotiationStep)
    assert response.data.hex() == "00000010" + REQUEST_HEADER + "04" + "10041a00"
    offer = b"\0\0\0\0\x01" + bytes((7, 1, 0, 0))
    (layer,) = here.receive(recorded("1003" + "1a09" + offer.hex()))
    assert isinstance(layer, NegotiationStep)
    assert layer.data[4:].hex() == REQUEST_HEADER + "0d" + "1004" + "1a09" + "0000000001" + "01000000"
    (ready,) = here.receive(bytes.fromhex("000000120e08dfffffff0f100018093a004001021000"))
    assert isinstance(ready, ConnectionReady)
    assert here.state is ClientState.OPEN


def test_authentication_only_uses_the_principal_and_plain_frames() -> None:
    here, server = logged_in(Protection.AUTHENTICATION)
    assert [step.state for step in server.steps] == [S.NEGOTIATE, S.INITIATE, S.RESPONSE, S.RESPONSE]
    (context,) = server.frames
    reader = DelimitedReader(context)
    assert reader.read(pb.RpcRequestHeaderProto).callId == -3
    assert reader.read(pb.IpcConnectionContextProto).userInfo.effectiveUser == PRINCIPAL
    ping = here.ping()
    assert here.seal(ping) == ping


# ---- the layers ----


@given(st.permutations(ALL).flatmap(lambda all_: st.integers(1, 3).map(lambda n: all_[:n])), st.integers(0, 7))
def test_first_client_protection_that_the_server_offers_is_chosen(wanted: list[Protection], layers: int) -> None:
    here, server = client(*wanted), FakeServer(layers)
    common = [each for each in wanted if each.value & layers]

    def negotiate() -> None:
        data = here.open()
        while here.state is ClientState.NEGOTIATING:
            (event,) = here.receive(server.receive(data))
            assert isinstance(event, NegotiationStep | ConnectionReady)
            data = event.data
        server.receive(data)

    if common:
        negotiate()
        assert server.protection is common[0]
        assert len(server.frames) == 1
    else:
        with pytest.raises(AuthenticationRequiredError, match="this side requires"):
            negotiate()


@given(st.sampled_from(ALL), st.lists(st.integers(0, 200_000), max_size=3), st.data())
def test_calls_and_responses_split_anywhere(protection: Protection, sizes: list[int], data: st.DataObject) -> None:
    here, server = logged_in(protection)
    for call_id, size in enumerate(sizes):
        request = ha.GetServiceStatusResponseProto(state=ha.ACTIVE, notReadyReason="x" * size)
        assert server.receive(here.seal(here.call(call_id, "m", request))) == b""
        assert request.SerializeToString() in server.frames[-1]
    # one frame in several tokens, several frames in one token, and the stream in pieces
    stream = b"".join(answer(call_id) for call_id in range(5))
    if protection is not Protection.AUTHENTICATION:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
        bounds = zip([0, *cuts], [*cuts, len(stream)], strict=True)
        stream = b"".join(server.respond(stream[start:end]) for start, end in bounds)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    events = [event for piece in pieces for event in here.receive(piece)]
    assert [event.call_id for event in events if isinstance(event, CallResponse)] == list(range(5))


def test_data_directly_after_success_is_read() -> None:
    here, server = client(Protection.PRIVACY), FakeServer()
    data = here.open()
    for _ in range(3):
        (event,) = here.receive(server.receive(data))
        assert isinstance(event, NegotiationStep)
        data = event.data
    success = server.receive(data)
    ready, response = here.receive(success + server.respond(answer(7)))
    assert isinstance(ready, ConnectionReady)
    assert isinstance(response, CallResponse)


@pytest.mark.parametrize("protection", [Protection.INTEGRITY, Protection.PRIVACY])
def test_invalid_tokens_and_frames_of_the_server_are_refused(protection: Protection) -> None:
    def refused(kind: type[RpcError], match: str, stream: bytes, here: ClientConnection) -> None:
        with pytest.raises(kind, match=match):
            here.receive(stream)
        assert here.state is ClientState.CLOSED

    here, server = logged_in(protection)
    refused(RpcProtocolError, "outside a token", answer(1), here)
    here, server = logged_in(protection)
    refused(RpcProtocolError, "outside a token: go away", refusal(0xFFFFFFFF, "java.io.IOException", "go away"), here)
    here, server = logged_in(protection)
    token = server.respond(answer(1))
    refused(KerberosError, "came twice", token + token, here)
    here, server = logged_in(protection)
    first, second = server.respond(answer(1)), server.respond(answer(2))
    refused(KerberosError, "missing", second + first, here)
    here, server = logged_in(protection)
    refused(RpcProtocolError, "where frames must be wrapped", sasl_reply(S.CHALLENGE, b"x"), here)
    here, server = logged_in(protection)
    refused(RpcProtocolError, "a frame of", server.respond(b"\x7f\xff\xff\xff"), here)


def test_unencrypted_token_under_privacy_is_refused() -> None:
    here, server = logged_in(Protection.PRIVACY)
    server.protection = Protection.INTEGRITY
    with pytest.raises(KerberosError, match="not encrypted"):
        here.receive(server.respond(answer(1)))


def test_error_within_a_token_is_reported() -> None:
    here, server = logged_in(Protection.INTEGRITY)
    (failure,) = here.receive(server.respond(refusal(0xFFFFFFFD, "java.io.IOException", "no")))
    assert isinstance(failure, CallFailure)
    assert failure.call_id is None


# ---- servers that do not prove their identity ----


@pytest.mark.parametrize("first", [sasl_reply(S.SUCCESS), offers(("SIMPLE", "")), offers(("TOKEN", "DIGEST-MD5"))])
def test_a_server_without_kerberos_is_refused(first: bytes) -> None:
    here = client()
    here.open()
    with pytest.raises(AuthenticationRequiredError, match=r"Kerberos|KERBEROS"):
        here.receive(first)
    assert here.state is ClientState.CLOSED


@pytest.mark.parametrize("first", [sasl_reply(S.SUCCESS), offers(("SIMPLE", ""))])
def test_fallback_to_simple_only_if_configured(first: bytes) -> None:
    here = client(fallback=True)
    here.open()
    (ready,) = here.receive(first)
    assert isinstance(ready, ConnectionReady)
    assert b"alice" in ready.data


def test_success_before_the_login_is_complete_is_refused() -> None:
    for steps in ([], [sasl_reply(S.CHALLENGE, b"welcome")]):
        here = client()
        here.open()
        here.receive(offers(("KERBEROS", "GSSAPI")))
        for step in steps:
            here.receive(step)
        with pytest.raises(RpcProtocolError, match="SUCCESS"):
            here.receive(sasl_reply(S.SUCCESS))


def test_refused_token_is_reported_as_a_refused_login() -> None:
    here = client()
    here.open()
    here.receive(offers(("KERBEROS", "GSSAPI")))
    (failure,) = here.receive(refusal(0xFFFFFFDF, "javax.security.sasl.SaslException", "GSS initiate failed"))
    assert isinstance(failure, CallFailure)
    assert isinstance(failure.error, LoginRefusedError)


_STEPS = st.one_of(
    st.builds(sasl_reply, st.integers(0, 5), st.sampled_from([None, b"", b"welcome", b"\0\0\0\0\x01\x07\0\0\0"])),
    st.lists(
        st.sampled_from([("SIMPLE", ""), ("KERBEROS", "GSSAPI"), ("TOKEN", "DIGEST-MD5"), ("NEW", "X")]), max_size=4
    ).map(lambda auths: offers(*auths)),
    st.just(answer(1)),
    st.binary(max_size=30).map(frame),
    st.binary(max_size=20),
)


@examples(300)
@given(st.lists(_STEPS, max_size=8), st.booleans(), st.sampled_from(ALL))
def test_any_order_of_steps_ends_open_or_in_a_typed_error(
    steps: list[bytes], fallback: bool, protection: Protection
) -> None:
    here = client(protection, fallback=fallback)
    here.open()
    try:
        for step in steps:
            here.receive(step)
    except RpcError:
        assert here.state is ClientState.CLOSED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (Protection.AUTHENTICATION,)),
        (" Privacy , authentication", (Protection.PRIVACY, Protection.AUTHENTICATION)),
        ("integrity,", (Protection.INTEGRITY,)),
    ],
)
def test_values_of_hadoop_rpc_protection(text: str, expected: tuple[Protection, ...]) -> None:
    assert parse_protections(text) == expected


def test_unknown_rpc_protection_is_refused() -> None:
    with pytest.raises(ValueError, match="not a list of"):
        parse_protections("privacy,secret")
