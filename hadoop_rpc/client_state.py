"""The client side of a connection as a state machine that converts bytes to events, without a socket or a clock.

`ClientState` lists the states. The client sends calls only in OPEN. Responses arrive in any order; their call ids
identify the calls. A response without a call id ends the connection and all its calls. Bytes that are not a response
also end the connection, because the start of the next response is unknown. CLOSED is final: a repeated call needs a new
connection.

With integrity or privacy, both sides send all frames after the negotiation in tokens (`seal`), beginning with the
connection context. A frame outside a token is then an error, because an attacker on the network path could have sent
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from google.protobuf.message import Message

from hadoop_common.java_numbers import signed32
from hadoop_rpc.errors import (
    AuthenticationRequiredError,
    LoginRefusedError,
    RpcError,
    RpcProtocolError,
    SaslError,
    remote_error,
)
from hadoop_rpc.framing import MAX_FRAME, DelimitedReader, RpcFrameBuffer, delimited
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.sasl import MAX_HANDSHAKE_FRAME, SaslClient, unwrap_frames, wrap_steps
from hadoop_rpc.security import ClientSecurity, Protection
from hadoop_rpc.wire import (
    CONTEXT_CALL_ID,
    PING_CALL_ID,
    SASL_CALL_ID,
    AuthProtocol,
    connection_header,
    request_frame,
    sasl_request_frame,
)

_SIMPLE_REFUSED = "SIMPLE authentication is not enabled"
# first bytes of servers of other protocols
_OTHER_PROTOCOLS = {b"HTTP": "HTTP", b"\x15\x03": "TLS"}
_RPC_ADDRESS_HINT = (
    "Configure the server's RPC address, not its HTTP address: for a NameNode, dfs.namenode.rpc-address or "
    "fs.defaultFS, often with port 8020."
)


class ClientState(Enum):
    """State of a connection.

    NEW → NEGOTIATING (SASL) → OPEN → CLOSED, or NEW → OPEN → CLOSED. The client sends calls only in OPEN.
    """

    NEW = "new"
    NEGOTIATING = "negotiating"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class NegotiationStep:
    """Next step of the negotiation; `data` must be sent."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ConnectionReady:
    """End of the negotiation; `data` must be sent before the first call."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CallResponse:
    """Response to a successful call; `body` is the response message."""

    call_id: int
    body: bytes


@dataclass(frozen=True, slots=True)
class CallFailure:
    """Exception that the server returned; if `call_id` is None, the connection and all its calls end."""

    call_id: int | None
    error: RpcError


Event = NegotiationStep | ConnectionReady | CallResponse | CallFailure


class ClientConnection:
    """One connection to a server for one protocol.

    Args:
        protocol: full Java name of the protocol.
        user: effective user.
        client_id: 16 bytes that identify this client to the server's retry cache, across connections.
        auth: NONE opens without a negotiation, as Hadoop's clients do without security; SASL negotiates first.
        security: Kerberos login, which implies a negotiation; its principal is the effective user.
        max_frame: maximum size of a response in bytes.
    """

    def __init__(
        self,
        protocol: str,
        user: str,
        client_id: bytes,
        *,
        auth: AuthProtocol = AuthProtocol.NONE,
        security: ClientSecurity | None = None,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self._protocol = protocol
        self._user = user
        self._client_id = client_id
        self._auth = AuthProtocol.SASL if security is not None else auth
        self._sasl = SaslClient(security)
        self._max_frame = max_frame
        self._frames = RpcFrameBuffer(max_frame)
        self._inner = RpcFrameBuffer(max_frame)
        self.state = ClientState.NEW

    # ---- sending ---------------------------------------------------------------------------------------------

    def open(self) -> bytes:
        """Return the first bytes of the connection."""
        self._require(ClientState.NEW)
        header = connection_header(self._auth)
        if self._auth is AuthProtocol.SASL:
            self.state = ClientState.NEGOTIATING
            self._frames.limit = min(MAX_HANDSHAKE_FRAME, self._max_frame)
            return header + sasl_request_frame(self._sasl.begin())
        self.state = ClientState.OPEN
        return header + self._context()

    def call(self, call_id: int, method: str, request: Message, *, version: int = 1, retry: int = 0) -> bytes:
        """Encode a call; `retry` counts the previous attempts."""
        self._require(ClientState.OPEN)
        header = pb.RequestHeaderProto(
            methodName=method, declaringClassProtocolName=self._protocol, clientProtocolVersion=version
        )
        return request_frame(call_id, self._client_id, delimited(header), delimited(request), retry=retry)

    def ping(self) -> bytes:
        """Encode a ping, which the server does not answer."""
        self._require(ClientState.OPEN)
        return request_frame(PING_CALL_ID, b"")

    def seal(self, data: bytes) -> bytes:
        """Return frames as sent over the network; tokens are numbered, so the caller must send them in the order of
        creation.

        Raises:
            KerberosError: a token cannot be made.
        """
        context, protection = self._sasl.context, self._sasl.protection
        if context is None or protection is Protection.AUTHENTICATION:
            return data
        return b"".join(map(sasl_request_frame, wrap_steps(context, protection, data)))

    def _context(self) -> bytes:
        login = self._sasl.context
        user = pb.UserInformationProto(effectiveUser=self._user if login is None else login.initiator)
        context = pb.IpcConnectionContextProto(userInfo=user, protocol=self._protocol)
        return request_frame(CONTEXT_CALL_ID, b"", delimited(context))

    def _require(self, state: ClientState) -> None:
        if self.state is not state:
            raise RuntimeError(f"the connection is {self.state.value}, not {state.value}")

    # ---- receiving -------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes, in order.

        Raises:
            RpcProtocolError: the bytes are not responses of Hadoop RPC; the connection is unusable.
            AuthenticationRequiredError: the server accepts none of our authentication methods.
            KerberosError: the server does not prove its identity, or a token was modified.
        """
        self._frames.feed(data)
        self._refuse_other_protocols()
        events: list[Event] = []
        try:
            while self.state is not ClientState.CLOSED and (body := self._frames.next_frame()) is not None:
                if self._sealed:
                    self._unseal(body, events)
                else:
                    self._understand(body, events)
        except RpcError:
            self.state = ClientState.CLOSED
            raise
        return events

    def _refuse_other_protocols(self) -> None:
        """Refuse a response that begins like a response of another protocol; as a length, its first bytes exceed any
        limit.
        """
        begin = self._frames.peek(max(map(len, _OTHER_PROTOCOLS)))
        for first, name in _OTHER_PROTOCOLS.items():
            if begin.startswith(first):
                self.state = ClientState.CLOSED
                raise RpcProtocolError(f"the server answers with {name}, not with Hadoop RPC", hint=_RPC_ADDRESS_HINT)

    @property
    def _sealed(self) -> bool:
        return self._sasl.done and self._sasl.protection is not Protection.AUTHENTICATION

    def _unseal(self, body: bytes, events: list[Event]) -> None:
        """Decode a token of the frame stream: a token may contain several frames, and a frame may span several
        tokens.
        """
        reader = DelimitedReader(body)
        header = reader.read(pb.RpcResponseHeaderProto)
        if signed32(header.callId) != SASL_CALL_ID or header.status != pb.RpcResponseHeaderProto.SUCCESS:
            reason = f": {header.errorMsg}" if header.errorMsg else ""
            raise RpcProtocolError(
                f"a frame arrived outside a token{reason}",
                hint="Check the network between this host and the server: the frame may come from an attacker.",
            )
        context = self._sasl.context
        assert context is not None
        self._inner.feed(unwrap_frames(context, self._sasl.protection, reader.read(pb.RpcSaslProto)))
        while self.state is not ClientState.CLOSED and (inner := self._inner.next_frame()) is not None:
            self._understand(inner, events)

    def _understand(self, body: bytes, events: list[Event]) -> None:
        event = self._event(body)
        if event is not None:
            events.append(event)

    def _event(self, body: bytes) -> Event | None:
        reader = DelimitedReader(body)
        header = reader.read(pb.RpcResponseHeaderProto)
        call_id = signed32(header.callId)
        if header.status == pb.RpcResponseHeaderProto.SUCCESS:
            if call_id == SASL_CALL_ID:
                return self._negotiated(reader.read(pb.RpcSaslProto))
            if self.state is ClientState.NEGOTIATING:
                raise RpcProtocolError("the server answered a call before the SASL negotiation was over")
            return CallResponse(call_id, reader.read_bytes())
        error = self._error(header)
        if header.status == pb.RpcResponseHeaderProto.FATAL or call_id < 0:
            self.state = ClientState.CLOSED
            return CallFailure(None, error)
        return CallFailure(call_id, error)

    def _negotiated(self, step: pb.RpcSaslProto) -> NegotiationStep | ConnectionReady:
        if self.state is not ClientState.NEGOTIATING:
            raise RpcProtocolError(f"a SASL message of state {step.state} arrived at an open connection")
        answer = self._sasl.answer(step)
        data = sasl_request_frame(answer) if answer is not None else b""
        if not self._sasl.done:
            return NegotiationStep(data)
        self.state = ClientState.OPEN
        self._frames.limit = self._max_frame
        return ConnectionReady(data + self.seal(self._context()))

    def _error(self, header: pb.RpcResponseHeaderProto) -> RpcError:
        error = remote_error(header.exceptionClassName, header.errorMsg)
        if _SIMPLE_REFUSED in error.text:
            return AuthenticationRequiredError(f"the server refuses: {error.text}")
        if self._sasl.context is not None and not self._sasl.done and isinstance(error, SaslError):
            return LoginRefusedError(error.text)
        return error
