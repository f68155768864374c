"""ZooKeeper by kazoo: a session that is lost is made anew, and whoever asks waits for it.

The client is absent, connected, or disconnected. The first call makes it; kazoo's own thread brings it back after a
lost connection or an expired session, so that nothing here ends with a session. A call goes out only while it is
connected: what would wait in kazoo's queue might be done long after its caller has given up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from journal.bookkeeper.errors import BadVersionError, NodeExistsError, NoNodeError, ZooKeeperError
from journal.bookkeeper.znodes import ANY_VERSION, Change, Create, Delete, Set

_LOG = logging.getLogger(__name__)

_GRACE = 3.0  # seconds beyond the session's timeout, as Hadoop's journal waits
_AGAIN = 0.1


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """How an ensemble is reached.

    Attributes:
        hosts: `host:port`, separated by commas.
        session_timeout: seconds.
        acl: of znodes that are made, (scheme, id, permissions from "cdrwa"); none leaves them open to all.
        auth: (scheme, credential) that the session shows.
    """

    hosts: str
    session_timeout: float = 3.0
    acl: tuple[tuple[str, str, str], ...] = ()
    auth: tuple[tuple[str, str], ...] = ()


class KazooZNodes:
    """`ZNodes` of an ensemble; nothing is connected to before the first call."""

    def __init__(self, address: ZooKeeperAddress) -> None:
        self._address = address
        self._patience = address.session_timeout + _GRACE
        self._guard = threading.Lock()
        self._client: Any = None
        self._connected = threading.Event()
        self._closed = False

    def get(self, path: str) -> tuple[bytes | None, int]:
        data, stat = self._do(path, lambda client: client.get_async(path))
        return data, stat.version

    def set(self, path: str, data: bytes | None, version: int) -> int:
        done: int = self._do(path, lambda client: client.set_async(path, data, version)).version
        return done

    def create(self, path: str, data: bytes | None, *, parents: bool = False, ephemeral: bool = False) -> None:
        self._do(path, lambda client: client.create_async(path, data, makepath=parents, ephemeral=ephemeral))

    def create_sequential(self, prefix: str) -> str:
        def call(client: Any) -> Any:
            return client.create_async(prefix, b"", makepath=True, ephemeral=True, sequence=True)

        made: str = self._do(prefix, call)
        return made

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._do(path, lambda client: client.delete_async(path, version))

    def children(self, path: str) -> list[str]:
        found: list[str] = self._do(path, lambda client: client.get_children_async(path))
        return found

    def exists(self, path: str) -> bool:
        return self._do(path, lambda client: client.exists_async(path)) is not None

    def commit(self, changes: list[Change]) -> None:
        def call(client: Any) -> Any:
            transaction = client.transaction()
            for change in changes:
                match change:
                    case Create():
                        transaction.create(change.path, change.data, acl=client.default_acl)
                    case Delete():
                        transaction.delete(change.path, change.version)
                    case Set():
                        transaction.set_data(change.path, change.data, change.version)
            return transaction.commit_async()

        from kazoo.exceptions import RolledBackError, RuntimeInconsistency

        results = self._do(changes[0].path, call)
        for change, result in zip(changes, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise _told(result, change.path)

    def owned(self, path: str) -> bool:
        """Whether an ephemeral znode is there and of the present session."""
        stat = self._do(path, lambda client: client.exists_async(path))
        return stat is not None and stat.ephemeralOwner == self._client.client_id[0]

    def close(self) -> None:
        with self._guard:
            client, self._client, self._closed = self._client, None, True
        self._connected.set()
        if client is not None:
            client.stop()
            client.close()

    # ---- below: sessions ----

    def _do(self, path: str, call: Callable[[Any], Any]) -> Any:
        from kazoo.exceptions import (
            ConnectionClosedError,
            ConnectionLoss,
            KazooException,
            OperationTimeoutError,
            SessionExpiredError,
        )
        from kazoo.handlers.threading import KazooTimeoutError

        lost = ConnectionLoss, ConnectionClosedError, SessionExpiredError, OperationTimeoutError
        deadline = time.monotonic() + self._patience
        while True:
            client = self._reached(path, deadline)
            try:
                return call(client).get(timeout=max(deadline - time.monotonic(), _AGAIN))
            except lost as fault:
                if time.monotonic() + _AGAIN > deadline:
                    raise self._away(path) from fault
                # kazoo tells its listeners a moment later.
                time.sleep(_AGAIN)
            except KazooTimeoutError as fault:
                raise self._away(path) from fault
            except KazooException as fault:
                raise _told(fault, path) from fault

    def _reached(self, path: str, deadline: float) -> Any:
        """The client, connected.

        Raises:
            ZooKeeperError: it is not, within the time.
        """
        with self._guard:
            if self._closed:
                raise ZooKeeperError("the session is closed", file=path, hint="Open the journal again.")
            if self._client is None:
                self._client = self._made()
            client = self._client
        if not self._connected.wait(deadline - time.monotonic()) or self._closed:
            raise self._away(path)
        return client

    def _made(self) -> Any:
        from kazoo.client import KazooClient
        from kazoo.protocol.states import KazooState
        from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

        address = self._address
        acl = [ACL(_permissions(granted), Id(scheme, who)) for scheme, who, granted in address.acl]
        client = KazooClient(
            hosts=address.hosts,
            timeout=address.session_timeout,
            default_acl=acl or OPEN_ACL_UNSAFE,
            auth_data=list(address.auth) or None,
            # it never gives up: whoever asks does
            connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 1.0},
        )

        def changed(state: str) -> None:
            if state == KazooState.CONNECTED:
                self._connected.set()
            elif not self._closed:
                self._connected.clear()
                _LOG.info("the session with ZooKeeper at %s is %s", address.hosts, state.lower())

        client.add_listener(changed)
        client.start_async()
        return client

    def _away(self, path: str) -> ZooKeeperError:
        problem = f"ZooKeeper at {self._address.hosts} did not answer within {self._patience:g} s"
        return ZooKeeperError(problem, file=path)


def _permissions(granted: str) -> int:
    from kazoo.security import Permissions

    names = {
        "r": Permissions.READ,
        "w": Permissions.WRITE,
        "c": Permissions.CREATE,
        "d": Permissions.DELETE,
        "a": Permissions.ADMIN,
    }
    return sum(names[letter] for letter in set(granted))


def _told(fault: Exception, path: str) -> ZooKeeperError:
    from kazoo import exceptions

    kinds = {
        exceptions.NoNodeError: (NoNodeError, "there is no such znode"),
        exceptions.NodeExistsError: (NodeExistsError, "the znode exists already"),
        exceptions.BadVersionError: (BadVersionError, "the znode was changed by somebody else"),
    }
    for kind, (ours, problem) in kinds.items():
        if isinstance(fault, kind):
            return ours(problem, file=path)
    if isinstance(fault, exceptions.NoAuthError | exceptions.AuthFailedError):
        hint = "Set checkpointer.bookkeeper.zk.auth to what the ACL of the znode grants this to."
        return ZooKeeperError("ZooKeeper refuses this to us", file=path, hint=hint)
    return ZooKeeperError(f"ZooKeeper answers {type(fault).__name__} {fault}".rstrip(), file=path)
