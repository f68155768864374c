"""SPNEGO authentication of HTTP requests (RFC 4559, Hadoop's AuthenticationFilter).

Java's clients first send OPTIONS, which servlets do not handle, and then send the cookie of the response with the
request. Other clients send their token with the request. `open_paths` lists the paths that need no login. For requests
with a delegation token, the WebHDFS handlers verify the caller (AuthFilter).
"""

from __future__ import annotations

import base64
import binascii
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol

from flask import Blueprint, Flask, Response, g, request

from hadoop_common.access import AccessControl, Caller, Resource, Right
from hadoop_rpc.errors import KerberosError
from hadoop_rpc.security import SecurityContext
from hadoop_rpc.server_counts import ACCEPTED, FAILED, REFUSED, LoginCounts
from servlets.auth_cookie import NAME, Login, read_cookie, signed_cookie
from servlets.errors import sentence_response
from servlets.webhdfs_parameters import TOKEN_PARAMETER, webhdfs_parameters

_LOG = logging.getLogger(__name__)

HEALTH: Final = "/health/"
MAX_HEADER_BYTES: Final = 128 << 10
"""Maximum size of headers with a token. A token that lists many groups has up to 64 KiB, and a third more in base64."""
TOKEN_BLUEPRINT: Final = "webhdfs"
"""Blueprint whose handlers verify delegation tokens; all other blueprints require a login."""
_SCHEME = "negotiate"
_NO_COOKIE = f"{NAME}=; Path=/; Expires=Thu, 01-Jan-1970 00:00:00 GMT; HttpOnly"
_ALLOW = "GET, HEAD, PUT, POST, OPTIONS"


class TokenAcceptor(Protocol):
    """Acceptor of client tokens."""

    def context(self) -> SecurityContext:
        """Return a new context; raise KerberosError on failure."""


@dataclass(frozen=True, slots=True)
class HttpLogin:
    """Settings of the authentication.

    Attributes:
        key: key of the server's principal, HTTP/HOST.
        user_of: returns the short name of a principal; raises ValueError if there is none.
        secret: signs cookies, which are valid for `validity` seconds.
        open_paths: paths that need no login, in addition to /health.
    """

    key: TokenAcceptor
    user_of: Callable[[str], str]
    secret: bytes = field(repr=False)
    validity: float
    open_paths: frozenset[str]


class HttpAuthenticator:
    """Authentication in front of all routes of an application.

    Args:
        wall: returns seconds since the epoch.

    Attributes:
        login: settings, which can be replaced at any time; each request uses the same value throughout.
    """

    def __init__(self, login: HttpLogin, logins: LoginCounts, wall: Callable[[], float] = time.time) -> None:
        self.login = login
        self._logins = logins
        self._wall = wall

    def guard(self, application: Flask) -> None:
        application.before_request(self._enter)
        application.after_request(_with_headers)

    def _enter(self) -> Response | None:
        g.headers = []
        login = self.login
        if request.path in login.open_paths or request.path.startswith(HEALTH):
            g.open = True
            return None
        if request.blueprint == TOKEN_BLUEPRINT and TOKEN_PARAMETER in webhdfs_parameters() and request.method == "GET":
            return None
        known = read_cookie(request.headers.get("Cookie", ""), login.secret, self._wall())
        if known is None:
            answer = self._negotiate(login, request.headers.get("Authorization", ""))
            if isinstance(answer, Response):
                return answer
            known = answer
        g.caller = Caller(request.remote_addr or "", (known.user,), known.principal)
        if request.method == "OPTIONS":
            g.headers.append(("Allow", _ALLOW))
            return Response(b"", HTTPStatus.OK)
        return None

    def _negotiate(self, by: HttpLogin, authorization: str) -> Login | Response:
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() != _SCHEME:
            return _challenge("Negotiate")
        try:
            token = base64.b64decode(text.strip(), validate=True)
            context = by.key.context()
            reply = base64.b64encode(context.step(token)).decode()
            if not context.complete:
                return _challenge(f"Negotiate {reply}")
            principal = context.initiator
        except (KerberosError, binascii.Error, ValueError) as fault:
            reason_text = fault.message if isinstance(fault, KerberosError) else "the token is not base64"
            return self._refused(FAILED, f"the Kerberos token does not authenticate the caller: {reason_text}")
        try:
            login = Login(by.user_of(principal), principal, int((self._wall() + by.validity) * 1000))
            cookie = signed_cookie(login, by.secret)
        except ValueError as fault:
            return self._refused(REFUSED, f"{principal} has no short name: {fault} (hadoop.security.auth_to_local)")
        self._logins.count("http", ACCEPTED)
        expires = formatdate(login.until / 1000, usegmt=True)
        g.headers.append(("WWW-Authenticate", f"Negotiate {reply}" if reply else "Negotiate"))
        secure = "Secure; " if request.is_secure else ""
        g.headers.append(("Set-Cookie", f'{NAME}="{cookie}"; Path=/; Expires={expires}; {secure}HttpOnly'))
        return login

    def _refused(self, result: str, sentence: str) -> Response:
        self._logins.count("http", result)
        _LOG.warning("%s %s from %s is refused: %s", request.method, request.path, request.remote_addr, sentence)
        return sentence_response(HTTPStatus.FORBIDDEN, sentence)


def request_caller() -> Caller | None:
    """Return the caller, with only an address if the caller has not logged in; None if the path needs no login."""
    if g.get("open"):
        return None
    known: Caller | None = g.get("caller")
    return known or Caller(request.remote_addr or "")


def _challenge(scheme: str) -> Response:
    g.headers += [("WWW-Authenticate", scheme), ("Set-Cookie", _NO_COOKIE)]
    return sentence_response(HTTPStatus.UNAUTHORIZED, "Authentication required")


def _with_headers(response: Response) -> Response:
    for name, value in g.get("headers", ()):
        response.headers.add(name, value)
    return response


_READING = ("GET", "HEAD", "OPTIONS")


def restrict(blueprint: Blueprint, access: AccessControl, resource: Resource) -> Blueprint:
    """Make `blueprint` respond with 403 to callers without the right to read or change `resource`; return `blueprint`.

    Args:
        resource: the resource to check; for `Resource.STATE`, changes need the right to change `Resource.CONTROL`.
    """

    @blueprint.before_request
    def check() -> Response | None:
        who = request_caller()
        if who is None:
            return None
        right = Right.READ if request.method in _READING else Right.CHANGE
        checked = Resource.CONTROL if resource is Resource.STATE and right is Right.CHANGE else resource
        verdict = access.check(who, right, f"{request.method} {request.path}", checked)
        return None if verdict.allowed else sentence_response(HTTPStatus.FORBIDDEN, verdict.reason)

    return blueprint
