"""Constants of Hadoop IPC version 9, and the headers that both sides build (RpcConstants, ProtoUtil)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from hadoop_rpc.framing import delimited, frame
from hadoop_rpc.proto import rpc_pb2 as pb

MAGIC: Final = b"hrpc"
IPC_VERSION: Final = 9

FATAL_CALL_ID: Final = -1
CONTEXT_CALL_ID: Final = -3
PING_CALL_ID: Final = -4
SASL_CALL_ID: Final = -33

_NO_RETRY: Final = -1


class AuthProtocol(Enum):
    """Whether a connection begins with SASL; the value is the last byte of its header (Server.AuthProtocol)."""

    NONE = 0
    SASL = 0xDF


class RpcErrorCode(Enum):
    """Reason for a failed call (RpcErrorCodeProto)."""

    APPLICATION = pb.RpcResponseHeaderProto.ERROR_APPLICATION
    NO_SUCH_METHOD = pb.RpcResponseHeaderProto.ERROR_NO_SUCH_METHOD
    NO_SUCH_PROTOCOL = pb.RpcResponseHeaderProto.ERROR_NO_SUCH_PROTOCOL
    RPC_SERVER = pb.RpcResponseHeaderProto.ERROR_RPC_SERVER
    SERIALIZING_RESPONSE = pb.RpcResponseHeaderProto.ERROR_SERIALIZING_RESPONSE
    RPC_VERSION_MISMATCH = pb.RpcResponseHeaderProto.ERROR_RPC_VERSION_MISMATCH
    FATAL_UNKNOWN = pb.RpcResponseHeaderProto.FATAL_UNKNOWN
    FATAL_UNSUPPORTED_SERIALIZATION = pb.RpcResponseHeaderProto.FATAL_UNSUPPORTED_SERIALIZATION
    FATAL_INVALID_RPC_HEADER = pb.RpcResponseHeaderProto.FATAL_INVALID_RPC_HEADER
    FATAL_DESERIALIZING_REQUEST = pb.RpcResponseHeaderProto.FATAL_DESERIALIZING_REQUEST
    FATAL_VERSION_MISMATCH = pb.RpcResponseHeaderProto.FATAL_VERSION_MISMATCH
    FATAL_UNAUTHORIZED = pb.RpcResponseHeaderProto.FATAL_UNAUTHORIZED


def connection_header(auth: AuthProtocol) -> bytes:
    """Return the seven bytes that begin a connection; the service class is 0."""
    return MAGIC + bytes((IPC_VERSION, 0, auth.value))


def request_frame(call_id: int, client_id: bytes, *messages: bytes, retry: int = _NO_RETRY) -> bytes:
    """Return a frame with a request header and already delimited `messages`."""
    header = pb.RpcRequestHeaderProto(
        rpcKind=pb.RPC_PROTOCOL_BUFFER,
        rpcOp=pb.RpcRequestHeaderProto.RPC_FINAL_PACKET,
        callId=call_id,
        clientId=client_id,
        retryCount=retry,
    )
    return frame(delimited(header), *messages)


def sasl_request_frame(message: pb.RpcSaslProto) -> bytes:
    """Return a frame with a client's step of the SASL negotiation."""
    return request_frame(SASL_CALL_ID, b"", delimited(message))
