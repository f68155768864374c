"""GET of a segment from a JournalNode (GetJournalEditServlet, TransferFsImage.doGetUrl)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import requests

from hadoop_common.cluster_session import ClusterSession
from hadoop_common.file_faults import network_reason
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import JavaIOError, KerberosError
from hadoop_rpc.spnego import Spnego

DEFAULT_TIMEOUT = 60.0
_CHUNK_BYTES = 1 << 16
_SAID_BYTES = 300
_PATH = "/getJournal"

_LOG = logging.getLogger(__name__)


def _unlimited(_count: int) -> None:
    return


class HttpFetch:
    """Fetches segments over HTTP.

    Args:
        timeout: seconds to wait for a connection, and for each piece.
        pace: told the size of each piece that came, and waits where that is too fast.
        may_ask: whether a host is one to fetch from.
    """

    def __init__(
        self,
        timeout: float = DEFAULT_TIMEOUT,
        pace: Callable[[int], None] = _unlimited,
        may_ask: Callable[[str], bool] = lambda host: True,
    ) -> None:
        self._timeout = timeout
        self._pace = pace
        self._may_ask = may_ask

    def __call__(self, url: str, namespace: StorageInfo) -> Iterator[bytes]:
        """The whole segment at `url`, piece by piece.

        Raises:
            JavaIOError: it does not come, or not whole.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.path != _PATH:
            raise JavaIOError(f"a segment cannot be fetched from {url!r}: http://HOST:PORT{_PATH}?... is expected")
        if not self._may_ask(parts.hostname or ""):
            raise JavaIOError(f"a segment is not fetched from {parts.hostname!a}, which is none of the JournalNodes")
        try:
            with ClusterSession() as session:
                yield from self._pieces(session, url)
        except KerberosError as fault:
            raise JavaIOError(f"{url} cannot be fetched: {fault.message}") from fault
        except (OSError, requests.RequestException) as fault:
            said = network_reason(fault) if isinstance(fault, requests.RequestException) else str(fault)
            raise JavaIOError(f"{url} cannot be fetched: {said}") from fault

    def _pieces(self, session: requests.Session, url: str) -> Iterator[bytes]:
        waits = (self._timeout, self._timeout)
        spnego = Spnego(urlsplit(url).hostname or "")
        headers = {"Accept-Encoding": "identity", **spnego.headers}
        with session.get(spnego.named(url), stream=True, timeout=waits, headers=headers) as answer:
            spnego.check(answer.status_code, [answer.headers.get("WWW-Authenticate", "")])
            yield from self._body(answer, url, spnego.hint)

    def _body(self, answer: requests.Response, url: str, hint: str) -> Iterator[bytes]:
        if answer.status_code != requests.codes.ok:
            # what it says is not passed on: whoever asks for a recovery may not be allowed to read it
            said = answer.raw.read(_SAID_BYTES, decode_content=False)
            _LOG.warning("%s is answered with status %d: %a", url, answer.status_code, said.decode("utf-8", "replace"))
            raise JavaIOError(f"{url} is answered with status {answer.status_code}", hint=hint)
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
