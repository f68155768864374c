"""Fetches a segment from a JournalNode's /getJournal (GetJournalEditServlet)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from http import HTTPStatus
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hadoop_common.file_faults import FileFaultError, error_text, file_faults, is_tls_fault, network_reason
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import PROCESS
from hadoop_rpc.spnego import open_logged_in
from journal.primitives import Buffer
from journal.quorum.errors import TLS_HINT, SegmentFetchError
from journal.quorum.settings import QuorumSettings

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

SegmentSource = Callable[[str], Buffer]
"""Function that returns the content at a URL, or raises `JournalError` if it cannot fetch the complete content."""

_REFUSED_HINT = (
    "JournalNodes of Hadoop 3.3.6 and newer serve segments only to principals with their own short name: "
    "set hadoop.security.auth_to_local there to map NameNodes and JournalNodes to one user."
)
_CHUNK = 1 << 18


def http_source(settings: QuorumSettings) -> SegmentSource:
    """Return a source that fetches segments into unnamed, mapped files, so that large segments do not fill memory."""
    # 0 means no limit, as in Java
    timeout = (settings.http_open or None, settings.http_read or None)

    def fetch(url: str) -> Buffer:
        try:
            with open_logged_in(url, timeout=timeout) as (answer, spnego), _spool() as spool:
                _receive(url, answer, spnego.hint, spool)
                return mmap(spool.fileno(), 0, access=ACCESS_READ)
        except FileFaultError as fault:
            raise SegmentFetchError(
                f"the segment cannot be stored: {fault.message}", file=url, hint=fault.hint
            ) from fault
        except OSError as fault:
            raise SegmentFetchError(
                f"the segment cannot be fetched: {network_reason(fault)}",
                file=url,
                hint=TLS_HINT if is_tls_fault(fault) else "",
            ) from fault
        except KerberosError as fault:
            raise SegmentFetchError(f"the login failed: {fault.message}", file=url, hint=fault.hint) from fault

    return fetch


def _spool() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError as fault:
        hint = "Free space there, or specify another directory in TMPDIR."
        raise SegmentFetchError(f"the segment cannot be stored: {error_text(fault)}", hint=hint) from fault


def _receive(url: str, answer: BaseHTTPResponse, hint: str, spool: IO[bytes]) -> None:
    expected = _length(url, answer, hint)
    received = 0
    while chunk := answer.read(_CHUNK):
        with file_faults(Path(tempfile.gettempdir()), "cannot be written"), memoryview(chunk) as rest:
            written = 0
            while written < len(rest):
                written += spool.write(rest[written:])
        received += len(chunk)
    if received != expected:
        raise SegmentFetchError(f"the response ended after {received} of {expected} bytes", file=url)


def _length(url: str, answer: BaseHTTPResponse, hint: str) -> int:
    if answer.status != HTTPStatus.OK:
        if answer.status == HTTPStatus.FORBIDDEN and PROCESS.login is not None:
            hint = hint or _REFUSED_HINT
        raise SegmentFetchError(f"the node answered {answer.status} {answer.reason}", file=url, hint=hint)
    text = answer.headers.get("Content-Length", "")
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise SegmentFetchError(f"the Content-Length is {text!r}, expected the size of the segment", file=url)
    return int(text)
