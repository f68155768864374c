"""The cookie of a Kerberos login (AuthenticationFilter, AuthenticationToken and Signer of Hadoop)."""

from __future__ import annotations

import base64
import hmac
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

NAME: Final = "hadoop.auth"
_KIND: Final = "kerberos"
_SIGNED: Final = "&s="
# Java returns quotes as part of the value
_COOKIE = re.compile(r'(?:^|;)\s*hadoop\.auth=("?)([^";]{1,4096})\1\s*(?:;|$)')
_EXPIRY = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Login:
    """A login: the full principal and its short name; `until` is in milliseconds since the epoch."""

    user: str
    principal: str
    until: int


def signed_cookie(login: Login, secret: bytes) -> str:
    """Return the cookie's value, `u=…&p=…&t=kerberos&e=…&s=…`.

    Raises:
        ValueError: a name contains a character that would end the cookie's value.
    """
    if re.search(r'[&";\s]', login.user + login.principal):
        raise ValueError(f"the name {login.principal!a} cannot be in a cookie")
    text = f"u={login.user}&p={login.principal}&t={_KIND}&e={login.until}"
    return f"{text}{_SIGNED}{_signature(text, secret)}"


def read_cookie(header: str, secret: bytes, now: float) -> Login | None:
    """Return the login in a request's `Cookie` header; None if the cookie is not ours or has expired.

    Args:
        now: seconds since the epoch.
    """
    found = _COOKIE.search(header)
    if found is None:
        return None
    text, signed, signature = found[2].rpartition(_SIGNED)
    if not signed or not hmac.compare_digest(signature.encode("utf-8", "replace"), _signature(text, secret).encode()):
        return None
    parts = dict(part.partition("=")[::2] for part in text.split("&"))
    if parts.get("t") != _KIND or not parts.get("p") or not _EXPIRY.fullmatch(parts.get("e", "")):
        return None
    login = Login(parts.get("u", ""), parts["p"], int(parts["e"]))
    return login if login.user and now * 1000 < login.until else None


def _signature(text: str, secret: bytes) -> str:
    """Sign `text` as Hadoop 3 does, because its servers may use the same secret file."""
    return base64.b64encode(hmac.new(secret, text.encode("utf-8", "replace"), sha256).digest()).decode()
