"""The Kerberos login of this process: tickets from its keytab, and contexts with peers (python-gssapi over MIT).

A process has one login and one ticket cache, and stores nothing else between connections. MIT's library uses a ticket
from the cache until half of the ticket's lifetime has passed, then it obtains a new one with the current keytab.
Therefore tickets do not expire while the KDC answers, and a replaced keytab is used for the next ticket.

Servers of the process accept client tokens with the keys of a keytab (`ServiceKey`). This needs no KDC and is
independent of the tickets: the keytab is re-read for each context.
"""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hadoop_common.access import AccessControl, Caller, Right
from hadoop_rpc.errors import KerberosError, KerberosSetupError
from hadoop_rpc.keytab import KeytabEntry, parse_keytab
from hadoop_rpc.principals import ServerPrincipal, with_host
from hadoop_rpc.rpc_protocol import ServerKind
from hadoop_rpc.security import ClientSecurity, Protection, SecurityContext, Unwrapped

_LOG = logging.getLogger(__name__)

_SPNEGO = "1.3.6.1.5.5.2"
# hadoop.kerberos.min.seconds.before.relogin
_MIN_SECONDS_BETWEEN_RENEWALS = 60.0

_HINTS = {
    2529638918: "Add the principal to the KDC, or correct its configuration key.",
    2529638919: "The KDC does not know the server by this name: check the host in its principal and address.",
    2529638943: "The keytab is older than the key in the KDC: export it again (kadmin: ktadd).",
    2529638944: "The ticket expired, and no new one could be obtained: check the KDC and the keytab.",
    2529638946: "Try again: two tokens made at the same moment look like a replay.",
    2529638949: "The clocks of the two hosts are more than 5 minutes apart: check NTP on both.",
    2529639068: "Check the KDCs of the realm in krb5.conf, and the network to them.",
}
_NO_CREDENTIALS, _EXPIRED = 2529639107, 2529638944


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """Identity of this process and of the servers it calls.

    Attributes:
        principal: our own principal, with `_HOST` replaced; "" without a keytab means the owner of the default ticket
            cache.
        keytab: None uses the default ticket cache (kinit), which this process does not renew.
        protections: protections of RPC, in order of preference.
        fallback: whether RPC continues without security if a server has none.
        namenode, journalnode: expected principals of the servers.
        sends_user_name: whether HTTP requests also carry the principal as `user.name`, and the servers need not
            authenticate (checkpointer.http.send-user-name).
    """

    principal: str
    keytab: Path | None
    namenode: ServerPrincipal
    journalnode: ServerPrincipal
    protections: tuple[Protection, ...] = (Protection.AUTHENTICATION,)
    fallback: bool = False
    sends_user_name: bool = False

    def check(self) -> None:
        """Check everything that does not need a KDC.

        Raises:
            KerberosSetupError: the library is missing, or the keytab is unreadable or lacks the principal.
        """
        _library()
        if self.keytab is not None:
            self.own_keys()

    def own_keys(self) -> list[KeytabEntry]:
        """Return our own keys in the keytab, at least one.

        Raises:
            KerberosSetupError: the keytab is unreadable or lacks the principal.
        """
        assert self.keytab is not None
        return _keys_of(self.principal, self.keytab)


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
        _library()
        _keys_of(self.principal, self.keytab)

    def context(self) -> SecurityContext:
        """Return a new context for a client.

        Raises:
            KerberosError: the keytab cannot be used now.
        """
        return _Acceptor(self)


def _keys_of(principal: str, keytab: Path) -> list[KeytabEntry]:
    """Return the keys of `principal`; a trailing `*` matches all principals with the same beginning."""
    try:
        entries = parse_keytab(keytab.read_bytes())
    except (OSError, ValueError) as fault:
        said = fault.strerror if isinstance(fault, OSError) else fault
        raise KerberosSetupError(
            f"the keytab {keytab} cannot be read: {said}",
            hint="Check its path in the configuration and that this user may read it.",
        ) from fault
    ours = [entry for entry in entries if _stands_for(principal, entry.principal)]
    if not ours:
        held = ", ".join(sorted({entry.principal for entry in entries})) or "nothing"
        raise KerberosSetupError(
            f"the keytab {keytab} has no key of {principal}; it contains {held}",
            hint="Export the key into it (kadmin: ktadd), or correct the configured principal.",
        )
    return ours


def _stands_for(wanted: str, principal: str) -> bool:
    return principal.startswith(wanted[:-1]) if wanted.endswith("*") else principal == wanted


def default_realm() -> str:
    """Return the default realm of krb5.conf, "" if there is none.

    Raises:
        KerberosSetupError: the library is missing.
    """
    gssapi = _library()
    try:
        found = _name("nobody").canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(found).rpartition("@")[2]


_current: KerberosLogin | None = None


