"""Common parts of uploads and downloads: defaults, the servlet's address, and messages about refusals."""

from __future__ import annotations

import html
import http.client
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

from checkpointer.errors import TLS_HINT, TransferError
from hadoop_common.file_faults import is_tls_fault
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import PROCESS

DEFAULT_TIMEOUT = 60.0
DEFAULT_CHUNK_SIZE = 65536
MAX_SENTENCE_BYTES = 16384

IMAGE_SERVLET = "/imagetransfer"

_MAX_SENTENCE = 400
_INVISIBLE = re.compile(r"<(title|style|script|head)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
# a one-line error must not contain a Java stack trace
_STACK = re.compile(r"\s+at [\w.$<>/]+\([^)]*\).*", re.DOTALL)

_HINTS = {
    403: "Check that both sides belong to the same cluster and upgrade, and that this host may transfer images.",
    404: "Check that the address is the NameNode's HTTP address (dfs.namenode.http-address).",
    410: "Check the server's log for the cause, then try again.",
    503: "The server is busy or starting; try again later.",
}
_NO_IMAGE = "Could not find image with txid"
_NO_IMAGE_HINT = (
    "The NameNode may have purged the image. A daemon then fetches a newer image at its next attempt, and "
    "`fetch-image` without --txid fetches the newest. If the NameNode's log contains "
    '"Error reported on storage directory", check that disk, then run `hdfs dfsadmin -restoreFailedStorage true` and '
    "`hdfs dfsadmin -rollEdits`; the NameNode uses the directory and its images again."
)


_UNREACHABLE_HINT = (
    "Check that the server is up, and that its web address and dfs.http.policy are the same in its configuration and "
    "in ours."
)


class TransferCancelledError(TransferError):
    """Cancellation of a transfer by the caller; no file was stored."""


class TransferInterruptedError(TransferError):
    """Failure or loss of a connection; the same transfer may succeed a little later."""


def never() -> bool:
    """Return False, as the cancel check of a transfer that cannot be cancelled."""
    return False


def unwatched(count: int) -> None:
    """Ignore the progress of a transfer."""


def unreachable_hint(fault: BaseException) -> str:
    """Return the next step after a failure to connect to a web server of the cluster."""
    return TLS_HINT if is_tls_fault(fault) else _UNREACHABLE_HINT


def ignore_refusal(reason_text: str) -> None:
    """Ignore the reason of a refusal."""


def is_http_address(text: str) -> bool:
    """Return whether `text` is the address of an HTTP server, with http or https and a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def servlet_url(base: str, query: Mapping[str, str], servlet: str = IMAGE_SERVLET) -> str:
    """Return the URL of `servlet` below `base`, which is `http://host:port` with or without a path.

    Raises:
        TransferError: `base` is not an http or https address.
    """
    if not is_http_address(base):
        raise TransferError(
            base,
            "this is not an HTTP address, expected http://host:port",
            hint="Check dfs.namenode.http-address (or https-address) of the NameNode.",
        )
    parts = urlsplit(base)
    path = parts.path.rstrip("/")
    if not path.endswith(servlet):
        path += servlet
    return f"{parts.scheme}://{parts.netloc}{path}?{urlencode(query)}"


@contextmanager
def login_faults(what: str, url: str) -> Iterator[None]:
    """Convert errors of a Kerberos login to errors of the transfer `what`."""
    try:
        yield
    except KerberosError as fault:
        raise TransferError(url, f"{what} failed at the login: {fault.message}", hint=fault.hint) from fault


def refusal(what: str, url: str, status: int, reason: str, body: bytes, login_hint: str = "") -> TransferError:
    """Return the error for a refusal: its status, the server's reason, and the URL.

    Args:
        login_hint: hint of `Spnego.hint` about the login, "" if there is none.
    """
    sentence = reason_of(status, reason, body)
    hint = login_hint or _HINTS.get(status, "Check the address and the server's log.")
    if status == http.client.GONE and _NO_IMAGE in sentence:
        hint = _NO_IMAGE_HINT
    login = PROCESS.login
    if login is not None and not login_hint and status == http.client.FORBIDDEN:
        hint = (
            f"Our principal is {login.principal or 'the principal of the ticket'}. A NameNode exchanges images only "
            "with the principals of NameNodes and of the secondary (with the host of "
            "dfs.namenode.secondary.http-address), and with dfs.cluster.administrators."
        )
    return TransferError(url, f"{what} was refused: {sentence}", status=status, hint=hint)


def reason_of(status: int, reason: str, body: bytes) -> str:
    """Return the reason for a refusal in one line.

    Hadoop writes the reason into the status line; the body is empty or an HTML page. If the status line contains only
    the standard phrase, the body contains the reason.
    """
    line = sentence(reason.encode())
    reason_text = sentence(body)
    if not line or line.casefold() == http.client.responses.get(status, "").casefold():
        return reason_text or line or f"HTTP {status}"
    if not reason_text or _is_page(body) or line in reason_text or reason_text in line:
        return line
    return f"{line}: {reason_text}"


def _is_page(body: bytes) -> bool:
    return b"<html" in body[:1000].lower()


def sentence(body: bytes) -> str:
    """Return a response body's text in one short line, without HTML or a stack trace."""
    text = body.decode("utf-8", "replace")
    if _is_page(body):
        text = html.unescape(_TAG.sub(" ", _INVISIBLE.sub(" ", text)))
    text = " ".join(_STACK.sub("", text).split())
    return text if len(text) <= _MAX_SENTENCE else text[:_MAX_SENTENCE] + "…"
