"""The identity of a process: its principal and keytab, and the principals of the servers that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hadoop_rpc.errors import KerberosError
from hadoop_rpc.gssapi_library import EXPIRED, HINTS, cause, gssapi_library
from hadoop_rpc.keytab import KeytabEntry, keys_of
from hadoop_rpc.principals import ServerPrincipal
from hadoop_rpc.security import Protection

_NO_CREDENTIALS = 2529639107


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """Identity of this process and of the servers it calls.

    Attributes:
        principal: our principal, with `_HOST` replaced; if there is no keytab, "" means the owner of the default ticket
            cache.
        keytab: None uses the default ticket cache (kinit), which this process does not renew.
        protections: protections of RPC, in order of preference.
        fallback: whether RPC continues without security if a server does not use Kerberos.
        namenode, journalnode: expected principals of the servers.
        sends_user_name: whether HTTP requests also contain the principal as `user.name`, and the servers need not
            authenticate (checkpointer.http.send-user-name).
        binds_address: whether RPC connections come from the address of our principal's host.
    """

    principal: str
    keytab: Path | None
    namenode: ServerPrincipal
    journalnode: ServerPrincipal
    protections: tuple[Protection, ...] = (Protection.AUTHENTICATION,)
    fallback: bool = False
    sends_user_name: bool = False
    binds_address: bool = True

    def check(self) -> None:
        """Check everything that does not need a KDC.

        Raises:
            KerberosSetupError: the library is missing, or the keytab is unreadable or lacks the principal.
        """
        gssapi_library()
        if self.keytab is not None:
            self.own_keys()

    def own_keys(self) -> list[KeytabEntry]:
        """Return the keytab's entries for our principal; the list is not empty.

        Raises:
            KerberosSetupError: the keytab is unreadable or lacks the principal.
        """
        assert self.keytab is not None
        return keys_of(self.principal, self.keytab)

    @contextmanager
    def as_kerberos_errors(self, target: str = "") -> Iterator[None]:
        """Convert GSSAPI errors to our errors, with the attempted operation, Kerberos's cause, and a hint."""
        gssapi = gssapi_library()
        try:
            yield
        except gssapi.exceptions.GSSError as error:
            code = error.min_code
            if code == _NO_CREDENTIALS and self.keytab is not None:
                # GSSAPI also reports this if the keytab is unreadable or lacks the principal
                self.own_keys()
            message = cause(error)
            who, at = self.principal or "this user", f" at {target}" if target else ""
            ended = (gssapi.exceptions.ExpiredCredentialsError, gssapi.exceptions.ExpiredContextError)
            hint = HINTS.get(EXPIRED if isinstance(error, ended) else code, "")
            if self.keytab is None:
                hint = hint or "Run kinit, or configure a principal and a keytab."
            raise KerberosError(f"Kerberos fails for {who}{at}: {message}", hint=hint) from error
