"""Logins with delegation tokens, which this node checks with the replayed namespace, as an observer NameNode does.

The namespace contains the active NameNode's tokens and the master keys that signed them, as of the applied edits. Later
edits may issue or renew a token that is unknown or expired on this node, so this node refers the client to the active
NameNode.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from engine.live_browser import LiveBrowser
from engine.read_refusals import STANDBY
from hadoop_common.quantities import counted
from hadoop_rpc.errors import remote_error
from hadoop_rpc.security import KnownToken
from hadoop_rpc.server_counts import ACCEPTED, FAILED, LOGINS
from image_tools.namespace_browser import NamespaceBrowser
from image_tools.permission_checker import ACCESS_CONTROL, ReadRefusedError
from journal.errors import CorruptOpError
from journal.primitives import PrimitiveReader
from journal.record_kinds import DELEGATION_TOKEN
from journal.values import DelegationTokenIdent

_INVALID: Final = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
LOGIN_WAIT_SECONDS: Final = 0.2
"""Longest wait of an RPC login for the namespace; short, because logins use the threads for short calls."""


class TokenLogins:
    """The delegation tokens of a served namespace (`KnownTokens`). Any thread may call any method.

    Args:
        reading: returns read access to the present namespace; its argument is the longest wait in seconds.
        user_of: returns the short name of a principal; raises ValueError if there is none.
        wall: returns seconds since the epoch.
    """

    def __init__(
        self,
        reading: Callable[[float], AbstractContextManager[NamespaceBrowser]],
        user_of: Callable[[str], str],
        wall: Callable[[], float],
    ) -> None:
        self._reading = reading
        self._user_of = user_of
        self._wall = wall

    def known_token(self, identifier: bytes) -> KnownToken:
        try:
            return self._find(identifier, LOGIN_WAIT_SECONDS)
        except ReadRefusedError as refused:
            raise remote_error(refused.java_class, str(refused)) from refused

    def user_of_text(self, text: str, timeout: float) -> str:
        """Return the short name of the owner of a URL's token (Token.encodeToUrlString), and count the login.

        Raises:
            ReadRefusedError: the token or its password is not valid, or the namespace is not available in time.
        """
        try:
            user = self._user_of_text(text, timeout)
        except ReadRefusedError:
            LOGINS.count("http", FAILED)
            raise
        LOGINS.count("http", ACCEPTED)
        return user

    def _user_of_text(self, text: str, timeout: float) -> str:
        identifier, password = _parts(text)
        known = self._find(identifier, timeout)
        if not hmac.compare_digest(known.password, password):
            raise _invalid("its password is wrong")
        return known.user

    def _find(self, identifier: bytes, timeout: float) -> KnownToken:
        ident = _ident(identifier)
        with self._reading(timeout) as browser:
            assert isinstance(browser, LiveBrowser)
            secret = browser.namespace.secrets.secret_of(ident)
        if secret is None or secret.expiry_date < self._wall() * 1000:
            problem = "is unknown to this node" if secret is None else "has expired"
            raise ReadRefusedError(
                STANDBY,
                f"delegation token {ident.sequence_number} of {ident.owner} {problem}, according to the edits "
                "applied so far: ask the active NameNode",
            )
        try:
            user = self._user_of(ident.owner)
        except ValueError as fault:
            raise ReadRefusedError(ACCESS_CONTROL, f"Illegal principal name {ident.owner}: {fault}") from fault
        return KnownToken(ident.owner, user, _password(ident, secret.key))


def _password(ident: DelegationTokenIdent, key: bytes) -> bytes:
    """Return the password of a token (SecretManager.createPassword)."""
    identifier = bytearray()
    DELEGATION_TOKEN.write(identifier, ident)
    return hmac.digest(key, identifier, "sha1")


def _ident(identifier: bytes) -> DelegationTokenIdent:
    reader = PrimitiveReader(identifier)
    try:
        ident: DelegationTokenIdent = DELEGATION_TOKEN.read(reader)
    except CorruptOpError as error:
        raise _invalid(f"its identifier is malformed: {error}") from error
    if reader.remaining:
        raise _invalid(f"its identifier is followed by {counted(reader.remaining, 'byte')}")
    return ident


def _parts(text: str) -> tuple[bytes, bytes]:
    """Return the identifier and the password; ignore the kind and the service, which do not identify the caller."""
    try:
        reader = PrimitiveReader(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        identifier, password = reader.take(reader.vint()), reader.take(reader.vint())
    except (ValueError, CorruptOpError) as error:
        raise _invalid(f"it is malformed: {error}") from error
    return identifier, password


def _invalid(why: str) -> ReadRefusedError:
    return ReadRefusedError(_INVALID, f"the delegation token is invalid: {why}")
