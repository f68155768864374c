"""Accesses ZooKeeper through kazoo, and replaces lost sessions while callers wait.

The client is absent, connected, disconnected or ended. The first call creates it; kazoo's own thread reconnects it
after a lost connection or an expired session. This class replaces an ended client, even while a call waits. It sends a
call only while the client is connected. Otherwise, kazoo would queue the call and could execute it long after the
caller has timed out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.exceptions import NoNodeError as KazooNoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from hadoop_common.zookeeper.client import (
    ZnodeAcl,
    acl_of,
    as_zookeeper_error,
    granted_timeout,
    has_ended,
    missing_chroot_error,
    new_client,
    parent_of,
    refused_error,
    unavailable_error,
    was_refused,
)
from hadoop_common.zookeeper.errors import NodeExistsError, NoNodeError, ZooKeeperError
from hadoop_common.zookeeper.session import ZooKeeperAddress
from hadoop_common.zookeeper.znodes import ANY_VERSION, Change, Create, Delete, Set

_LOG = logging.getLogger(__name__)

_GRACE = 3.0  # seconds that a call waits beyond the session's timeout, as in Hadoop's journal
_RETRY_SECONDS = 0.1
# interval at which a waiting call checks for an ended client
_ENDED_SECONDS = 1.0
_LOST = ConnectionLoss, ConnectionClosedError, SessionExpiredError, OperationTimeoutError


class KazooZNodes:
    """`ZNodes` of an ensemble; the first call connects.

    Args:
        grace: seconds that a call waits beyond the session timeout.
    """

    def __init__(self, address: ZooKeeperAddress, *, grace: float = _GRACE) -> None:
        self._address = address
        self._session_timeout = address.session_timeout
        self._patience = address.session_timeout + grace
        self._guard = threading.Lock()
        self._client: Any = None
        self._connected = threading.Event()
        self._closed = False
        self._refused = False
        self._died = ""

    @property
    def session_timeout(self) -> float:
        """Seconds granted by the servers, or requested before the first connection."""
        return self._session_timeout

    def get(self, path: str) -> tuple[bytes | None, int]:
        data, stat = self._do(path, lambda client: client.get_async(path))
        return data, stat.version

    def set(self, path: str, data: bytes | None, version: int) -> int:
        done: int = self._do(path, lambda client: client.set_async(path, data, version)).version
        return done

    def create(self, path: str, data: bytes | None, *, parents: bool = False, ephemeral: bool = False) -> None:
        try:
            self._do(
                path,
                lambda client: client.create_async(path, data, makepath=parents, ephemeral=ephemeral),
                decides=parent_of(path),
            )
        except NoNodeError as fault:
            if not parents:
                raise
            raise missing_chroot_error(self._address, path) from fault

    def create_sequential(self, prefix: str) -> str:
        def call(client: Any) -> Any:
            return client.create_async(prefix, b"", makepath=True, ephemeral=True, sequence=True)

        made: str = self._do(prefix, call, decides=parent_of(prefix))
        return made

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._do(path, lambda client: client.delete_async(path, version), decides=parent_of(path))

    def delete_tree(self, path: str) -> None:
        with suppress(NoNodeError):
            for name in self.children(path):
                self.delete_tree(f"{path}/{name}")
            self.delete(path)

    def make_parents(self, path: str) -> None:
        """Create an empty znode and all its parents; set our ACL on the znodes that already exist."""
        names = path.strip("/").split("/")
        for depth in range(1, len(names) + 1):
            above = "/" + "/".join(names[:depth])
            try:
                self.create(above, b"", parents=True)
            except NodeExistsError:
                self._set_our_acl(above)

    def _set_our_acl(self, path: str) -> None:
        """Set our ACL on a znode that has a different ACL; the change requires the right to administer the znode."""
        acls, _ = self._do(path, lambda client: client.get_acls_async(path))
        if set(acls) != set(acl_of(self._address)):
            self._do(path, lambda client: client.set_acls_async(path, client.default_acl))

    def children(self, path: str) -> list[str]:
        found: list[str] = self._do(path, lambda client: client.get_children_async(path))
        return found

    def exists(self, path: str) -> bool:
        return self._do(path, lambda client: client.exists_async(path)) is not None

    def created(self, path: str) -> float:
        """Return the creation time of a znode on ZooKeeper's clock, in seconds since the epoch.

        Raises:
            NoNodeError: the znode does not exist.
        """
        at: float = self._do(path, lambda client: client.get_async(path))[1].created
        return at

    def sync(self, path: str) -> None:
        """Wait until our server has the leader's state of `path`; a server that was disconnected may have an older
        state.
        """
        self._do(path, lambda client: client.sync_async(path))

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

        results = self._do(changes[0].path, call)
        for change, result in zip(changes, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise as_zookeeper_error(result, self._address, change.path)

    def owned(self, path: str) -> bool:
        """Return whether an ephemeral znode exists and belongs to the current session."""
        session: list[int] = []

        def call(client: Any) -> Any:
            if client.client_id is None:
                raise ConnectionLoss
            session[:] = client.client_id[:1]
            return client.exists_async(path)

        stat = self._do(path, call)
        return stat is not None and stat.ephemeralOwner == session[0]

    def close(self) -> None:
        with self._guard:
            client, self._client, self._closed = self._client, None, True
        self._connected.set()
        if client is not None:
            _end(client)

    def _do(self, path: str, call: Callable[[Any], Any], *, decides: str = "") -> Any:
        """Wait for the response to a call; the ACL of the znode `decides`, or of `path` if `decides` is "", controls
        the call.
        """
        deadline = time.monotonic() + self._patience
        while True:
            client = self._reached(path, deadline)
            try:
                found = call(client).get(timeout=max(deadline - time.monotonic(), _RETRY_SECONDS))
                self._session_timeout = granted_timeout(client)
                self._refused, self._died = False, ""
                return found
            except (*_LOST, AuthFailedError) as fault:
                if time.monotonic() + _RETRY_SECONDS > deadline:
                    raise self._away(path) from fault
                # kazoo notifies its listeners slightly later
                time.sleep(_RETRY_SECONDS)
            except KazooTimeoutError as fault:
                raise self._away(path) from fault
            except NoAuthError as fault:
                raise refused_error(self._address, path, _acl_of_znode(client, decides or path)) from fault
            except KazooException as fault:
                raise as_zookeeper_error(fault, self._address, path) from fault

    def _reached(self, path: str, deadline: float) -> Any:
        """Return the connected client.

        Raises:
            ZooKeeperError: no client connects before the deadline.
        """
        while True:
            client = self._present(path)
            if self._connected.wait(min(deadline - time.monotonic(), _ENDED_SECONDS)):
                break
            if time.monotonic() > deadline:
                raise self._away(path)
        if self._closed:
            raise self._away(path)
        return client

    def _present(self, path: str) -> Any:
        """Return the client; create it if there is none, and replace it if it has ended."""
        with self._guard:
            if self._closed:
                raise ZooKeeperError("the session is closed", path=path, hint="Open its owner again.")
            if self._client is not None and has_ended(self._client):
                self._refused = was_refused(self._client)
                self._died = self._client.handler.died
                _end(self._client)
                self._client = None
            if self._client is None:
                self._client = self._made()
            return self._client

    def _made(self) -> Any:
        self._connected.clear()
        client = new_client(self._address)

        def changed(state: str) -> None:
            if state == KazooState.CONNECTED or was_refused(client):
                # callers that wait for a refused client must wake up to create a new one
                self._connected.set()
            elif not self._closed:
                self._connected.clear()
                _LOG.info("the session with ZooKeeper at %s is %s", self._address.hosts, state.lower())

        client.add_listener(changed)
        client.start_async()
        return client

    def _away(self, path: str) -> ZooKeeperError:
        if self._refused:
            return refused_error(self._address, path)
        return unavailable_error(self._client, self._address, self._patience, path, died=self._died)


def _acl_of_znode(client: Any, path: str) -> ZnodeAcl:
    """Return the ACL of the znode, or of its nearest existing parent."""
    while True:
        try:
            return ZnodeAcl(path, client.get_acls_async(path).get(timeout=_GRACE)[0])
        except KazooNoNodeError:
            if path == "/":
                return ZnodeAcl(path, None)
            path = parent_of(path)
        except (KazooException, KazooTimeoutError):
            return ZnodeAcl(path, None)


def _end(client: Any) -> None:
    client.stop()
    client.close()
