"""Security of a process's servers: access to RPC and web servers, on unsecured clusters and with Kerberos."""

from __future__ import annotations

import secrets
from dataclasses import replace

from hadoop_common.access import AccessControl, AccessRules
from hadoop_common.port_limits import Refusals
from hadoop_rpc.auth_to_local import NameRules
from hadoop_rpc.errors import KerberosSetupError
from hadoop_rpc.gssapi_library import default_realm
from hadoop_rpc.security import RpcServerSecurity
from hadoop_rpc.server_counts import LOGINS
from hadoop_rpc.server_kerberos import KerberosRpcSecurity, ServerKerberos
from servlets.http_authenticator import MAX_HEADER_BYTES, HttpAuthenticator, HttpLogin
from servlets.http_connection import DEFAULT_HEADER_BYTES

_SECRET_BYTES = 32


class ServerSecurity:
    """Access control and authentication of a process's servers.

    Args:
        rules: access rules of an unsecured cluster.
        kerberos: Kerberos settings, None on an unsecured cluster.

    Attributes:
        access: access decisions.
        own_user: short name of our principal, "" if this process has no principal.
        rpc_security, authenticator: authentication of RPC servers and of web servers; None if there is none.
        header_bytes: maximum size of request headers.

    Raises:
        KerberosSetupError: a keytab lacks a key, the library is missing, or this process has no short name.
    """

    def __init__(self, rules: AccessRules, kerberos: ServerKerberos | None, refusals: Refusals) -> None:
        self.own_user = ""
        self.rpc_security: RpcServerSecurity | None = None
        self.authenticator: HttpAuthenticator | None = None
        self.header_bytes = DEFAULT_HEADER_BYTES
        if kerberos is None:
            self.access = AccessControl(rules, refusals)
            return
        kerberos.rpc.check()
        kerberos.http.check()
        self._names, self.own_user = names_of(kerberos)
        self.access = AccessControl(replace(rules, policies=kerberos.policies, own_user=self.own_user), refusals)
        self.rpc_security = KerberosRpcSecurity(kerberos.rpc, kerberos.protections, self._short_name, self.access)
        secret = _secret(kerberos) or secrets.token_bytes(_SECRET_BYTES)
        self.authenticator = HttpAuthenticator(
            HttpLogin(kerberos.http, self._short_name, secret, kerberos.validity, kerberos.open_paths), LOGINS
        )
        self.header_bytes = MAX_HEADER_BYTES

    def _short_name(self, principal: str) -> str:
        return self._names.short_name(principal)

    def reconfigure(self, rules: AccessRules, kerberos: ServerKerberos | None) -> list[str]:
        """Replace the access lists and login settings; return one line for each difference.

        Keys and protections are not replaced. Existing connections and valid cookies keep their short names.

        Raises:
            KerberosSetupError: this process would have no short name, or the secret is unreadable; nothing changed.
        """
        if (kerberos is None) == self.access.by_name:
            return []
        if kerberos is None or self.authenticator is None:
            return self.access.replace_rules(replace(rules, policies=None, own_user=self.own_user))
        names, own_user = names_of(kerberos)
        before = self.authenticator.login
        after = replace(
            before,
            # without a file, keep the random secret
            secret=_secret(kerberos) or before.secret,
            validity=kerberos.validity,
            open_paths=kerberos.open_paths,
        )
        differing = {
            "hadoop.security.auth_to_local": names != self._names,
            "hadoop.http.authentication.kerberos.endpoint.whitelist": after.open_paths != before.open_paths,
            "hadoop.http.authentication.token.validity": after.validity != before.validity,
            "the secret of cookies": after.secret != before.secret,
        }
        self._names, self.own_user, self.authenticator.login = names, own_user, after
        lines = self.access.replace_rules(replace(rules, policies=kerberos.policies, own_user=own_user))
        return [*lines, *(name for name, differs in differing.items() if differs)]


def names_of(kerberos: ServerKerberos) -> tuple[NameRules, str]:
    """Return the rules of short names, and the short name of our principal.

    Raises:
        KerberosSetupError: our principal has no short name.
    """
    names = kerberos.rules.in_realm(default_realm())
    own = kerberos.rpc.principal
    try:
        return names, names.short_name(own)
    except ValueError as fault:
        raise KerberosSetupError(
            f"our own principal {own} has no short name: {fault}",
            hint="Correct hadoop.security.auth_to_local, or the default_realm of krb5.conf.",
        ) from fault


def _secret(kerberos: ServerKerberos) -> bytes:
    """Return the content of the secret file, or b"" if no secret file is configured."""
    if kerberos.secret_file is None:
        return b""
    try:
        secret = kerberos.secret_file.read_bytes()
    except OSError as fault:
        secret, reason = b"", fault.strerror
    else:
        reason = "it is empty"
    if not secret:
        raise KerberosSetupError(
            f"the secret of cookies cannot be read from {kerberos.secret_file}: {reason}",
            hint="Check hadoop.http.authentication.signature.secret.file and that this user may read it.",
        )
    return secret
