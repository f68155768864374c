"""Principals of the realm as callers: their logins, and their requests over HTTP."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

from hadoop_rpc.kerberos import PROCESS, log_in
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.principals import ServerPrincipal
from hadoop_rpc.security import Protection
from hadoop_rpc.spnego import Spnego
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.secure_conf import HOST

SERVERS = ("nn", "sn", "jn")
USERS = ("hdfs", "alice")


def add_users(kdc: Kdc) -> None:
    """Create principals without a host, each with its keytab."""
    for user in USERS:
        kdc.add(user)
        kdc.keytab(f"{user}.keytab", user)
    kdc.keytab("HTTP.keytab", f"HTTP/{HOST}")


def login(kdc: Kdc, who: str, *protections: Protection) -> KerberosLogin:
    """Return the login of `who`, the first part of a principal; all servers have the principals `nn` and `jn`."""
    name = f"{who}@{REALM}" if who in USERS else f"{who}/{HOST}@{REALM}"
    namenode = ServerPrincipal("dfs.namenode.kerberos.principal", f"nn/_HOST@{REALM}")
    journalnode = ServerPrincipal("dfs.journalnode.kerberos.principal", f"jn/_HOST@{REALM}")
    keytab = Path(kdc.root / f"{who}.keytab")
    return KerberosLogin(name, keytab, namenode, journalnode, protections or tuple(Protection))


def get(
    kdc: Kdc, who: str, url: str, path: str, method: str = "GET", body: bytes | None = None
) -> tuple[int, str, dict[str, str]]:
    """Return the status, body and headers of a request from `who`; "" sends no token."""
    headers = {}
    if who:
        log_in(login(kdc, who))
        headers = Spnego(HOST).headers
    scheme, _, place = url.partition("://")
    # the certificate is not under test
    connection = (
        HTTPSConnection(place, timeout=600, context=ssl._create_unverified_context())
        if scheme == "https"
        else HTTPConnection(place, timeout=600)
    )
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        message = answer.read(100_000).decode("utf-8", "replace").strip()
        return answer.status, message, dict(answer.getheaders())
    finally:
        connection.close()


def tickets(kdc: Kdc, who: str) -> Path:
    """Make a cache of tickets, as `kinit` does, for Hadoop's clients."""
    import gssapi

    ours = login(kdc, who)
    log_in(ours)
    file = kdc.root / f"{who}.ccache"
    PROCESS.tickets.credentials(ours).store(store={"ccache": f"FILE:{file}"}, usage="initiate", overwrite=True)
    assert gssapi.Credentials(usage="initiate", store={"ccache": f"FILE:{file}"}).lifetime > 0
    return file


class Tap:
    """A relay of connections to a port of this host, which stores the bytes."""

    def __init__(self, target: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.seen = bytearray()
        self._target = target
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            try:
                there = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                # the server has stopped
                here.close()
                continue
            for end in (here, there):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for ends in ((here, there), (there, here)):
                threading.Thread(target=self._relay, args=ends, daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.seen += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
