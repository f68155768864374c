"""Base of the clients of all protocols."""

from __future__ import annotations

from typing import Any, ClassVar

from google.protobuf.message import Message

from hadoop_common.lifetimes import Closeable
from hadoop_rpc.client import DEFAULT_CONNECT_TIMEOUT, DEFAULT_TIMEOUT, RetryPolicy, RpcClient
from hadoop_rpc.kerberos import security_for
from hadoop_rpc.rpc_protocol import RpcProtocol


class ProtocolClient(Closeable):
    """A client of one protocol at one server; a context manager that closes the connection.

    Args:
        host, port: address of the server.
        user: name of the caller, unless this process has a login (`hadoop_rpc.kerberos`).
        timeout: seconds to wait for each response.
        connect_timeout: seconds to wait for the connection.
        retry: decides whether to retry a call; None uses the protocol's `default_retry`.
    """

    protocol: ClassVar[RpcProtocol]
    default_retry: ClassVar[RetryPolicy] = RetryPolicy()

    def __init__(
        self,
        host: str,
        port: int,
        *,
        user: str,
        timeout: float = DEFAULT_TIMEOUT,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._rpc = RpcClient(
            host,
            port,
            self.protocol.name,
            user=user,
            timeout=timeout,
            connect_timeout=connect_timeout,
            security=security_for(self.protocol.server, host),
            retry=retry or self.default_retry,
        )

    @property
    def address(self) -> str:
        """`host:port` of the server."""
        return self._rpc.address

    def _call(self, method: str, request: Message, *, idempotent: bool = True) -> Any:
        """Return the response to `request`, a message of the protocol; raise the same errors as `RpcClient.call`."""
        return self._rpc.call(method, request, self.protocol.response(method), idempotent=idempotent)

    def close(self) -> None:
        """Close the connection; waiting calls raise RpcConnectionError."""
        self._rpc.close()
