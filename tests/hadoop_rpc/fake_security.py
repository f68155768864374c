"""A mechanism without cryptography in place of Kerberos: tokens are readable, counted and checked."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from hadoop_common.access import Caller
from hadoop_rpc.errors import KerberosError, StandbyError
from hadoop_rpc.framing import DelimitedReader, RpcFrameBuffer, delimited, frame
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.security import KnownToken, Protection, Unwrapped
from hadoop_rpc.wire import SASL_CALL_ID

PRINCIPAL = "sn/here@TEST.REALM"
PROTOCOL = "org.example.Protocol"
_HEAD = struct.Struct(">?I")


@dataclass
class FakeContext:
    """One side of an exchange: the first step sends `hello`, and `welcome` ends the exchange."""

    sent: int = 0
    received: int = 0
    complete: bool = False
    initiator: str = PRINCIPAL

    def step(self, token: bytes | None) -> bytes:
        if token is None:
            return b"hello"
        if token != b"welcome":
            raise KerberosError("the token is not from the server")
        self.complete = True
        return b""

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes:
        self.sent += 1
        return _HEAD.pack(encrypt, self.sent) + data

    def unwrap(self, token: bytes) -> Unwrapped:
        if len(token) < _HEAD.size:
            raise KerberosError("the token is truncated")
        encrypted, number = _HEAD.unpack_from(token)
        if number != self.received + 1:
            raise KerberosError("a token is missing, or came twice")
        self.received = number
        return Unwrapped(token[_HEAD.size :], encrypted)


@dataclass
class FakeSecurity:
    """A fake `ClientSecurity`."""

    protections: tuple[Protection, ...] = (Protection.AUTHENTICATION,)
    fallback: bool = False
    own_host: str = ""
    made: list[tuple[str, str]] = field(default_factory=list)

    def context(self, service: str, host: str) -> FakeContext:
        self.made.append((service, host))
        return FakeContext()

    def renew(self) -> bool:
        return False


@dataclass
class FakeAcceptor(FakeContext):
    """The server side, which responds to `hello` with `welcome`."""

    def step(self, token: bytes | None) -> bytes:
        if token != b"hello":
            raise KerberosError("the token is not from a client")
        self.complete = True
        return b"welcome"


@dataclass
class FakeDoor:
    """A fake `RpcServerSecurity` that allows every caller to use `PROTOCOL`, and no other protocol."""

    protections: tuple[Protection, ...] = tuple(Protection)
    service: str = "nn"
    host: str = "there"
    asked: list[tuple[Caller, str]] = field(default_factory=list)

    def context(self) -> FakeAcceptor:
        return FakeAcceptor()

    def user_of(self, principal: str) -> str:
        name, _, realm = principal.partition("@")
        if realm != "TEST.REALM":
            raise ValueError(f"No rules applied to {principal}")
        return name.partition("/")[0]

    def refusal(self, caller: Caller, protocol: str) -> str:
        self.asked.append((caller, protocol))
        return "" if protocol == PROTOCOL else f"Unknown protocol: {protocol}"


class FakeTokens:
    """`KnownTokens` with one token, whose password no client knows."""

    def known_token(self, identifier: bytes) -> KnownToken:
        if identifier != b"token":
            raise StandbyError("the token is unknown")
        return KnownToken(PRINCIPAL, "sn", b"of no client")


class FakeServer:
    """A kerberized Hadoop server without sockets: `receive` returns the response to a client's bytes.

    Attributes:
        steps: steps of the client, in order.
        frames: frames of the client after the negotiation, unwrapped.
    """

    def __init__(self, layers: int = 7) -> None:
        self.context = FakeContext()
        self.layers = layers
        self.protection: Protection | None = None
        self.steps: list[pb.RpcSaslProto] = []
        self.frames: list[bytes] = []
        self._outer = RpcFrameBuffer()
        self._inner = RpcFrameBuffer()
        self._header = False

    def receive(self, data: bytes) -> bytes:
        self._outer.feed(data)
        if not self._header:
            assert self._outer.take(7) == b"hrpc\x09\x00\xdf"
            self._header = True
        answers = b""
        while (body := self._outer.next_frame()) is not None:
            answers += self._understand(body)
        return answers

    def respond(self, body: bytes) -> bytes:
        """Return a response with the agreed protection."""
        if self.protection is Protection.AUTHENTICATION:
            return body
        encrypt = self.protection is Protection.PRIVACY
        return sasl_reply(pb.RpcSaslProto.WRAP, self.context.wrap(body, encrypt=encrypt))

    def _understand(self, body: bytes) -> bytes:
        reader = DelimitedReader(body)
        header = reader.read(pb.RpcRequestHeaderProto)
        if header.callId != SASL_CALL_ID:
            assert self.protection is Protection.AUTHENTICATION
            self.frames.append(body)
            return b""
        step = reader.read(pb.RpcSaslProto)
        if self.protection is not None:
            assert step.state == pb.RpcSaslProto.WRAP
            data, encrypted = self.context.unwrap(step.token)
            assert encrypted == (self.protection is Protection.PRIVACY)
            self._inner.feed(data)
            while (inner := self._inner.next_frame()) is not None:
                self.frames.append(inner)
            return b""
        self.steps.append(step)
        return self._negotiate(step)

    def _negotiate(self, step: pb.RpcSaslProto) -> bytes:
        if step.state == pb.RpcSaslProto.NEGOTIATE:
            return offers(("TOKEN", "DIGEST-MD5"), ("KERBEROS", "GSSAPI"))
        if step.state == pb.RpcSaslProto.INITIATE:
            return sasl_reply(pb.RpcSaslProto.CHALLENGE, b"welcome")
        if not step.token:
            return sasl_reply(
                pb.RpcSaslProto.CHALLENGE, self.context.wrap(bytes((self.layers, 0, 0, 0)), encrypt=False)
            )
        self.protection = Protection(self.context.unwrap(step.token).data[0])
        return sasl_reply(pb.RpcSaslProto.SUCCESS)


def offers(*auths: tuple[str, str]) -> bytes:
    """Return the NEGOTIATE step of a server `nn/there`."""
    step = pb.RpcSaslProto(state=pb.RpcSaslProto.NEGOTIATE)
    for method, mechanism in auths:
        step.auths.add(method=method, mechanism=mechanism, protocol="nn", serverId="there", challenge=b"c")
    return _reply(step)


def sasl_reply(state: int, token: bytes | None = None) -> bytes:
    """Return a server's step as a frame."""
    return _reply(pb.RpcSaslProto(state=pb.RpcSaslProto.SaslState.Name(state), token=token))


def _reply(step: pb.RpcSaslProto) -> bytes:
    header = pb.RpcResponseHeaderProto(callId=0xFFFFFFDF, status=pb.RpcResponseHeaderProto.SUCCESS)
    return frame(delimited(header), delimited(step))
