"""SPNEGO on HTTP, client side (RFC 4559): a token goes with each request, unasked: no body is sent twice."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from email.message import Message
from http import HTTPStatus

from hadoop_rpc.errors import KerberosError
from hadoop_rpc.kerberos import KerberosLogin, current_login, http_context, renew

_SCHEME = "Negotiate"


def challenges(headers: Message) -> list[str]:
    """The WWW-Authenticate headers of an answer of http.client."""
    found: list[str] = headers.get_all("WWW-Authenticate", [])
    return found


class Spnego:
    """The exchange of one request; a retried one is a new exchange, for a token counts once.

    Args:
        host: of the URL.

    Attributes:
        headers: what goes with the request; empty without Kerberos.

    Raises:
        KerberosError: there is no ticket for the server.
    """

    def __init__(self, host: str, login: KerberosLogin | None = None) -> None:
        self._host = host
        self._login = login or current_login()
        self.headers: dict[str, str] = {}
        if self._login is not None:
            self._context = http_context(self._login, host)
            token = base64.b64encode(self._context.step(None)).decode()
            self.headers["Authorization"] = f"{_SCHEME} {token}"

    def check(self, status: int, challenges: Sequence[str]) -> None:
        """Look who answered, before anything of the answer is used; `challenges` are its WWW-Authenticate headers.

        Raises:
            KerberosError: the server does not prove who it is in an answer of success, or refused our token.
        """
        if self._login is None:
            return
        reply = next((each[len(_SCHEME) :].strip() for each in challenges if each.startswith(_SCHEME)), "")
        if reply:
            self._verify(reply)
        elif status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            # its key may be another one since we got our ticket for it; who asks again gets a new one
            renew(self._login)
        elif status < HTTPStatus.MULTIPLE_CHOICES:
            raise KerberosError(
                f"the web server on {self._host} answered without proving who it is, as one without Kerberos does",
                hint="Set hadoop.http.authentication.type to kerberos there: else anybody may fetch its images.",
            )

    def _verify(self, reply: str) -> None:
        try:
            token = base64.b64decode(reply, validate=True)
        except (binascii.Error, ValueError) as fault:
            raise KerberosError(f"the web server on {self._host} answered with a token that is no base64") from fault
        self._context.step(token)
        if not self._context.complete:
            raise KerberosError(f"the web server on {self._host} did not end the login in one step")
