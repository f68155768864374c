"""Protects changes over HTTP: only people and scripts on this host or in configured networks may request them.

A page in an operator's browser can send requests to any server that the browser reaches. Therefore, a browser's request
needs a header that only a page of this server can set, or a secret token from a form for administrators. The request
must also address this server by a name of this host. This rule excludes foreign names that resolve to this host. A
request through a proxy has the proxy's address, so the guard refuses changes through a proxy. The guard ignores GET,
which changes nothing. Browsers send a preflight request before they send PUT to another server, so the guard also
ignores PUT, which only Hadoop's /imagetransfer uses.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from flask import Request

from hadoop_common.port_limits import Refusals
from hadoop_common.quantities import Network, parse_networks

LOOPBACK = parse_networks("127.0.0.0/8,::1")

CSRF_HEADER = "X-XSRF-HEADER"
"""Header of Hadoop's RestCsrfPreventionFilter; the guard ignores its value."""

FORM_TOKEN = "token"
"""Form field that contains the token of the guard."""

_FOREIGN_PAGE = f"changes are not accepted from web pages: use the command line, or send {CSRF_HEADER} from this server"
_OLD_FORM = "this form was loaded before the last restart of the server: open the page again"
_MAX_FORM = 8 << 10
_SAFE = ("GET", "HEAD", "OPTIONS", "PUT")
_BROWSERS = re.compile(r"Mozilla|Opera")
_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via")
_TELLTALES = ("Origin", "Referer", "Sec-Fetch-Site")


class ChangeGuard:
    """Guard of an application; only hosts in `networks` and this host may request changes.

    Args:
        only_as: if given, every request must address this server by an address or name of this host, or by this name.

    Attributes:
        form_token: token for forms on pages that only administrators can read.
    """

    def __init__(
        self, networks: Iterable[Network] = LOOPBACK, refusals: Refusals | None = None, *, only_as: str | None = None
    ) -> None:
        self._networks = tuple(networks)
        self._refusals = refusals or Refusals()
        self._only_own_names = only_as is not None
        self._names = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower(), (only_as or "").lower()}
        self._names.discard("")
        self.form_token = secrets.token_urlsafe()

    def refusal(self, request: Request) -> str:
        """Return the reason why a request is refused; "" if it is accepted."""
        if self._only_own_names and not self._is_own_name(request.host):
            return self._refuse("foreign name", "this server answers only requests to an address or name of its host")
        if request.method in _SAFE:
            return ""
        if _is_forwarded(request):
            return self._refuse(
                "forwarded", "changes are not accepted through a proxy: send the request to this server directly"
            )
        if not self._is_near(request.remote_addr or "", request.environ.get("SERVER_NAME", "")):
            return self._refuse(
                "not local",
                "changes are accepted only from this host: send the request there, or add your network to "
                "checkpointer.http.control-hosts",
            )
        if self._is_of_a_browser(request) and (problem := self._page_problem(request)):
            return self._refuse("foreign page", problem)
        return ""

    def is_operator(self, request: Request) -> bool:
        """Return whether a request names this host and comes directly from a host that may request changes."""
        if _is_forwarded(request) or not self._is_own_name(request.host):
            return False
        return self._is_near(request.remote_addr or "", request.environ.get("SERVER_NAME", ""))

    def _is_near(self, peer: str, here: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return peer == here or any(address in network for network in self._networks)

    def _is_of_a_browser(self, request: Request) -> bool:
        agent = request.headers.get("User-Agent", "")
        return bool(_BROWSERS.match(agent)) or any(name in request.headers for name in _TELLTALES)

    def _page_problem(self, request: Request) -> str:
        """Return why a browser's request is not proven to come from a page of this server; "" if it is."""
        origin = request.headers.get("Origin") or request.headers.get("Referer")
        if self._is_own_name(request.host) and (origin is None or urlsplit(origin).netloc == request.host):
            if CSRF_HEADER in request.headers:
                return ""
            token = "" if origin is None else sent_form(request).get(FORM_TOKEN, "")
            if secrets.compare_digest(token.encode("utf-8", "replace"), self.form_token.encode()):
                return ""
            if token:
                return _OLD_FORM
        return _FOREIGN_PAGE

    def _is_own_name(self, host: str) -> bool:
        name = urlsplit(f"//{host}").hostname or ""
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True

    def _refuse(self, reason: str, sentence: str) -> str:
        self._refusals.count(reason)
        return sentence


def _is_forwarded(request: Request) -> bool:
    return any(name in request.headers for name in _FORWARDED)


def sent_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a small form, or no fields for any other body."""
    is_form = request.mimetype == "application/x-www-form-urlencoded" and request.content_length is not None
    return request.form if is_form and (request.content_length or 0) <= _MAX_FORM else {}
