"""A thread-safe Hadoop RPC client: one connection, opened and reopened as needed."""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from hadoop_common.addresses import host_port
from hadoop_common.back_off import BackOff
from hadoop_common.lifetimes import Closeable
from hadoop_rpc.client_link import ClientLink
from hadoop_rpc.errors import (
    LoginRefusedError,
    RetriableError,
    RpcConnectionError,
    RpcError,
    RpcProtocolError,
    RpcTimeoutError,
)
from hadoop_rpc.framing import parse
from hadoop_rpc.security import ClientSecurity


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Rule for retries: at most `attempts` attempts in total, with delays according to `back_off`.

    The client repeats a call that may have reached the server only if the call is idempotent. It never repeats a call
    after a timeout, because retries would multiply the wait.
    """

    attempts: int = 3
    back_off: BackOff = BackOff(0.2, 5.0)

    def wait_before(self, attempt: int, error: RpcError, *, idempotent: bool) -> float | None:
        """Return the delay in seconds before retry number `attempt` after `error`; None if the call must not be
        retried.
        """
        if attempt >= self.attempts:
            return None
        if isinstance(error, RpcTimeoutError):
            return None
        safe = isinstance(error, RpcConnectionError) and (idempotent or not error.sent)
        if not safe and not isinstance(error, RetriableError):
            return None
        return self.back_off.wait(attempt)


NO_RETRY = RetryPolicy(attempts=1)


_LOG = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 120.0
DEFAULT_CONNECT_TIMEOUT = 20.0

M = TypeVar("M", bound=Message)


class RpcClient(Closeable):
    """Client of one protocol at one server; thread-safe, and a context manager that closes the connection.

    A repeated call has the same client and call ids, so that the server's retry cache can answer it.

    Args:
        host, port: address of the server.
        protocol: full Java name of the protocol.
        user: name of the caller; with `security` it is the principal.
        timeout: seconds to wait for each response; infinity waits until the connection breaks.
        connect_timeout: seconds to wait for the connection, including the negotiation.
        security: Kerberos login; None connects without security.
        ping_interval: seconds of silence after which a waiting client sends a ping, which detects a dead peer.
        retry: decides whether to retry a call.
        sleep: function that waits between attempts, in seconds.
    """

    def __init__(
        self,
        host: str,
        port: int,
        protocol: str,
        *,
        user: str,
        timeout: float = DEFAULT_TIMEOUT,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        ping_interval: float = 60.0,
        security: ClientSecurity | None = None,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host = host
        self._port = port
        self._protocol = protocol
        self._user = user
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._ping_interval = ping_interval
        self._security = security
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._client_id = uuid.uuid4().bytes
        self._call_ids = itertools.count()
        self._lock = threading.Lock()
        self._link: ClientLink | None = None
        self._closed = False

    @property
    def address(self) -> str:
        """`host:port` of the server."""
        return host_port(self._host, self._port)

    def call(self, method: str, request: Message, response: type[M], *, idempotent: bool = True) -> M:
        """Call `method` and return its response.

        Raises:
            RemoteError: the server answered with an exception.
            RpcConnectionError: the connection cannot be opened, or broke; as `RpcTimeoutError`: no response arrived in
                time.
            RpcProtocolError: the server does not use Hadoop RPC, or the response has an unexpected type.
            AuthenticationRequiredError: the two sides share no authentication method.
            KerberosError: we have no ticket for the server, or one side rejects the other.
        """
        call_id = next(self._call_ids) & 0x7FFFFFFF
        for attempt in itertools.count(1):
            try:
                body = self._connected().call(call_id, method, request, self._timeout, retry=attempt - 1)
                return self._parse(method, body, response)
            except RpcError as error:
                wait = None if self._closed else self._retry.wait_before(attempt, error, idempotent=idempotent)
                if wait is None:
                    raise
                _LOG.debug("%s at %s is retried in %.1f s: %s", method, self.address, wait, error)
                self._sleep(wait)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the connection; waiting calls raise RpcConnectionError. A second call does nothing."""
        with self._lock:
            self._closed = True
            link, self._link = self._link, None
        if link is not None:
            link.close()

    def _connected(self) -> ClientLink:
        with self._lock:
            if self._closed:
                raise RpcConnectionError(f"the client of {self.address} is closed")
            if self._link is None or self._link.broken:
                try:
                    self._link = self._open()
                except LoginRefusedError:
                    # the server's key may have changed since we obtained our ticket
                    if self._security is None or not self._security.renew():
                        raise
                    self._link = self._open()
            return self._link

    def _open(self) -> ClientLink:
        return ClientLink.open(
            self._host,
            self._port,
            self._protocol,
            user=self._user,
            client_id=self._client_id,
            security=self._security,
            timeout=self._connect_timeout,
            ping_interval=self._ping_interval,
        )

    def _parse(self, method: str, body: bytes, response: type[M]) -> M:
        try:
            return parse(response, body)
        except DecodeError as fault:
            raise RpcProtocolError(
                f"{self.address} answered {method} with a message that is not a {response.DESCRIPTOR.name}: {fault}",
                hint="Check that both sides run compatible releases.",
            ) from fault
