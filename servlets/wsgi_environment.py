"""The WSGI environment of a request (PEP 3333), from h11's data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote_to_bytes

import h11

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_PLAIN = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}


def target_problem(request: h11.Request) -> str:
    """Return what is wrong with a request's target or framing, "" if nothing is."""
    if not request.target.startswith(b"/"):
        return "the target of a request has to begin with /"
    if b"#" in request.target:
        return "the target of a request has no fragment"
    names = [name for name, _ in request.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        return "a request has one of Content-Length and Transfer-Encoding"
    return ""


def body_length(request: h11.Request) -> int | None:
    """Return the length of the body, None if it is chunked."""
    for name, value in request.headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            return int(value)
    return 0


def environment(
    request: h11.Request, body: BinaryIO, peer: str, address: tuple[str, int], scheme: str = "http"
) -> WSGIEnvironment:
    """Return the environment; `address` is this side of the connection, `scheme` is http or https."""
    path, _, query = request.target.partition(b"?")
    found: WSGIEnvironment = {
        "REQUEST_METHOD": request.method.decode("ascii"),
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query.decode("ascii"),
        "REQUEST_URI": request.target.decode("ascii"),
        "REMOTE_ADDR": peer,
        "SERVER_NAME": address[0],
        "SERVER_PORT": str(address[1]),
        "SERVER_PROTOCOL": f"HTTP/{request.http_version.decode('ascii')}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scheme,
        "wsgi.input": body,
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers:
        key = _PLAIN.get(name) or "HTTP_" + name.decode("ascii").upper().replace("-", "_")
        text = value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found
