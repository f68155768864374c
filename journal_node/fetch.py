"""GET of a segment from a JournalNode (GetJournalEditServlet, TransferFsImage.doGetUrl)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hadoop_common.file_faults import network_reason
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import JavaIOError, KerberosError
from hadoop_rpc.spnego import open_logged_in

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

DEFAULT_TIMEOUT = 60.0
_CHUNK_BYTES = 1 << 16
_SAID_BYTES = 300
_PATH = "/getJournal"

_LOG = logging.getLogger(__name__)


class HttpFetch:
    """HTTP client that fetches segments.

    Args:
        timeout: seconds to wait for the connection, and for each piece.
        pace: function that is called with the size of each received piece, and waits to limit the rate.
        may_ask: function that returns whether segments may be fetched from a host.
    """

    def __init__(
        self,
        timeout: float = DEFAULT_TIMEOUT,
        pace: Callable[[int], None] = lambda count: None,
        may_ask: Callable[[str], bool] = lambda host: True,
    ) -> None:
        self._timeout = timeout
        self._pace = pace
        self._may_ask = may_ask

    def __call__(self, url: str, namespace: StorageInfo) -> Iterator[bytes]:
        """Yield the whole segment at `url` in pieces.

        Raises:
            JavaIOError: the segment cannot be fetched completely.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.path != _PATH:
            raise JavaIOError(f"a segment cannot be fetched from {url!r}, expected http://HOST:PORT{_PATH}?...")
        if not self._may_ask(parts.hostname or ""):
            raise JavaIOError(f"a segment is not fetched from {parts.hostname!a}, which is not one of the JournalNodes")
        try:
            yield from self._pieces(url)
        except KerberosError as fault:
            raise JavaIOError(f"{url} cannot be fetched: {fault.message}") from fault
        except OSError as fault:
            raise JavaIOError(f"{url} cannot be fetched: {network_reason(fault)}") from fault

    def _pieces(self, url: str) -> Iterator[bytes]:
        with open_logged_in(url, timeout=self._timeout) as (answer, spnego):
            yield from self._body(answer, url, spnego.hint)

    def _body(self, answer: BaseHTTPResponse, url: str, hint: str) -> Iterator[bytes]:
        if answer.status != HTTPStatus.OK:
            # The body is not returned, because the caller may not have permission to read it.
            body_text = answer.read(_SAID_BYTES)
            _LOG.warning("%s answered with status %d: %a", url, answer.status, body_text.decode("utf-8", "replace"))
            raise JavaIOError(f"{url} answered with status {answer.status}", hint=hint)
        length = answer.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise JavaIOError(f"{url} answered without Content-Length, so a truncated response would go unnoticed")
        received = 0
        while piece := answer.read(_CHUNK_BYTES):
            received += len(piece)
            self._pace(len(piece))
            yield piece
        if received != int(length):
            raise JavaIOError(f"the response of {url} ended after {received} of {length} bytes")
