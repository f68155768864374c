"""Fetching of a segment from a JournalNode's /getJournal (GetJournalEditServlet)."""

from __future__ import annotations

import http.client
import tempfile
from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from typing import IO
from urllib.parse import urlsplit

from hadoop_common.file_faults import network_reason
from hadoop_common.tls.process import context_for
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import current_login
from hadoop_rpc.spnego import Spnego, challenges
from journal.primitives import Buffer
from journal.quorum.errors import SegmentFetchError
from journal.quorum.settings import QuorumSettings

SegmentSource = Callable[[str], Buffer]
"""The content at a URL; raises `JournalError` if it cannot be fetched completely."""

_REFUSED_HINT = (
    "JournalNodes of Hadoop 3.4 and newer serve segments only to principals with their own short name: "
    "set hadoop.security.auth_to_local there to map NameNodes and JournalNodes to one user."
)
_CHUNK = 1 << 18


def http_source(settings: QuorumSettings) -> SegmentSource:
    """Fetch over HTTP into a mapped, unnamed file, so that large segments do not fill the memory."""

    def fetch(url: str) -> Buffer:
        connection = _connection(url, settings)
        try:
            with tempfile.TemporaryFile() as spool:
                _receive(url, connection, settings, spool)
                spool.flush()
                return mmap(spool.fileno(), 0, access=ACCESS_READ)
        except (OSError, http.client.HTTPException) as fault:
            raise SegmentFetchError(f"the segment cannot be fetched: {network_reason(fault)}", file=url) from fault
        except KerberosError as fault:
            raise SegmentFetchError(f"the login failed: {fault.message}", file=url, hint=fault.hint) from fault
        finally:
            connection.close()

    return fetch


def _connection(url: str, settings: QuorumSettings) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    timeout = settings.http_open or None  # 0 is no limit, as in Java
    if parts.scheme == "https":
        host = parts.hostname or ""
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context_for(host))
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)


def _receive(url: str, connection: http.client.HTTPConnection, settings: QuorumSettings, spool: IO[bytes]) -> None:
    connection.connect()
    connection.sock.settimeout(settings.http_read or None)
    parts = urlsplit(url)
    spnego = Spnego(parts.hostname or "")
    named = urlsplit(spnego.named(url))
    connection.request("GET", f"{named.path}?{named.query}", headers={"Accept-Encoding": "identity", **spnego.headers})
    answer = connection.getresponse()
    spnego.check(answer.status, challenges(answer.headers))
    expected = _length(url, answer, spnego.hint)
    received = 0
    while chunk := answer.read(_CHUNK):
        spool.write(chunk)
        received += len(chunk)
    if received != expected:
        raise SegmentFetchError(f"the response ended after {received} of {expected} bytes", file=url)


def _length(url: str, answer: http.client.HTTPResponse, hint: str) -> int:
    if answer.status != http.client.OK:
        if answer.status == http.client.FORBIDDEN and current_login() is not None:
            hint = hint or _REFUSED_HINT
        raise SegmentFetchError(f"the node answered {answer.status} {answer.reason}", file=url, hint=hint)
    text = answer.headers.get("Content-Length", "")
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise SegmentFetchError(f"the Content-Length is {text!r}, expected the size of the segment", file=url)
    return int(text)
