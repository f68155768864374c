"""Kerberos of the servers of a process: their keys, their settings and their authentication of RPC clients.

Servers accept client tokens with the keys of a keytab, without a KDC and independently of the process's tickets. Each
context re-reads the keytab.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.access import AccessControl, AccessPolicy, Caller, Right
from hadoop_rpc.auth_to_local import NameRules
from hadoop_rpc.gssapi_contexts import Acceptor
from hadoop_rpc.gssapi_library import gssapi_library
from hadoop_rpc.keytab import keys_of
from hadoop_rpc.security import Protection, SecurityContext


@dataclass(frozen=True, slots=True)
class ServiceKey:
    """The key with which one of our servers accepts tokens.

    Attributes:
        principal: principal of the key; `HTTP/*` matches all HTTP principals in the keytab.
    """

    principal: str
    keytab: Path

    def check(self) -> None:
        """Check everything that does not need a client.

        Raises:
            KerberosSetupError: the library is missing, or the keytab is unreadable or lacks the principal.
        """
        gssapi_library()
        keys_of(self.principal, self.keytab)

    def context(self) -> SecurityContext:
        """Return a new context for a client.

        Raises:
            KerberosError: the keytab cannot be used now.
        """
        return Acceptor(self.principal, self.keytab)


@dataclass(frozen=True, slots=True)
class ServerKerberos:
    """Configured settings, before keytabs and the secret are read.

    Attributes:
        rpc, http: keys of the servers; the principal of `rpc` is the identity of the process.
        protections: protections of RPC.
        rules: rules for short names, without the default realm, which the system's krb5.conf defines.
        policies: access policy of each resource.
        secret_file: file with the secret that signs cookies; None to use a random secret.
        validity: validity of cookies, in seconds.
        open_paths: paths of the web server without authentication.
    """

    rpc: ServiceKey
    http: ServiceKey
    protections: tuple[Protection, ...]
    rules: NameRules
    policies: Mapping[str, AccessPolicy]
    secret_file: Path | None
    validity: float
    open_paths: frozenset[str]


class KerberosRpcSecurity:
    """The `RpcServerSecurity` of a server whose protocols are resources of `access`.

    Args:
        key: key of the server's principal, which contains a host.
        user_of: returns the short name of a principal; raises ValueError if there is none.
    """

    def __init__(
        self, key: ServiceKey, protections: tuple[Protection, ...], user_of: Callable[[str], str], access: AccessControl
    ) -> None:
        self._key = key
        self._user_of = user_of
        self._access = access
        self.protections = protections
        self.service, _, self.host = key.principal.rpartition("@")[0].partition("/")

    def context(self) -> SecurityContext:
        return self._key.context()

    def user_of(self, principal: str) -> str:
        return self._user_of(principal)

    def refusal(self, caller: Caller, protocol: str) -> str:
        verdict = self._access.check(caller, Right.CHANGE, protocol, protocol)
        return "" if verdict.allowed else verdict.reason
