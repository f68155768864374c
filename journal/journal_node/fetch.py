"""GET of a segment from a JournalNode (GetJournalEditServlet, TransferFsImage.doGetUrl)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import requests

from hadoop_common.file_faults import network_reason
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import JavaIOError

__all__ = ["HttpFetch"]

DEFAULT_TIMEOUT = 60.0
_CHUNK_BYTES = 1 << 16
_SAID_CHARACTERS = 300


def _unlimited(_count: int) -> None:
    return


class HttpFetch:
    """Fetches segments over HTTP.

    Args:
        timeout: seconds to wait for a connection, and for each piece.
        pace: told the size of each piece that came, and waits where that is too fast.
    """

    def __init__(self, timeout: float = DEFAULT_TIMEOUT, pace: Callable[[int], None] = _unlimited) -> None:
        self._timeout = timeout
        self._pace = pace

    def __call__(self, url: str, namespace: StorageInfo) -> Iterator[bytes]:
        """The whole segment at `url`, piece by piece.

        Raises:
            JavaIOError: it does not come, or not whole.
        """
        if urlsplit(url).scheme not in ("http", "https"):
            raise JavaIOError(f"a segment cannot be fetched from {url!r}, which is not an HTTP address")
        try:
            with requests.Session() as session:
                session.trust_env = False  # nodes of a cluster are not behind a proxy
                yield from self._pieces(session, url)
        except (OSError, requests.RequestException) as fault:
            said = network_reason(fault) if isinstance(fault, requests.RequestException) else str(fault)
            raise JavaIOError(f"{url} cannot be fetched: {said}") from fault

    def _pieces(self, session: requests.Session, url: str) -> Iterator[bytes]:
        waits = (self._timeout, self._timeout)
        plain = {"Accept-Encoding": "identity"}
        with session.get(url, stream=True, timeout=waits, headers=plain, allow_redirects=False) as answer:
            yield from self._body(answer, url)

    def _body(self, answer: requests.Response, url: str) -> Iterator[bytes]:
        if answer.status_code != requests.codes.ok:
            said = " ".join(answer.text.split())[:_SAID_CHARACTERS] or answer.reason
            raise JavaIOError(f"{url} is answered with status {answer.status_code}: {said}")
        length = answer.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise JavaIOError(f"{url} is answered without Content-Length, so what comes could be cut unseen")
        received = 0
        for piece in answer.iter_content(_CHUNK_BYTES):
            received += len(piece)
            self._pace(len(piece))
            yield piece
        if received != int(length):
            raise JavaIOError(f"{url} broke off after {received} of {length} bytes")