def log_in(login: KerberosLogin | None) -> None:
    """Make this the login of the process, used by new connections; None disables Kerberos.

    Raises:
        KerberosSetupError: see `KerberosLogin.check`; the login is unchanged.
    """
    global _current  # noqa: PLW0603 - state of the process, as its tickets are
    if login is not None:
        login.check()
    _current = login


def current_login() -> KerberosLogin | None:
    return _current


def security_for(kind: ServerKind, host: str) -> ClientSecurity | None:
    """Return the login for the RPC server on `host`, None if Kerberos is not used."""
    if _current is None:
        return None
    return _RpcSecurity(_current, _current.namenode if kind is ServerKind.NAMENODE else _current.journalnode, host)


def http_context(login: KerberosLogin, host: str) -> SecurityContext:
    """Return a new context for SPNEGO with the web server on `host`.

    Raises:
        KerberosError: there is no ticket for the server.
    """
    target = f"HTTP/{host.lower().rstrip('.')}@{login.namenode.realm}"
    return _Initiator(login, target, spnego=True)


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

    def context(self, service: str, host: str) -> SecurityContext:
        name = f"{service}/{host}@{self._server.realm}" if host else f"{service}@{self._server.realm}"
        self._check(name)
        return _Initiator(self._login, name)

    def renew(self) -> bool:
        return renew(self._login)

    def _check(self, name: str) -> None:
        expected = with_host(self._server.principal, self._host)
        # DNS is queried only if the configured name does not match
        if name in (expected, with_host(self._server.principal, socket.getfqdn(self._host))):
            return
        if not self._server.fits_pattern(name):
            raise KerberosError(
                f"the server at {self._host} is {name}, expected {expected}",
                hint=f"Check {self._server.key}, and that the address is the one in the server's principal.",
            )
        if not self._warned:
            self._warned = True
            _LOG.warning(
                "the server at %s is %s, expected %s; %s.pattern allows it",
                self._host,
                name,
                expected,
                self._server.key,
            )


# ---- tickets ----

_caches = itertools.count()
_cache_lock = threading.Lock()
_cache_names: dict[tuple[str, Path], str] = {}
_renewed_at: dict[tuple[str, Path], float] = {}
_ticket_ends: dict[tuple[str, Path], float] = {}


def ticket_end() -> float | None:
    """Return the end of the latest used ticket, in seconds since the epoch; None if none was used."""
    login = _current
    return None if login is None or login.keytab is None else _ticket_ends.get((login.principal, login.keytab))


def _cache_name(principal: str, keytab: Path) -> str:
    with _cache_lock:
        return _cache_names.setdefault((principal, keytab), f"MEMORY:checkpointer-{next(_caches)}")


def renew(login: KerberosLogin, clock: Callable[[], float] = time.monotonic) -> bool:
    """Discard all tickets, so that the next connection obtains new ones, also for servers with changed keys.

    Return False if this was done less than a minute ago, or if this process does not own the tickets.
    """
    if login.keytab is None:
        return False
    whose = (login.principal, login.keytab)
    with _cache_lock:
        now = clock()
        last = _renewed_at.get(whose)
        if last is not None and now - last < _MIN_SECONDS_BETWEEN_RENEWALS:
            return False
        _renewed_at[whose] = now
        _cache_names.pop(whose, None)
        return True


def acquire_ticket(login: KerberosLogin) -> None:
    """Obtain a ticket-granting ticket, from the cache or the KDC.

    Raises:
        KerberosError: no ticket can be obtained.
    """
    credentials = _credentials(login)
    with _as_kerberos_errors(login):
        if not credentials.lifetime:
            raise KerberosError(f"the ticket of {login.principal or 'this user'} has ended", hint=_HINTS[_EXPIRED])


def own_name(login: KerberosLogin) -> str:
    """Return our principal, that of the ticket cache if none is configured.

    Raises:
        KerberosError: there is no ticket.
    """
    if login.principal:
        return login.principal
    credentials = _credentials(login)
    with _as_kerberos_errors(login):
        return str(credentials.name)


def _credentials(login: KerberosLogin) -> Any:
    """Return new credentials for one context. Creating them only reads the cache, and stored credentials would
    expire.
    """
    gssapi = _library()
    with _as_kerberos_errors(login):
        if login.keytab is None:
            return gssapi.Credentials(usage="initiate")
        store = {"client_keytab": f"FILE:{login.keytab}", "ccache": _cache_name(login.principal, login.keytab)}
        found = gssapi.Credentials(name=_name(login.principal), usage="initiate", store=store)
        _ticket_ends[login.principal, login.keytab] = time.time() + found.lifetime
        return found


# ---- servers ----


