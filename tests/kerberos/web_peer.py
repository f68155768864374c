"""A server and a client that authenticate each other with SPNEGO tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.principals import ServerPrincipal
from tests.kerberos.kdc import REALM, Kdc


@dataclass
class Peer:
    """The server side, with the keys of the keytab."""

    keytab: Path

    def accept(self, token: bytes) -> tuple[Any, bytes]:
        import gssapi

        # no replay cache, because one client opens many contexts per second
        store = {"keytab": f"FILE:{self.keytab}", "rcache": "none:"}
        context = gssapi.SecurityContext(creds=gssapi.Credentials(usage="accept", store=store), usage="accept")
        answer = context.step(token)
        assert context.complete
        return context, answer


def login(kdc: Kdc, principal: str, keytab: Path) -> KerberosLogin:
    name = ServerPrincipal("dfs.namenode.kerberos.principal", f"nn/_HOST@{REALM}")
    return KerberosLogin(f"{principal}@{REALM}", keytab, name, name)
