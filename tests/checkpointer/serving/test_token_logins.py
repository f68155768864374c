"""Logins with delegation tokens of the replayed namespace, over RPC and WebHDFS."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import replace

import pytest
from flask.testing import FlaskClient

from checkpointer.serving.live_namespace import LiveNamespace
from engine.warm_namespace import WarmNamespace
from hadoop_common.access import Caller
from hadoop_rpc import digest_md5
from hadoop_rpc.errors import RemoteError
from hadoop_rpc.framing import DelimitedReader, RpcFrameBuffer, delimited
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.security import Protection
from hadoop_rpc.server_counts import ACCEPTED, FAILED, LOGINS, LoginCounts
from hadoop_rpc.server_state import Call, ConnectionEnd, HandshakeReply, ServerConnection, ServerState
from hadoop_rpc.wire import CONTEXT_CALL_ID, AuthProtocol, connection_header, request_frame, sasl_request_frame
from journal import ops, primitives
from journal.ops import EditOp
from journal.record_kinds import DELEGATION_TOKEN
from servlets.application import create_application
from servlets.http_authenticator import HttpAuthenticator, HttpLogin
from servlets.webhdfs import webhdfs_blueprint
from tests.checkpointer.service_support import FakeRole, standby_config
from tests.engine.image_builder import numbered
from tests.engine.op_makers import mkdir, set_permissions
from tests.hadoop_rpc.digest_client import DigestClient
from tests.hadoop_rpc.fake_security import PRINCIPAL, PROTOCOL, FakeDoor

# a token that a Hadoop 3.5.0 NameNode issued with this key: its form in a URL, its identifier and its password
TEXT = (
    "KAAQYWxpY2VAVEVTVC5SRUFMTQRoZGZzAIoBoiaYxqGKAaJKpUqhAQIUT6dx6sz8KfkWVKxBsMpoVIAdnY0VSERGU19ERUxFR0FUSU9OX1RPS0VO"
    "C2hhLWhkZnM6bnMx"
)
IDENTIFIER = bytes.fromhex("0010616c69636540544553542e5245414c4d0468646673008a01a22698c6a18a01a24aa54aa10102")
PASSWORD = bytes.fromhex("4fa771eaccfc29f91654ac41b0ca6854801d9d8d")
KEY = ops.DelegationKey(2, 1796635066182, bytes.fromhex("533b807e74f8497f"))
IDENT = ops.DelegationTokenIdent("alice@TEST.REALM", "hdfs", "", 1795943876257, 1796548676257, 1, 2)
RENEWED = IDENT.issue_date + 86_400_000
OPS: list[EditOp] = [
    mkdir("/open", 20001),
    set_permissions("/open", 0o755),
    mkdir("/closed", 20002),
    set_permissions("/closed", 0o700),
    ops.UpdateMasterKeyOp(key=KEY),
    ops.GetDelegationTokenOp(token=IDENT, expiry_time=RENEWED),
]
STANDBY = "org.apache.hadoop.ipc.StandbyException"
INVALID = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
TOKEN = pb.RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId="default")
DOOR = FakeDoor()


@pytest.fixture
def now() -> list[float]:
    """Time in seconds; a test may change it."""
    return [IDENT.issue_date / 1000 + 1]


@pytest.fixture
def live(warm: WarmNamespace, now: list[float]) -> LiveNamespace:
    config = replace(standby_config(), permissions=True)
    return LiveNamespace(
        FakeRole(),
        warm,
        config,
        owner="hdfs",
        authenticated=True,
        user_of=DOOR.user_of,
        groups_of=lambda user: frozenset(),
        wall=lambda: now[0],
    )


def apply(warm: WarmNamespace, *more: EditOp) -> None:
    warm.apply(list(numbered(more, warm.last_txid)))


def problem(live: LiveNamespace, identifier: bytes = IDENTIFIER) -> tuple[str, str]:
    assert live.tokens is not None
    with pytest.raises(RemoteError) as caught:
        live.tokens.known_token(identifier)
    return caught.value.class_name, caught.value.text


# ---- the tokens of the namespace ----


def test_password_equals_that_of_the_namenode(live: LiveNamespace) -> None:
    assert live.tokens is not None
    known = live.tokens.known_token(IDENTIFIER)
    assert (known.owner, known.user, known.password) == ("alice@TEST.REALM", "alice", PASSWORD)
    assert live.tokens.user_of_text(TEXT, 0) == "alice"
    assert PASSWORD.hex() not in repr(known)
    assert str(PASSWORD) not in repr(known)


def test_expired_token_is_referred_to_the_active(live: LiveNamespace, warm: WarmNamespace, now: list[float]) -> None:
    assert live.tokens is not None
    now[0] = RENEWED / 1000
    live.tokens.known_token(IDENTIFIER)
    now[0] += 1
    java_class, text = problem(live)
    assert java_class == STANDBY
    assert text.startswith("delegation token 1 of alice@TEST.REALM has expired")
    # a renewal beyond the maximum, which a NameNode does not grant
    apply(warm, ops.RenewDelegationTokenOp(token=IDENT, expiry_time=IDENT.max_date + 5000))
    live.tokens.known_token(IDENTIFIER)
    now[0] = IDENT.max_date / 1000 + 1
    assert problem(live)[0] == STANDBY


def test_a_cancelled_token_is_unknown(live: LiveNamespace, warm: WarmNamespace) -> None:
    apply(warm, ops.CancelDelegationTokenOp(token=IDENT))
    java_class, text = problem(live)
    assert (java_class, "is unknown to this node" in text) == (STANDBY, True)


@pytest.mark.parametrize(
    "change",
    [{"master_key_id": 3}, {"sequence_number": 2}, {"owner": "bob@TEST.REALM"}, {"real_user": "x"}, {"max_date": 1}],
)
def test_each_field_identifies_a_token(live: LiveNamespace, change: dict[str, object]) -> None:
    other = bytearray()
    DELEGATION_TOKEN.write(other, IDENT._replace(**change))  # type: ignore[arg-type]
    assert problem(live, bytes(other))[0] == STANDBY


def test_token_with_an_unknown_master_key_is_unknown(live: LiveNamespace, warm: WarmNamespace) -> None:
    """As in a NameNode, replay ignores the operation that issues the token."""
    other, identifier = IDENT._replace(master_key_id=9, sequence_number=2), bytearray()
    DELEGATION_TOKEN.write(identifier, other)
    apply(warm, ops.GetDelegationTokenOp(token=other, expiry_time=RENEWED))
    assert problem(live, bytes(identifier))[0] == STANDBY


@pytest.mark.parametrize("identifier", [b"", b"\x01" + IDENTIFIER[1:], IDENTIFIER[:-1], IDENTIFIER + b"x"])
def test_malformed_identifier_is_invalid(live: LiveNamespace, identifier: bytes) -> None:
    assert problem(live, identifier)[0] == INVALID


def test_owner_without_a_local_name_is_refused(live: LiveNamespace, warm: WarmNamespace) -> None:
    other, identifier = IDENT._replace(owner="alice@OTHER.REALM", sequence_number=2), bytearray()
    DELEGATION_TOKEN.write(identifier, other)
    apply(warm, ops.GetDelegationTokenOp(token=other, expiry_time=RENEWED))
    assert problem(live, bytes(identifier))[0] == "org.apache.hadoop.security.AccessControlException"


def test_login_without_a_namespace_is_retriable(live: LiveNamespace, warm: WarmNamespace) -> None:
    warm.close()
    assert problem(live)[0] == "org.apache.hadoop.ipc.RetriableException"


# ---- over RPC ----


class Login:
    """A connection that logs in with the token, at the address of a NameNode."""

    def __init__(self, live: LiveNamespace, *protections: Protection) -> None:
        self.door = FakeDoor(protections or tuple(Protection))
        self.server = ServerConnection(security=self.door, tokens=live.tokens, peer="10.0.0.9", as_standby=True)
        self.server.receive(connection_header(AuthProtocol.SASL))

    def step(
        self, state: pb.RpcSaslProto.SaslState, token: bytes | None = None, auth: pb.RpcSaslProto.SaslAuth | None = None
    ) -> pb.RpcSaslProto:
        step = pb.RpcSaslProto(state=state, token=token, auths=[] if auth is None else [auth])
        (event,) = self.server.receive(sasl_request_frame(step))
        assert isinstance(event, HandshakeReply), event
        frames = RpcFrameBuffer()
        frames.feed(event.data)
        reader = DelimitedReader(frames.next_frame() or b"")
        reader.read(pb.RpcResponseHeaderProto)
        return reader.read(pb.RpcSaslProto)

    def refusal(self, response: bytes) -> bytes:
        step = pb.RpcSaslProto(state=pb.RpcSaslProto.INITIATE, token=response, auths=[TOKEN])
        (event,) = self.server.receive(sasl_request_frame(step))
        assert isinstance(event, ConnectionEnd)
        assert self.server.state is ServerState.CLOSED
        return event.data

    def challenge(self) -> bytes:
        kerberos, token = self.step(pb.RpcSaslProto.NEGOTIATE).auths
        assert (kerberos.method, token.method) == ("KERBEROS", "TOKEN")
        challenge = token.challenge
        token.ClearField("challenge")
        assert token == TOKEN
        return challenge


def client_of(challenge: bytes, qop: str = "auth", password: bytes = PASSWORD) -> DigestClient:
    user, secret = base64.b64encode(IDENTIFIER).decode(), base64.b64encode(password)
    return DigestClient(challenge, user, secret, qop, "/default")


@pytest.mark.parametrize("qop", ["auth", "auth-int", "auth-conf"])
def test_call_after_a_login(live: LiveNamespace, qop: str) -> None:
    login = Login(live)
    client = client_of(login.challenge(), qop)
    answer = login.step(pb.RpcSaslProto.INITIATE, client.response, TOKEN)
    assert (answer.state, answer.token) == (pb.RpcSaslProto.SUCCESS, client.proof)
    context = delimited(pb.IpcConnectionContextProto(protocol=PROTOCOL))
    call = delimited(
        pb.RequestHeaderProto(methodName="m", declaringClassProtocolName=PROTOCOL, clientProtocolVersion=1)
    )
    layer = client.layer()

    def sealed(data: bytes) -> bytes:
        if qop == "auth":
            return data
        token = layer.wrap(data, encrypt=qop == "auth-conf")
        return sasl_request_frame(pb.RpcSaslProto(state=pb.RpcSaslProto.WRAP, token=token))

    assert login.server.receive(sealed(request_frame(CONTEXT_CALL_ID, b"", context))) == []
    assert (login.server.user, login.server.real_user) == ("alice", "")
    assert login.door.asked == [(Caller("10.0.0.9", ("alice",), "alice@TEST.REALM"), PROTOCOL)]
    (received,) = login.server.receive(sealed(request_frame(1, b"", call, context)))
    assert isinstance(received, Call)
    answered = login.server.respond(received, pb.IpcConnectionContextProto(protocol="answer"))
    assert (b"answer" in login.server.seal(answered)) == (qop != "auth-conf")


def test_client_without_a_challenge_gets_one(live: LiveNamespace) -> None:
    login = Login(live)
    asked = login.step(pb.RpcSaslProto.INITIATE, b"", TOKEN)
    assert asked.state == pb.RpcSaslProto.CHALLENGE
    client = client_of(asked.token)
    assert login.step(pb.RpcSaslProto.RESPONSE, client.response).token == client.proof


def test_a_wrong_password_is_refused(live: LiveNamespace) -> None:
    login = Login(live)
    refused = login.refusal(client_of(login.challenge(), password=bytes(20)).response)
    assert b"javax.security.sasl.SaslException" in refused
    assert b"the password is wrong" in refused


def test_a_response_to_another_challenge_is_refused(live: LiveNamespace) -> None:
    login = Login(live)
    login.challenge()
    assert b"nonce does not match" in login.refusal(client_of(Login(live).challenge()).response)


def test_an_unknown_token_makes_clients_ask_the_active(live: LiveNamespace, warm: WarmNamespace) -> None:
    apply(warm, ops.CancelDelegationTokenOp(token=IDENT))
    login = Login(live)
    assert STANDBY.encode() in login.refusal(client_of(login.challenge()).response)


def test_token_is_valid_only_for_its_owner(live: LiveNamespace) -> None:
    login = Login(live)
    login.step(pb.RpcSaslProto.INITIATE, client_of(login.challenge()).response, TOKEN)
    user = pb.UserInformationProto(effectiveUser="hdfs")
    context = delimited(pb.IpcConnectionContextProto(userInfo=user, protocol=PROTOCOL))
    (event,) = login.server.receive(request_frame(CONTEXT_CALL_ID, b"", context))
    assert isinstance(event, ConnectionEnd)
    assert "alice@TEST.REALM is not allowed to impersonate hdfs" in event.reason


def test_protection_that_is_not_offered_is_refused(live: LiveNamespace) -> None:
    login = Login(live, Protection.PRIVACY)
    assert b"qop was not offered" in login.refusal(client_of(login.challenge(), "auth").response)


def test_tokens_are_refused_if_privacy_is_offered_without_the_cipher(
    live: LiveNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_md5, "find_spec", lambda name: None)
    login = Login(live)
    assert not login.challenge()
    assert STANDBY.encode() in login.refusal(b"")
    assert Login(live, Protection.INTEGRITY, Protection.AUTHENTICATION).challenge()


# ---- over WebHDFS ----


@pytest.fixture
def web(live: LiveNamespace) -> FlaskClient:
    login = HttpLogin(DOOR, DOOR.user_of, b"of no worth", 60.0, frozenset())
    authenticator = HttpAuthenticator(login, LoginCounts())
    return create_application(webhdfs_blueprint(live), authenticator=authenticator).test_client()


def asked(web: FlaskClient, path: str, token: str, method: str = "GET", **more: str) -> tuple[int, str]:
    query = {"op": "LISTSTATUS", "delegation": token, **more}
    answer = web.open(path, method=method, query_string=query, buffered=True)
    return answer.status_code, (answer.json or {}).get("RemoteException", {}).get("javaClassName", "")


def url_text(password: bytes, kind: str = "WEBHDFS delegation") -> str:
    """Return the token with another password in its URL form, as a client receives it over WebHDFS."""
    out = bytearray()
    for part in (IDENTIFIER, password):
        primitives.write_vint(out, len(part))
        out += part
    primitives.write_text(out, kind)
    primitives.write_text(out, "10.0.0.1:9870")
    return base64.urlsafe_b64encode(out).decode()


def test_webhdfs_accepts_a_token(web: FlaskClient) -> None:
    assert asked(web, "/webhdfs/v1/open", TEXT) == (200, "")
    assert asked(web, "/webhdfs/v1/open", url_text(PASSWORD)) == (200, "")
    denied = "org.apache.hadoop.security.AccessControlException"
    assert asked(web, "/webhdfs/v1/closed", TEXT) == (403, denied)
    answer = web.get("/webhdfs/v1/", query_string={"op": "GETHOMEDIRECTORY", "delegation": TEXT, "user.name": "hdfs"})
    assert answer.json == {"Path": "/user/alice"}
    assert asked(web, "/webhdfs/v1/open", TEXT, doas="hdfs")[0] == 403
    assert web.get("/webhdfs/v1/open", query_string={"OP": "LISTSTATUS", "Delegation": TEXT}).status_code == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 200),
        ({"user.name": "sn"}, 200),
        ({"user.name": PRINCIPAL}, 200),
        ({"user.name": "hdfs"}, 200),
        ({"doas": "sn"}, 403),
        ({"doAs": "alice"}, 403),
    ],
)
@pytest.mark.parameters(6)
def test_webhdfs_answers_a_ticket_only_as_its_own_user(web: FlaskClient, sent: dict[str, str], status: int) -> None:
    ticket = {"Authorization": "Negotiate " + base64.b64encode(b"hello").decode()}
    answer = web.get("/webhdfs/v1/", query_string={"op": "GETHOMEDIRECTORY", **sent}, headers=ticket)
    assert answer.status_code == status
    assert answer.json is not None
    assert answer.json.get("Path") == ("/user/sn" if status == 200 else None)


def test_each_webhdfs_request_with_a_token_counts_as_a_login(web: FlaskClient) -> None:
    before = Counter(LOGINS.now().results)
    for token in (TEXT, TEXT, url_text(bytes(20)), "A"):
        asked(web, "/webhdfs/v1/open", token)
    assert Counter(LOGINS.now().results) - before == {("http", ACCEPTED): 2, ("http", FAILED): 2}


@pytest.mark.parametrize(
    "token", ["", "A", "AAAA", TEXT[:60], "*" + TEXT[1:], url_text(bytes(20)), url_text(b""), url_text(PASSWORD[:19])]
)
def test_webhdfs_refuses_a_token_without_its_password(web: FlaskClient, token: str) -> None:
    assert asked(web, "/webhdfs/v1/open", token) == (403, INVALID)


def test_webhdfs_refers_an_unknown_token_to_the_active(web: FlaskClient, warm: WarmNamespace) -> None:
    apply(warm, ops.CancelDelegationTokenOp(token=IDENT))
    assert asked(web, "/webhdfs/v1/open", TEXT) == (403, STANDBY)


@pytest.mark.parametrize(
    ("path", "method"), [("/jmx", "GET"), ("/webhdfs/v1/open", "PUT"), ("/webhdfs/v1/open", "HEAD")]
)
def test_tokens_are_accepted_only_for_webhdfs_reads(web: FlaskClient, path: str, method: str) -> None:
    assert asked(web, path, TEXT, method)[0] == 401
