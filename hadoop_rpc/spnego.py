"""SPNEGO over HTTP, client side (RFC 4559). The first request already has a token, so a body is never sent twice."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import PROCESS, http_context
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.login_settings import SENDS_USER_NAME

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

_SCHEME = "Negotiate"
# PseudoAuthenticationHandler
_PSEUDO = "PseudoAuth"

_OPEN = (
    "The web server does not use Kerberos: set hadoop.http.authentication.type to kerberos in the core-site.xml of "
    "all NameNodes and JournalNodes; with simple, any user may fetch images there."
)
_OPEN_HINT = (
    f"{_OPEN} Hadoop's own checkpointers send user.name instead of a login. With {SENDS_USER_NAME.name}=true, the "
    "checkpointer also sends user.name."
)
_REFUSED_HINT = (
    "If the reason concerns the token, check that the clocks of both hosts agree (NTP), and that the keytab of the web "
    "server contains the current key of HTTP/HOST. If it concerns anonymous requests, the web server does not use "
    "Kerberos: set hadoop.http.authentication.type to kerberos in the core-site.xml of all NameNodes and JournalNodes."
)
_NAMED_HINT = (
    "The web server does not use Kerberos and identifies us only by user.name. Check that it sends images to our "
    "principal, or add the principal to dfs.cluster.administrators."
)
_ANONYMOUS_HINT = (
    "The web server rejects requests without a user: set hadoop.http.authentication.simple.anonymous.allowed to true "
    "in its core-site.xml, or use Kerberos. Hadoop's own checkpointers fail in the same way."
)
_KERBEROS_HINT = "The web server accepts only Kerberos logins: set hadoop.security.authentication as in the cluster."
# responses of NameNode and JournalNode servlets to a request without a name that the authentication filter accepted
_WITHOUT_USER = (HTTPStatus.GONE, HTTPStatus.INTERNAL_SERVER_ERROR)
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Spnego:
    """The exchange of one request; a retry needs a new exchange, because a token is valid only once.

    Args:
        host: host of the URL.

    Attributes:
        headers: headers of the request; empty if this process does not use Kerberos.
        ignored: whether the server neither responded to our token nor requested a token; set by `check`.
        hint: next step for the login if the response is a refusal, "" if there is none; set by `check`.

    Raises:
        KerberosError: there is no ticket for the server.
    """

    def __init__(self, host: str, login: KerberosLogin | None = None) -> None:
        self._host = host
        self._login = login or PROCESS.login
        self.headers: dict[str, str] = {}
        self.ignored = False
        self.hint = ""
        if self._login is not None:
            self._context = http_context(self._login, host)
            token = base64.b64encode(self._context.step(None)).decode()
            self.headers["Authorization"] = f"{_SCHEME} {token}"

    def named(self, url: str) -> str:
        """Return `url`, with our principal as `user.name` if this is configured.

        Raises:
            KerberosError: there is no ticket for the principal.
        """
        if self._login is None or not self._login.sends_user_name:
            return url
        mark = "&" if "?" in url else "?"
        return f"{url}{mark}{urlencode({'user.name': PROCESS.tickets.own_name(self._login)})}"

    def check(self, status: int, challenges: Sequence[str]) -> None:
        """Verify the server before the response is used; `challenges` are its WWW-Authenticate headers.

        Raises:
            KerberosError: the server does not prove its identity in a successful response, or rejected our token.
        """
        login = self._login
        if login is None:
            self.hint = _hint_without_login(status, challenges)
            return
        asked = [each for each in challenges if each.startswith(_SCHEME)]
        reply = next((found for each in asked if (found := each[len(_SCHEME) :].strip())), "")
        self.ignored = not asked
        if reply:
            self._verify(reply)
            return
        if self.ignored and login.sends_user_name:
            self.hint = _NAMED_HINT if status in _REFUSED else ""
        elif self.ignored and status == HTTPStatus.FORBIDDEN:
            # AuthenticationFilter answers both an invalid token and an anonymous request in this way
            self.hint = _REFUSED_HINT
        elif self.ignored and (status in _REFUSED or status in _WITHOUT_USER):
            self.hint = _OPEN_HINT
        if status in _REFUSED:
            # the server's key may have changed since we obtained our ticket; the next request obtains a new ticket
            PROCESS.tickets.renew(login)
        elif status < HTTPStatus.MULTIPLE_CHOICES and not login.sends_user_name:
            raise KerberosError(
                f"the web server on {self._host} answered without proving its identity; it may not use Kerberos",
                hint=_OPEN_HINT,
            )

    def _verify(self, reply: str) -> None:
        try:
            token = base64.b64decode(reply, validate=True)
        except (binascii.Error, ValueError) as fault:
            raise KerberosError(f"the web server on {self._host} answered with a token that is not base64") from fault
        self._context.step(token)
        if not self._context.complete:
            raise KerberosError(f"the web server on {self._host} did not complete the login in one step")


@contextmanager
def open_logged_in(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float | tuple[float | None, float | None],
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[BaseHTTPResponse, Spnego]]:
    """Send a GET request with our login, and yield the response of the verified server.

    Raises:
        KerberosError: see `Spnego` and `Spnego.check`.
        OSError, WaitCancelled: see `open_request`.
    """
    # imported here, because commands without a request do not need the HTTP client
    from hadoop_common.cluster_http import challenges_of, open_request

    spnego = Spnego(urlsplit(url).hostname or "")
    named = spnego.named(url)
    sent = {**(headers or {}), **spnego.headers}
    with open_request("GET", named, headers=sent, timeout=timeout, cancelled=cancelled) as answer:
        spnego.check(answer.status, challenges_of(answer))
        yield answer, spnego


def advice_on_open_servers(login: KerberosLogin) -> str:
    """Return the hint for a web server that ignores the tokens of `login`."""
    return _OPEN if login.sends_user_name else _OPEN_HINT


def _hint_without_login(status: int, challenges: Sequence[str]) -> str:
    if status not in _REFUSED:
        return ""
    if any(each.startswith(_PSEUDO) for each in challenges):
        return _ANONYMOUS_HINT
    return _KERBEROS_HINT if any(each.startswith(_SCHEME) for each in challenges) else ""
