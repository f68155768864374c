"""Ticket caches in memory, one for each principal and keytab, and the credentials that contexts obtain from them.

MIT's library uses a ticket from the cache until half of the ticket's lifetime has passed, and then obtains a new ticket
with the current keytab. Therefore, tickets do not expire while the KDC answers, and the library uses a replaced keytab
for the next ticket.

A renewal begins a new cache. The previous cache remains until the next renewal, because a context may still use it.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hadoop_rpc.errors import KerberosError
from hadoop_rpc.gssapi_library import EXPIRED, HINTS, gssapi_library, principal_name
from hadoop_rpc.kerberos_login import KerberosLogin

# MIT's library, which python-gssapi has already loaded
_KRB5 = "libkrb5.so.3"
# hadoop.kerberos.min.seconds.before.relogin
_MIN_SECONDS_BETWEEN_RENEWALS = 60.0


class TicketCaches:
    """The ticket caches of a process; methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._names: dict[tuple[str, Path], str] = {}
        # caches that the last renewal replaced
        self._replaced: dict[tuple[str, Path], str] = {}
        self._renewed_at: dict[tuple[str, Path], float] = {}
        self._ends: dict[tuple[str, Path], float] = {}

    def end(self, login: KerberosLogin) -> float | None:
        return None if login.keytab is None else self._ends.get((login.principal, login.keytab))

    def cache_name(self, principal: str, keytab: Path) -> str:
        with self._lock:
            return self._names.setdefault((principal, keytab), f"MEMORY:checkpointer-{next(self._numbers)}")

    def renew(self, login: KerberosLogin, clock: Callable[[], float] = time.monotonic) -> bool:
        """Discard all tickets, so that later connections obtain new tickets, including tickets for servers with changed
        keys.

        Return False if the last renewal was less than a minute ago, or if this process does not own the tickets.
        """
        if login.keytab is None:
            return False
        whose = (login.principal, login.keytab)
        with self._lock:
            now = clock()
            last = self._renewed_at.get(whose)
            if last is not None and now - last < _MIN_SECONDS_BETWEEN_RENEWALS:
                return False
            self._renewed_at[whose] = now
            if (unused := self._replaced.pop(whose, None)) is not None:
                _destroy(unused)
            if (name := self._names.pop(whose, None)) is not None:
                self._replaced[whose] = name
            return True

    def acquire(self, login: KerberosLogin) -> None:
        """Obtain a ticket-granting ticket, from the cache or the KDC.

        Raises:
            KerberosError: no ticket can be obtained.
        """
        credentials = self.credentials(login)
        with login.as_kerberos_errors():
            if not credentials.lifetime:
                raise KerberosError(f"the ticket of {login.principal or 'this user'} has expired", hint=HINTS[EXPIRED])

    def own_name(self, login: KerberosLogin) -> str:
        """Return our principal: the configured principal, or the principal of the ticket cache.

        Raises:
            KerberosError: there is no ticket.
        """
        if login.principal:
            return login.principal
        credentials = self.credentials(login)
        with login.as_kerberos_errors():
            return str(credentials.name)

    def credentials(self, login: KerberosLogin) -> Any:
        """Return new credentials for one context. New credentials only cost a read of the cache; stored credentials
        would expire.
        """
        gssapi = gssapi_library()
        with login.as_kerberos_errors():
            if login.keytab is None:
                return gssapi.Credentials(usage="initiate")
            cache = self.cache_name(login.principal, login.keytab)
            store = {"client_keytab": f"FILE:{login.keytab}", "ccache": cache}
            found = gssapi.Credentials(name=principal_name(login.principal), usage="initiate", store=store)
            self._ends[login.principal, login.keytab] = time.time() + found.lifetime
            return found


def _destroy(cache: str) -> None:
    """Free a ticket cache of this process, for which GSSAPI has no call; do nothing if MIT's library is not found."""
    try:
        krb5 = ctypes.CDLL(_KRB5)
    except OSError:
        return
    context, handle = ctypes.c_void_p(), ctypes.c_void_p()
    if krb5.krb5_init_context(ctypes.byref(context)):
        return
    try:
        if not krb5.krb5_cc_resolve(context, cache.encode(), ctypes.byref(handle)):
            krb5.krb5_cc_destroy(context, handle)
    finally:
        krb5.krb5_free_context(context)
