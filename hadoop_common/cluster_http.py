"""HTTP requests to servers of this cluster, without proxies, redirections or cookies, and with a limit on responses.

Over https, Hadoop's configuration decides which certificates are trusted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http.client import HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlencode, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse, HTTPConnectionPool
from urllib3.exceptions import HTTPError

from hadoop_common.clock_difference import CLOCK_TOLERANCE
from hadoop_common.http_connection import CancellableConnection, connection_for
from hadoop_common.tls.errors import HandshakeError

MAX_ANSWER_BYTES = 1 << 20


class HttpFaultError(OSError):
    """A response that is not HTTP, or a request to an address that is not a URL."""


class UnreachableServerError(OSError):
    """Failure to connect to a server."""


class HttpAnswer(NamedTuple):
    """A response; `content` is limited to 1 MiB, and `challenges` are its WWW-Authenticate headers.

    `clock_ahead` is the number of seconds by which the server's clock is ahead (`clock_ahead_of`).
    """

    status: int
    content: bytes
    challenges: tuple[str, ...] = ()
    reason: str = ""
    clock_ahead: float = 0.0

    @property
    def clock_difference(self) -> float:
        """`clock_ahead`, or 0 if it is at most CLOCK_TOLERANCE."""
        return self.clock_ahead if abs(self.clock_ahead) > CLOCK_TOLERANCE else 0.0

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace").strip()

    @property
    def json(self) -> Any:
        """The JSON value, or None if the content is not JSON."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None


class _ClusterSession(requests.Session):
    """A session that ignores the environment's proxies and .netrc, and treats a redirection as a response.

    The library's session would read the whole body of a redirection, however long, even if it does not follow the
    redirection.
    """

    def __init__(self, adapter: HTTPAdapter) -> None:
        super().__init__()
        self.trust_env = False
        self.headers.clear()
        self.headers.update({"Accept-Encoding": "identity", "Connection": "close"})
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None, because this session does not follow redirections."""


class _CancellableAdapter(HTTPAdapter):
    """An adapter for one request, over a cancellable connection with the TLS contexts of this process."""

    def __init__(
        self, url: str, timeout: float | tuple[float | None, float | None], cancelled: Callable[[], bool]
    ) -> None:
        super().__init__()
        # the library spells the zone of an IPv6 address differently in its URL
        self._url = url
        self._connect_timeout, self._wait = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        self._cancelled = cancelled
        self._connection: CancellableConnection | None = None

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> HTTPConnectionPool:
        """Return a pool for plain HTTP with our connection, which sets up TLS itself."""
        parts = urlsplit(self._url)
        host = parts.hostname or ""
        pool = HTTPConnectionPool(f"[{host}]" if ":" in host else host, parts.port)
        pool.ConnectionCls = lambda **_: self._opened(parts)  # type: ignore[assignment]
        return pool

    def _opened(self, parts: SplitResult) -> CancellableConnection:
        connection = connection_for(parts, self._wait, self._cancelled, connect_timeout=self._connect_timeout)
        self._connection = connection
        try:
            connection.connect()
        except HandshakeError:
            raise
        except (OSError, UnicodeError) as fault:
            raise UnreachableServerError(f"no connection to {parts.netloc}") from fault
        return connection

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Do nothing, because the connection verifies the certificate."""

    def close(self) -> None:
        super().close()
        if self._connection is not None:
            self._connection.close()


@contextmanager
def open_request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout: float | tuple[float | None, float | None],
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[BaseHTTPResponse]:
    """Send a request, and yield the response, which may be a redirection, before its body is read.

    A body that is shorter than its Content-Length ends without an error.

    Args:
        timeout: limit in seconds on the connection attempt and on each wait, or a pair with a limit for each; None if
            unlimited.

    Raises:
        UnreachableServerError: the connection cannot be made; not raised for a failed TLS handshake.
        OSError: there is no response, or its body is not HTTP.
        WaitCancelled: `cancelled()` became true.
    """
    adapter = _CancellableAdapter(url, timeout, cancelled)
    try:
        with (
            _ClusterSession(adapter) as session,
            session.request(method, url, headers=headers, data=body, stream=True) as answer,
        ):
            answer.raw.enforce_content_length = False
            yield answer.raw
    except (requests.RequestException, HTTPError) as fault:
        cause = _cause_of(fault)
        raise cause from cause.__cause__


def _cause_of(fault: Exception) -> OSError:
    """Return the system's error or our error that the library wrapped; otherwise, an error with its message."""
    chain: list[BaseException] = [fault]
    for each in chain:
        if isinstance(each, OSError) and not isinstance(each, requests.RequestException):
            return each
        chain += [more for more in (each.__cause__, *each.args) if isinstance(more, BaseException)]
    last = chain[-1]
    return HttpFaultError(f"{type(last).__name__} {last}".strip())


def read_body(answer: BaseHTTPResponse) -> bytes:
    """Return at most the first `MAX_ANSWER_BYTES` of a response's body; raise OSError if the body is truncated."""
    content = answer.read(MAX_ANSWER_BYTES)
    if len(content) < MAX_ANSWER_BYTES and answer.length_remaining:
        raise HttpFaultError(f"the answer ended {answer.length_remaining} bytes early")
    return content


def challenges_of(answer: BaseHTTPResponse | HTTPResponse) -> tuple[str, ...]:
    """Return the WWW-Authenticate headers of a response."""
    return tuple(answer.headers.get_all("WWW-Authenticate", ()))


def clock_ahead_of(answer: BaseHTTPResponse | HTTPResponse, sent_at: float) -> float:
    """Return the number of seconds by which the server's clock is ahead of this host's clock.

    The Date header of a response that has just begun contains the server's time. The result is negative if the server's
    clock is behind, and 0 if the response lacks this header.

    The server wrote the header, in whole seconds, after the request was sent. `sent_at` is the time of sending, in
    seconds since the epoch.
    """
    # Hadoop's servers send the header twice
    for date in answer.headers.get_all("Date", ()):
        try:
            at = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):
            continue
        return at - min(max(at, sent_at - 1), time.time())
    return 0.0


def send_request(
    method: str,
    url: str,
    *,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout: float | tuple[float | None, float | None],
    cancelled: Callable[[], bool] = lambda: False,
) -> HttpAnswer:
    """Send a request as `open_request` does, with the same errors, and return the response."""
    address, sent_at = f"{url}?{urlencode(query)}" if query else url, time.time()
    with open_request(method, address, headers=headers, body=body, timeout=timeout, cancelled=cancelled) as answer:
        ahead = clock_ahead_of(answer, sent_at)
        return HttpAnswer(answer.status, read_body(answer), challenges_of(answer), answer.reason or "", ahead)
