"""The two sides of a GSSAPI exchange, over python-gssapi."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from hadoop_rpc.errors import KerberosError
from hadoop_rpc.gssapi_library import HINTS, cause, gssapi_library, principal_name
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.keytab import stands_for
from hadoop_rpc.security import Unwrapped

_SPNEGO = "1.3.6.1.5.5.2"


class _Context:
    """Base of `SecurityContext`s. A lock protects the context, because two threads may send and receive at the same
    time.
    """

    _context: Any

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def _as_kerberos_errors(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    @property
    def complete(self) -> bool:
        # GSSAPI may report the failure of a step only when this attribute is read
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
        """Check a complete context; raise KerberosError if it is not acceptable."""
        raise NotImplementedError

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes:
        with self._lock, self._as_kerberos_errors():
            return bytes(self._context.wrap(data, encrypt).message)

    def unwrap(self, token: bytes) -> Unwrapped:
        with self._lock, self._as_kerberos_errors():
            found = self._context.unwrap(token)
            return Unwrapped(bytes(found.message), bool(found.encrypted))


class Initiator(_Context):
    """Our side of a context with the server `target`."""

    def __init__(self, login: KerberosLogin, target: str, credentials: Any, *, spnego: bool = False) -> None:
        super().__init__()
        gssapi = gssapi_library()
        flag = gssapi.RequirementFlag
        self._login = login
        self._target = target
        with self._as_kerberos_errors():
            self._context = gssapi.SecurityContext(
                name=principal_name(target),
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
        return self._login.as_kerberos_errors(self._target)

    def _check(self) -> None:
        if gssapi_library().RequirementFlag.mutual_authentication not in self._context.actual_flags:
            raise KerberosError(f"{self._target} did not prove its identity")


class Acceptor(_Context):
    """A server's side of a context with a client; `principal` may end with `*` (see `keys_of`)."""

    def __init__(self, principal: str, keytab: Path) -> None:
        super().__init__()
        gssapi = gssapi_library()
        self._principal = principal
        with self._as_kerberos_errors():
            name = None if principal.endswith("*") else principal_name(principal)
            store = {"keytab": f"FILE:{keytab}"}
            credentials = gssapi.Credentials(name=name, usage="accept", store=store)
            self._context = gssapi.SecurityContext(creds=credentials, usage="accept")

    @contextmanager
    def _as_kerberos_errors(self) -> Iterator[None]:
        gssapi = gssapi_library()
        try:
            yield
        except gssapi.exceptions.GSSError as error:
            raise KerberosError(cause(error), hint=HINTS.get(error.min_code, "")) from error

    def _check(self) -> None:
        target = str(self._context.target_name)
        if not stands_for(self._principal, target):
            raise KerberosError(f"the token is for {target}, but this server is {self._principal}")
