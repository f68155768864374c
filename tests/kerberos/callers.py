"""Principals of the realm as callers: their logins, and their requests over HTTP."""

from __future__ import annotations

import base64
from http.client import HTTPConnection
from pathlib import Path

from hadoop_rpc.kerberos import KerberosLogin, log_in
from hadoop_rpc.principals import ServerPrincipal
from hadoop_rpc.security import Protection
from hadoop_rpc.spnego import Spnego
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.secure_conf import HOST

SERVERS = ("nn", "sn", "jn")
USERS = ("hdfs", "alice")


def add_users(kdc: Kdc) -> None:
    """Principals without a host, each with its keytab."""
    for user in USERS:
        kdc.add(user)
        kdc.keytab(f"{user}.keytab", user)
    kdc.keytab("HTTP.keytab", f"HTTP/{HOST}")


def login(kdc: Kdc, who: str, *protections: Protection) -> KerberosLogin:
    """`who` is the first part of a principal; it takes all servers for those of `nn` and `jn`."""
    name = f"{who}@{REALM}" if who in USERS else f"{who}/{HOST}@{REALM}"
    namenode = ServerPrincipal("dfs.namenode.kerberos.principal", f"nn/_HOST@{REALM}")
    journalnode = ServerPrincipal("dfs.journalnode.kerberos.principal", f"jn/_HOST@{REALM}")
    keytab = Path(kdc.root / f"{who}.keytab")
    return KerberosLogin(name, keytab, namenode, journalnode, protections or tuple(Protection))


def get(
    kdc: Kdc, who: str, url: str, path: str, method: str = "GET", body: bytes | None = None
) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of a request of `who`, "" without a token."""
    headers = {}
    if who:
        log_in(login(kdc, who))
        headers = Spnego(HOST).headers
    connection = HTTPConnection(*url.removeprefix("http://").rsplit(":", 1), timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        said = answer.read(100_000).decode("utf-8", "replace").strip()
        return answer.status, said, dict(answer.getheaders())
    finally:
        connection.close()


def token(header: str) -> bytes:
    """Of a WWW-Authenticate or Authorization header."""
    return base64.b64decode(header.partition(" ")[2])