class KerberosRpcSecurity:
    """The `ServerSecurity` of a server whose protocols are resources of `access`.

    Args:
        key: key of the server's own principal, which contains a host.
        user_of: returns the short name of a principal; raises ValueError.
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


# ---- python-gssapi ----


class _Context:
    """Base of `SecurityContext`s. A lock protects it, because one thread sends while another receives."""

    _context: Any

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def _as_kerberos_errors(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    @property
    def complete(self) -> bool:
        # the failure of a step may be reported only here
        with self._lock, self._as_kerberos_errors():
            return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        with self._lock, self._as_kerberos_errors():
            return str(self._context.initiator_name)

    def step(self, token: bytes | None) -> bytes:
        with self._lock, self._as_kerberos_errors():
            answer = bytes(self._context.step(token) or b"")
            if self._context.complete:
                self._check()
            return answer

    def _check(self) -> None:
        """Check a complete context; raises KerberosError."""
        raise NotImplementedError

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes:
        with self._lock, self._as_kerberos_errors():
            return bytes(self._context.wrap(data, encrypt).message)

    def unwrap(self, token: bytes) -> Unwrapped:
        with self._lock, self._as_kerberos_errors():
            found = self._context.unwrap(token)
            return Unwrapped(bytes(found.message), bool(found.encrypted))


class _Initiator(_Context):
    def __init__(self, login: KerberosLogin, target: str, *, spnego: bool = False) -> None:
        super().__init__()
        gssapi = _library()
        flag = gssapi.RequirementFlag
        self._login = login
        self._target = target
        credentials = _credentials(login)
        with self._as_kerberos_errors():
            self._context = gssapi.SecurityContext(
                name=_name(target),
                creds=credentials,
                usage="initiate",
                mech=gssapi.OID.from_int_seq(_SPNEGO) if spnego else gssapi.MechType.kerberos,
                flags=flag.mutual_authentication
                | flag.integrity
                | flag.confidentiality
                | flag.replay_detection
                | flag.out_of_sequence_detection,
            )

    def _as_kerberos_errors(self) -> AbstractContextManager[None]:
        return _as_kerberos_errors(self._login, self._target)

    def _check(self) -> None:
        if _library().RequirementFlag.mutual_authentication not in self._context.actual_flags:
            raise KerberosError(f"{self._target} did not prove its identity")


class _Acceptor(_Context):
    def __init__(self, key: ServiceKey) -> None:
        super().__init__()
        gssapi = _library()
        self._key = key
        with self._as_kerberos_errors():
            name = None if key.principal.endswith("*") else _name(key.principal)
            store = {"keytab": f"FILE:{key.keytab}"}
            credentials = gssapi.Credentials(name=name, usage="accept", store=store)
            self._context = gssapi.SecurityContext(creds=credentials, usage="accept")

    @contextmanager
    def _as_kerberos_errors(self) -> Iterator[None]:
        gssapi = _library()
        try:
            yield
        except gssapi.exceptions.GSSError as error:
            raise KerberosError(_cause(error), hint=_HINTS.get(error.min_code, "")) from error

    def _check(self) -> None:
        target = str(self._context.target_name)
        if not _stands_for(self._key.principal, target):
            raise KerberosError(f"the token is for {target}, but this server is {self._key.principal}")


def _library() -> Any:
    # clusters without security and commands without connections do not need the library
    try:
        import gssapi
    except ImportError as fault:
        raise KerberosSetupError(
            "hadoop.security.authentication is kerberos, and the required Python package gssapi is not installed",
            hint="Install it: pip install 'hdfs-checkpointer[kerberos]'; the build needs gcc and libkrb5-dev.",
        ) from fault
    return gssapi


def _name(principal: str) -> Any:
    gssapi = _library()
    return gssapi.Name(principal, gssapi.NameType.kerberos_principal)


def _cause(error: Any) -> str:
    said = "; ".join(error.get_all_statuses(error.min_code, False))
    # errors of GSSAPI itself have only a major code
    return "; ".join(error.get_all_statuses(error.maj_code, True)) if said in ("", "Success") else said


@contextmanager
def _as_kerberos_errors(login: KerberosLogin, target: str = "") -> Iterator[None]:
    """Convert errors of GSSAPI to ours, with the attempted operation, the cause that Kerberos reports, and a hint."""
    gssapi = _library()
    try:
        yield
    except gssapi.exceptions.GSSError as error:
        code = error.min_code
        if code == _NO_CREDENTIALS and login.keytab is not None:
            # GSSAPI also reports this if the keytab is unreadable or lacks the principal
            login.own_keys()
        said = _cause(error)
        who, at = login.principal or "this user", f" at {target}" if target else ""
        ended = (gssapi.exceptions.ExpiredCredentialsError, gssapi.exceptions.ExpiredContextError)
        hint = _HINTS.get(_EXPIRED if isinstance(error, ended) else code, "")
        if login.keytab is None:
            hint = hint or "Run kinit, or name principal and keytab."
        raise KerberosError(f"Kerberos fails for {who}{at}: {said}", hint=hint) from error
