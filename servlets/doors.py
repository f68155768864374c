"""The doors of a process: who passes at its RPC and at its web server, on unsecured clusters and with Kerberos."""

from __future__ import annotations

import secrets
from dataclasses import replace

from hadoop_common.access import AccessControl, AccessRules
from hadoop_common.port_limits import Refusals
from hadoop_rpc.errors import KerberosSetupError
from hadoop_rpc.kerberos import RpcDoor, default_realm
from hadoop_rpc.logins import LOGINS
from hadoop_rpc.security import ServerSecurity
from hadoop_rpc.server_kerberos import ServerKerberos
from servlets.entrance import MAX_HEADER_BYTES, Entrance, WebLogin
from servlets.http_connection import DEFAULT_HEADER_BYTES

_SECRET_BYTES = 32


class Doors:
    """What decides at the servers of a process.

    Args:
        rules: of an unsecured cluster.
        kerberos: None there.

    Attributes:
        access: decides.
        own_user: short name of our own principal, "" without one.
        security: of RPC servers, `entrance` of web servers: None where nobody has to prove who he is.
        header_bytes: the most that the headers of a request may have.

    Raises:
        KerberosSetupError: a keytab lacks a key, the library is missing, or this process has no short name.
    """

    def __init__(self, rules: AccessRules, kerberos: ServerKerberos | None, refusals: Refusals) -> None:
        self.own_user = ""
        self.security: ServerSecurity | None = None
        self.entrance: Entrance | None = None
        self.header_bytes = DEFAULT_HEADER_BYTES
        if kerberos is None:
            self.access = AccessControl(rules, refusals)
            return
        kerberos.rpc.check()
        kerberos.http.check()
        names = kerberos.rules.in_realm(default_realm())
        own = kerberos.rpc.principal
        try:
            self.own_user = names.short_name(own)
        except ValueError as fault:
            raise KerberosSetupError(
                f"our own principal {own} has no short name: {fault}",
                hint="Correct hadoop.security.auth_to_local, or the default_realm of krb5.conf.",
            ) from fault
        self.access = AccessControl(replace(rules, doors=kerberos.doors, own_user=self.own_user), refusals)
        self.security = RpcDoor(kerberos.rpc, kerberos.protections, names.short_name, self.access)
        login = WebLogin(kerberos.http, names.short_name, _secret(kerberos), kerberos.validity, kerberos.open_paths)
        self.entrance = Entrance(login, LOGINS)
        self.header_bytes = MAX_HEADER_BYTES

    def take_over(self, rules: AccessRules, kerberos: ServerKerberos | None) -> list[str]:
        """Go by the lists of both from now on, and not by anything else; a line for each list that is another one."""
        if (kerberos is None) == self.access.by_name:
            return []
        doors = None if kerberos is None else kerberos.doors
        return self.access.take_over(replace(rules, doors=doors, own_user=self.own_user))


def _secret(kerberos: ServerKerberos) -> bytes:
    if kerberos.secret_file is None:
        return secrets.token_bytes(_SECRET_BYTES)
    try:
        secret = kerberos.secret_file.read_bytes()
    except OSError as fault:
        secret, said = b"", fault.strerror
    else:
        said = "it is empty"
    if not secret:
        raise KerberosSetupError(
            f"the secret of cookies cannot be read from {kerberos.secret_file}: {said}",
            hint="Check hadoop.http.authentication.signature.secret.file, and that this user may read it.",
        )
    return secret
