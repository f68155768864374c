"""HTTP requests to servers of this cluster: no proxies, redirections or cookies, and a bound on the size of answers.

Over https, Hadoop's configuration decides which certificates are trusted.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from hadoop_common.http_connection import connection_for
from hadoop_common.tls.errors import HandshakeError

MAX_ANSWER_BYTES = 1 << 20


class HttpFaultError(OSError):
    """An answer that is not HTTP, or an address that is not a URL."""


class UnreachableServerError(OSError):
    """A server to which no connection can be made."""


class HttpAnswer(NamedTuple):
    """An answer; `content` ends after 1 MiB, however much the server sends; `challenges` are its WWW-Authenticate
    headers.
    """

    status: int
    content: bytes
    challenges: tuple[str, ...] = ()
    reason: str = ""

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace").strip()

    @property
    def json(self) -> Any:
        """The JSON value, None if the content is not JSON."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None


@contextmanager
def open_request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout: float | tuple[float | None, float | None],
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[http.client.HTTPResponse]:
    """Send a request, and yield the answer with its body to be read; redirections are answers.

    Args:
        timeout: seconds for the connection and for each wait, or for each of the two; None for no limit.

    Raises:
        UnreachableServerError: the connection cannot be made; not for a failed TLS handshake.
        OSError: there is no answer, or its body is not HTTP.
        WaitCancelled: `cancelled()` became true.
    """
    connect_timeout, wait = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise HttpFaultError(f"{url!r} is not the URL of a server")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection = connection_for(parts, wait, cancelled, connect_timeout=connect_timeout)
    except ValueError as fault:
        raise HttpFaultError(f"{url!r} has no valid port") from fault
    try:
        try:
            connection.connect()
        except HandshakeError:
            raise
        except (OSError, UnicodeError) as fault:
            raise UnreachableServerError(f"no connection to {parts.netloc}") from fault
        connection.request(method, target, body, {"Connection": "close", **(headers or {})})
        with connection.getresponse() as answer:
            yield answer
    except http.client.HTTPException as fault:
        raise HttpFaultError(f"{type(fault).__name__} {fault}".strip()) from fault
    finally:
        connection.close()


def read_body(answer: http.client.HTTPResponse, limit: int = MAX_ANSWER_BYTES) -> bytes:
    """Return the body of an answer, at most its first `limit` bytes; raises OSError if it is cut."""
    content = answer.read(limit)
    if len(content) < limit and answer.length:
        raise HttpFaultError(f"the answer ended {answer.length} bytes early")
    return content


def challenges_of(answer: http.client.HTTPResponse) -> tuple[str, ...]:
    """Return the WWW-Authenticate headers of an answer."""
    return tuple(answer.headers.get_all("WWW-Authenticate", ()))


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
    """Send a request as `open_request` does, with the same errors, and return the answer."""
    address = f"{url}?{urlencode(query)}" if query else url
    with open_request(method, address, headers=headers, body=body, timeout=timeout, cancelled=cancelled) as answer:
        return HttpAnswer(answer.status, read_body(answer), challenges_of(answer), answer.reason)
