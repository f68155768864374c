"""The server side of a connection as a state machine that converts bytes to events, without a socket or a clock
(ipc.Server).

`ServerState` lists the states. The server performs no call before the context has named the caller. It accepts a
context only once, so the user of a connection cannot change. After a message that is out of order or malformed, the
server responds once and ends the connection, because the start of the next request is unknown. A failed call does not
affect other calls.

With security, the server accepts only clients with a login (`hadoop_rpc.sasl.SaslServer`). The caller is the client's
principal, or the owner of the client's delegation token. With integrity or privacy, both sides send all frames after
SUCCESS in tokens. The server refuses a call outside a token, although Hadoop would perform the call. A call must use
the protocol for which the connection was accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from google.protobuf.message import Message

from hadoop_common.access import Caller
from hadoop_common.java_numbers import unsigned32
from hadoop_common.port_limits import MAX_REQUEST
from hadoop_rpc.errors import (
    AccessControlError,
    KerberosError,
    NotAuthorizedError,
    RemoteError,
    RpcProtocolError,
    RpcServerError,
    VersionMismatchError,
)
from hadoop_rpc.framing import MAX_FRAME, DelimitedReader, RpcFrameBuffer, delimited, frame
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.sasl import MAX_HANDSHAKE_FRAME, MAX_TOKEN_FRAME, SaslServer, not_enabled, unwrap_frames, wrap_steps
from hadoop_rpc.security import KnownTokens, Protection, RpcServerSecurity
from hadoop_rpc.wire import (
    CONTEXT_CALL_ID,
    FATAL_CALL_ID,
    IPC_VERSION,
    MAGIC,
    PING_CALL_ID,
    SASL_CALL_ID,
    AuthProtocol,
    RpcErrorCode,
)

_HEADER_LENGTH = len(MAGIC) + 3
# maximum frame size of an unidentified client
_FIRST_FRAMES = 16 << 10
_CLIENT_ID_LENGTH = 16
# maximum size of the header with a call's method and protocol
_MAX_REQUEST_HEADER = 4096
# the server truncates longer messages before it sends them back
_MAX_TEXT = 4096
_HTTP_METHOD = b"GET "
_HTTP_ANSWER = (
    b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\n"
    b"This is a Hadoop IPC port; an HTTP request was sent to it. Use the HTTP address of this server.\r\n"
)


class ServerState(Enum):
    """State of a connection.

    HEADER → CONTEXT → OPEN → CLOSED, with NEGOTIATING between the first two for clients that begin with SASL.
    """

    HEADER = "header"
    NEGOTIATING = "negotiating"
    CONTEXT = "context"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class HandshakeReply:
    """Step of the handshake; `data` must be sent, and the connection continues."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ConnectionEnd:
    """End of the connection: `data` must be sent before the connection is closed; `reason` is for the log."""

    data: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call to perform: `body` is the request message of `method` in `protocol`.

    Attributes:
        state_id: newest transaction that the client has observed; None if the client does not use consistent reads.
    """

    call_id: int
    client_id: bytes
    retry: int
    protocol: str
    method: str
    version: int
    body: bytes
    state_id: int | None = None


_WITHOUT_FRAMES = (ServerState.HEADER, ServerState.CLOSED)


class _RefusedError(Exception):
    """Refusal that ends the connection; `error` is sent to the client."""

    def __init__(self, error: RemoteError, code: RpcErrorCode, call_id: int = FATAL_CALL_ID) -> None:
        super().__init__(error.message)
        self.error = error
        self.code = code
        self.call_id = call_id


class ServerConnection:
    """One connection from a client.

    Args:
        security: accepts only logins; its methods may wait for DNS or a disk.
        tokens: also accepts delegation tokens (`SaslServer`), and may wait briefly.
        peer: address of the client.
        state_id: returns the newest transaction of the server's state for the header of each response
            (AlignmentContext).
        as_standby: whether the server answers in place of a NameNode that is not active. If so, it refuses unaccepted
            delegation tokens with StandbyException (`SaslServer`), and with Kerberos it leaves impersonation to the
            handlers. Any other exception would prevent a client from asking the active NameNode.

    Attributes:
        user, real_user: names that the client claims, "" before its context; `real_user` acts as `user`. With security,
            `user` is the short name of the client's principal. If the client impersonates another user, `real_user` is
            that short name instead, and no handler may act for `user`.
        protocol: full Java name of the protocol of the connection.
        sasl: the negotiation, with the principal and the protection of frames.
    """

    def __init__(
        self,
        *,
        security: RpcServerSecurity | None = None,
        tokens: KnownTokens | None = None,
        peer: str = "",
        max_frame: int = MAX_FRAME,
        state_id: Callable[[], int | None] | None = None,
        as_standby: bool = False,
    ) -> None:
        self._state_id = state_id
        self._as_standby = as_standby
        self._security = security
        self._peer = peer
        first = min(max_frame, MAX_HANDSHAKE_FRAME if security is not None else _FIRST_FRAMES)
        self._frames = RpcFrameBuffer(first)
        self._inner = RpcFrameBuffer(first)
        self._max_frame = max_frame
        self.sasl = SaslServer(security, tokens=tokens, as_standby=as_standby)
        self.state = ServerState.HEADER
        self.user = ""
        self.real_user = ""
        self.protocol = ""

    @property
    def unfinished(self) -> int:
        """Number of received bytes of incomplete frames."""
        return len(self._frames) + len(self._inner)

    @property
    def _sealed(self) -> bool:
        return self.sasl.done and self.sasl.protection is not Protection.AUTHENTICATION

    def receive(self, data: bytes) -> list[Call | HandshakeReply | ConnectionEnd]:
        """Return the events that `data` completes, in order; a `ConnectionEnd` is the last event of a connection."""
        self._frames.feed(data)
        events: list[Call | HandshakeReply | ConnectionEnd] = []
        try:
            if self.state is ServerState.HEADER and (refusal := self._read_header()) is not None:
                return [refusal]
            while self.state not in _WITHOUT_FRAMES and (body := self._frames.next_frame()) is not None:
                if self._sealed:
                    self._unseal(body, events)
                elif (event := self._understand(body)) is not None:
                    events.append(event)
        except KerberosError as fault:
            # as in Hadoop: the server can no longer trust data on this connection
            self.state = ServerState.CLOSED
            events.append(ConnectionEnd(b"", fault.message))
        except RpcProtocolError as fault:
            events.append(self._close(RpcServerError(fault.message), RpcErrorCode.FATAL_DESERIALIZING_REQUEST))
        except _RefusedError as refused:
            events.append(self._close(refused.error, refused.code, refused.call_id))
        return events

    def _unseal(self, body: bytes, events: list[Call | HandshakeReply | ConnectionEnd]) -> None:
        """Decode a token of the frame stream: a token may contain several frames, and a frame may span several
        tokens.
        """
        reader = DelimitedReader(body)
        if self._request_header(reader).callId != SASL_CALL_ID:
            raise RpcProtocolError("a frame arrived outside a token")
        layer = self.sasl.layer
        assert layer is not None
        self._inner.feed(unwrap_frames(layer, self.sasl.protection, reader.read(pb.RpcSaslProto)))
        while self.state is not ServerState.CLOSED and (inner := self._inner.next_frame()) is not None:
            if (event := self._understand(inner)) is not None:
                events.append(event)

    # ---- answers -------------------------------------------------------------------------------------------

    def seal(self, data: bytes) -> bytes:
        """Return frames (except a `HandshakeReply`) as sent over the network; tokens must be sent in the order of their
        creation.

        Raises:
            KerberosError: a token cannot be made.
        """
        layer = self.sasl.layer
        if not self._sealed or layer is None:
            return data
        header = delimited(
            pb.RpcResponseHeaderProto(callId=unsigned32(SASL_CALL_ID), status=pb.RpcResponseHeaderProto.SUCCESS)
        )
        steps = wrap_steps(layer, self.sasl.protection, data)
        return b"".join(frame(header, delimited(step)) for step in steps)

    def respond(self, call: Call, response: Message) -> bytes:
        """Encode the response to a successful call."""
        header = self._header(call, pb.RpcResponseHeaderProto.SUCCESS)
        return frame(delimited(header), delimited(response))

    def fail(self, call: Call, error: RemoteError, code: RpcErrorCode = RpcErrorCode.APPLICATION) -> bytes:
        header = self._header(call, pb.RpcResponseHeaderProto.ERROR)
        return _failed(header, error, code)

    def _header(self, call: Call, status: pb.RpcResponseHeaderProto.RpcStatusProto) -> pb.RpcResponseHeaderProto:
        return pb.RpcResponseHeaderProto(
            callId=call.call_id,
            status=status,
            serverIpcVersionNum=IPC_VERSION,
            clientId=call.client_id,
            retryCount=call.retry,
            stateId=None if self._state_id is None else self._state_id(),
        )

    def _close(self, error: RemoteError, code: RpcErrorCode, call_id: int = FATAL_CALL_ID) -> ConnectionEnd:
        self.state = ServerState.CLOSED
        header = pb.RpcResponseHeaderProto(
            callId=unsigned32(call_id), status=pb.RpcResponseHeaderProto.FATAL, serverIpcVersionNum=IPC_VERSION
        )
        return ConnectionEnd(_failed(header, error, code), error.message)

    # ---- receiving -------------------------------------------------------------------------------------------

    def _read_header(self) -> ConnectionEnd | None:
        if self._frames.peek(len(_HTTP_METHOD)) == _HTTP_METHOD:
            self.state = ServerState.CLOSED
            return ConnectionEnd(_HTTP_ANSWER, "an HTTP request arrived at the RPC port")
        begin = self._frames.peek(len(MAGIC))
        if begin != MAGIC[: len(begin)] and begin != _HTTP_METHOD[: len(begin)]:
            self.state = ServerState.CLOSED
            return ConnectionEnd(b"", f"the connection begins with {begin!r}, expected {MAGIC!r}")
        header = self._frames.take(_HEADER_LENGTH)
        if header is None:
            return None
        version, auth = header[len(MAGIC)], header[-1]
        if version != IPC_VERSION:
            problem = f"Server IPC version {IPC_VERSION} cannot communicate with client version {version}"
            return self._close(VersionMismatchError(problem), RpcErrorCode.FATAL_VERSION_MISMATCH)
        if auth == AuthProtocol.NONE.value:
            if self._security is not None:
                refusal = AccessControlError(not_enabled("SIMPLE", "KERBEROS"))
                return self._close(refusal, RpcErrorCode.FATAL_UNAUTHORIZED)
            self.state = ServerState.CONTEXT
        elif auth == AuthProtocol.SASL.value:
            self.state = ServerState.NEGOTIATING
        else:
            return self._close(
                RpcServerError(f"authentication protocol {auth} is unknown"), RpcErrorCode.FATAL_INVALID_RPC_HEADER
            )
        return None

    def _understand(self, body: bytes) -> Call | HandshakeReply | None:
        reader = DelimitedReader(body)
        header = self._request_header(reader)
        if header.callId >= 0:
            return self._read_call(header, reader)
        if header.callId == PING_CALL_ID:
            return None
        if header.callId == CONTEXT_CALL_ID:
            self._read_context(reader)
            return None
        if header.callId == SASL_CALL_ID:
            return self._negotiate(reader)
        raise _RefusedError(
            RpcServerError(f"call id {header.callId} is unknown"), RpcErrorCode.FATAL_INVALID_RPC_HEADER
        )

    def _request_header(self, reader: DelimitedReader) -> pb.RpcRequestHeaderProto:
        header = reader.read(pb.RpcRequestHeaderProto)
        if header.rpcOp != pb.RpcRequestHeaderProto.RPC_FINAL_PACKET or not header.HasField("rpcOp"):
            raise _RefusedError(
                RpcServerError("the rpcOp of the request is missing or unknown"), RpcErrorCode.FATAL_INVALID_RPC_HEADER
            )
        if header.rpcKind != pb.RPC_PROTOCOL_BUFFER:
            problem = f"rpcKind {header.rpcKind} is not supported; only protobuf requests are supported"
            raise _RefusedError(RpcServerError(problem), RpcErrorCode.FATAL_UNSUPPORTED_SERIALIZATION)
        if len(header.clientId) > _CLIENT_ID_LENGTH:
            problem = f"the client's id has {len(header.clientId)} bytes, expected {_CLIENT_ID_LENGTH} at most"
            raise _RefusedError(RpcServerError(problem), RpcErrorCode.FATAL_INVALID_RPC_HEADER)
        return header

    def _negotiate(self, reader: DelimitedReader) -> HandshakeReply | None:
        if self.state is not ServerState.NEGOTIATING:
            raise _RefusedError(
                RpcServerError("SASL has ended or was never begun"), RpcErrorCode.FATAL_INVALID_RPC_HEADER
            )
        try:
            answer = self.sasl.answer(reader.read(pb.RpcSaslProto))
        except RemoteError as error:
            raise _RefusedError(error, RpcErrorCode.FATAL_UNAUTHORIZED, SASL_CALL_ID) from error
        if self.sasl.done:
            self.state = ServerState.CONTEXT
            if self._sealed:
                self._frames.limit = MAX_TOKEN_FRAME
        if answer is None:
            return None
        header = pb.RpcResponseHeaderProto(
            callId=unsigned32(SASL_CALL_ID), status=pb.RpcResponseHeaderProto.SUCCESS, serverIpcVersionNum=IPC_VERSION
        )
        return HandshakeReply(frame(delimited(header), delimited(answer)))

    def _read_context(self, reader: DelimitedReader) -> None:
        if self.state is not ServerState.CONTEXT:
            problem = "Connection context already processed" if self.state is ServerState.OPEN else "SASL comes first"
            raise _RefusedError(RpcServerError(problem), RpcErrorCode.FATAL_INVALID_RPC_HEADER)
        context = reader.read(pb.IpcConnectionContextProto)
        self.user = context.userInfo.effectiveUser
        self.real_user = context.userInfo.realUser
        self.protocol = context.protocol
        if self._security is not None:
            self._admit(self._security)
        if not self.user:
            raise _RefusedError(AccessControlError("the connection names no user"), RpcErrorCode.FATAL_UNAUTHORIZED)
        # with tokens, the outer frames keep their limit, which bounds each token
        frames = self._inner if self._sealed else self._frames
        frames.limit, frames.limited_by = self._max_frame, MAX_REQUEST.name
        self.state = ServerState.OPEN

    def _admit(self, security: RpcServerSecurity) -> None:
        """Accept the principal; a client that names another user requests impersonation of that user."""
        principal, self.real_user = self.sasl.principal, ""
        impersonates = self.user not in ("", principal)
        if impersonates and (self.sasl.by_token or not self._as_standby):
            problem = f"User: {principal} is not allowed to impersonate {self.user}"
        else:
            problem = security.refusal(Caller(self._peer, (self.sasl.user,), principal), self.protocol)
        if problem:
            raise _RefusedError(NotAuthorizedError(problem), RpcErrorCode.FATAL_UNAUTHORIZED, CONTEXT_CALL_ID)
        if impersonates:
            self.real_user = self.sasl.user
        else:
            self.user = self.sasl.user

    def _read_call(self, header: pb.RpcRequestHeaderProto, reader: DelimitedReader) -> Call:
        if self.state is not ServerState.OPEN:
            raise _RefusedError(
                RpcServerError("Connection context not established"), RpcErrorCode.FATAL_INVALID_RPC_HEADER
            )
        request = reader.read(pb.RequestHeaderProto, _MAX_REQUEST_HEADER)
        if self._security is not None and request.declaringClassProtocolName != self.protocol:
            problem = f"a call of {request.declaringClassProtocolName} arrived at a connection for {self.protocol}"
            raise _RefusedError(NotAuthorizedError(problem), RpcErrorCode.FATAL_UNAUTHORIZED)
        return Call(
            call_id=header.callId,
            client_id=header.clientId,
            retry=header.retryCount,
            protocol=request.declaringClassProtocolName,
            method=request.methodName,
            version=request.clientProtocolVersion,
            body=reader.read_bytes(),
            state_id=header.stateId if header.HasField("stateId") else None,
        )


def _failed(header: pb.RpcResponseHeaderProto, error: RemoteError, code: RpcErrorCode) -> bytes:
    header.exceptionClassName = error.class_name
    text = error.text
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}... ({len(text)} characters)"
    # the message may quote a name that is not UTF-8 and contains surrogates, which cannot be encoded
    header.errorMsg = text.encode("utf-8", "replace").decode()
    header.errorDetail = code.value
    return frame(delimited(header))
