"""The Kerberos login of this process: tickets from its keytab, and contexts with the servers that it calls.

A process has one login for new connections, and a ticket cache for each login that is or was in use. It keeps no other
state between connections.
"""

from __future__ import annotations

import logging
import socket
from dataclasses import dataclass, field
from typing import Final

from hadoop_rpc.errors import KerberosError
from hadoop_rpc.gssapi_contexts import Initiator
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.principals import ServerPrincipal, host_of, with_host
from hadoop_rpc.rpc_protocol import ServerKind
from hadoop_rpc.security import ClientSecurity, Protection, SecurityContext
from hadoop_rpc.tickets import TicketCaches

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _ProcessLogin:
    """State of the process: the login of new connections (None if the cluster does not use Kerberos) and the tickets of
    all logins.
    """

    login: KerberosLogin | None = None
    tickets: TicketCaches = field(default_factory=TicketCaches)

    def ticket_end(self) -> float | None:
        """Return the end of the ticket that was used last, in seconds since the epoch; None if no ticket was used."""
        return None if self.login is None else self.tickets.end(self.login)


PROCESS: Final = _ProcessLogin()


def log_in(login: KerberosLogin | None) -> None:
    """Make `login` the login of the process for new connections; None disables Kerberos.

    Raises:
        KerberosSetupError: see `KerberosLogin.check`; the login is unchanged.
    """
    if login is not None:
        login.check()
    PROCESS.login = login


def security_for(kind: ServerKind, host: str) -> ClientSecurity | None:
    """Return the login for the RPC server on `host`, or None if the cluster does not use Kerberos."""
    login = PROCESS.login
    if login is None:
        return None
    return _RpcSecurity(login, login.namenode if kind is ServerKind.NAMENODE else login.journalnode, host)


def http_context(login: KerberosLogin, host: str) -> SecurityContext:
    """Return a new context for SPNEGO with the web server on `host`.

    Raises:
        KerberosError: there is no ticket for the server.
    """
    target = f"HTTP/{host.lower().rstrip('.')}@{login.namenode.realm}"
    return Initiator(login, target, PROCESS.tickets.credentials(login), spnego=True)


class _RpcSecurity:
    """The process's login as `ClientSecurity` for one server."""

    def __init__(self, login: KerberosLogin, server: ServerPrincipal, host: str) -> None:
        self._login = login
        self._server = server
        self._host = host
        self._warned = False

    @property
    def protections(self) -> tuple[Protection, ...]:
        return self._login.protections

    @property
    def fallback(self) -> bool:
        return self._login.fallback

    @property
    def own_host(self) -> str:
        return host_of(self._login.principal) if self._login.binds_address else ""

    def context(self, service: str, host: str) -> SecurityContext:
        name = f"{service}/{host}@{self._server.realm}" if host else f"{service}@{self._server.realm}"
        self._check(name)
        return Initiator(self._login, name, PROCESS.tickets.credentials(self._login))

    def renew(self) -> bool:
        return PROCESS.tickets.renew(self._login)

    def _check(self, name: str) -> None:
        expected = with_host(self._server.principal, self._host)
        # query DNS only if the configured name does not match
        if name in (expected, with_host(self._server.principal, socket.getfqdn(self._host))):
            return
        if not self._server.fits_pattern(name):
            raise KerberosError(
                f"the server at {self._host} is {name}, expected {expected}",
                hint=f"Check {self._server.key}, and that the server's principal contains this address.",
            )
        if not self._warned:
            self._warned = True
            _LOG.warning(
                "the server at %s is %s, expected %s; %s.pattern allows this principal",
                self._host,
                name,
                expected,
                self._server.key,
            )
