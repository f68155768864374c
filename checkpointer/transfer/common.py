"""What uploads and downloads share: defaults, the servlet's address, and how an answer's body is told."""

from __future__ import annotations

import html
import http.client
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

from checkpointer.errors import TransferError
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import current_login

DEFAULT_TIMEOUT = 60.0
DEFAULT_CHUNK_SIZE = 65536
MAX_SENTENCE_BYTES = 16384

IMAGE_SERVLET = "/imagetransfer"

_MAX_SENTENCE = 400
_UNSEEN = re.compile(r"<(title|style|script|head)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
# a Java stack trace says nothing to the reader of a one-line error
_STACK = re.compile(r"\s+at [\w.$<>/]+\([^)]*\).*", re.DOTALL)

_HINTS = {
    403: "Check that both sides belong to one cluster and upgrade, and that this host may transfer images.",
    404: "Check that the address is the NameNode's HTTP address (dfs.namenode.http-address).",
    410: "Check the log of the other side for the cause, then try again.",
    503: "The other side is busy or starting; try again later.",
}


class TransferCancelledError(TransferError):
    """The caller asked to stop; nothing was stored."""


class TransferInterruptedError(TransferError):
    """There was no connection, or it broke: the same transfer may well succeed a little later."""


def never() -> bool:
    """The cancel check of a transfer that nobody cancels."""
    return False


def unwatched(count: int) -> None:
    """What a transfer that nobody watches tells its bytes to."""


def unheard(said: str) -> None:
    """What a transfer whose refusal nobody asks about tells its reason to."""


def servlet_url(base: str, query: Mapping[str, str], servlet: str = IMAGE_SERVLET) -> str:
    """The URL of `servlet` below `base`, which is `http://host:port` or such with a path.

    Raises:
        TransferError: `base` is no http or https address.
    """
    try:
        parts = urlsplit(base)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise TransferError(
            base,
            "this is not an HTTP address, expected http://host:port",
            hint="Check dfs.namenode.http-address (or https-address) of the NameNode.",
        )
    path = parts.path.rstrip("/")
    if not path.endswith(servlet):
        path += servlet
    return f"{parts.scheme}://{parts.netloc}{path}?{urlencode(query)}"


@contextmanager
def login_faults(what: str, url: str) -> Iterator[None]:
    """Tell what is wrong with a login by Kerberos as a fault of the transfer that it was for."""
    try:
        yield
    except KerberosError as fault:
        raise TransferError(url, f"{what} failed at the login: {fault.message}", hint=fault.hint) from fault


def refusal(what: str, url: str, status: int, reason: str, body: bytes, login_hint: str = "") -> TransferError:
    """The error for an answer that is no success: status, what the server said, and where.

    Args:
        login_hint: what `Spnego.hint` says to do about the login, "" for nothing.
    """
    hint = login_hint or _HINTS.get(status, "Check the address and the log of the other side.")
    login = current_login()
    if login is not None and not login_hint and status == http.client.FORBIDDEN:
        hint = (
            f"We are {login.principal or 'who has the ticket'}. A NameNode takes and gives images to the principals of "
            "NameNodes and of the secondary (with the host of dfs.namenode.secondary.http-address), and to "
            "dfs.cluster.administrators."
        )
    return TransferError(url, f"{what} was refused: {reason_of(status, reason, body)}", status=status, hint=hint)


def reason_of(status: int, reason: str, body: bytes) -> str:
    """Why a request was refused, in one line: Hadoop says it in the status line, with a page of HTML or nothing behind.

    Where the status line has no more than the phrase of its status, the body tells.
    """
    line = sentence(reason.encode())
    said = sentence(body)
    if not line or line.casefold() == http.client.responses.get(status, "").casefold():
        return said or line or f"HTTP {status}"
    if not said or _is_page(body) or line in said or said in line:
        return line
    return f"{line}: {said}"


def _is_page(body: bytes) -> bool:
    return b"<html" in body[:1000].lower()


def sentence(body: bytes) -> str:
    """What an answer's body says, in one short line: no HTML, no stack trace."""
    text = body.decode("utf-8", "replace")
    if _is_page(body):
        text = html.unescape(_TAG.sub(" ", _UNSEEN.sub(" ", text)))
    text = " ".join(_STACK.sub("", text).split())
    return text if len(text) <= _MAX_SENTENCE else text[:_MAX_SENTENCE] + "…"
