"""Creation of kazoo clients, with behaviour that kazoo lacks.

A client ends permanently when a server refuses its login or its thread fails unexpectedly. It also ends when its
connection breaks during a SASL login, because kazoo cannot distinguish this fault from a refusal. To continue, the
caller must make another client.
"""

from __future__ import annotations

import importlib.util
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, BadVersionError, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KeeperState
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Id, Permissions

from hadoop_common.extras import install_hint
from hadoop_common.tls.material import stores_material
from hadoop_common.tls.reloading import ClientTls
from hadoop_common.tls.settings import ClientStores, TlsConfig
from hadoop_common.zookeeper import errors
from hadoop_common.zookeeper.session import DIGEST_MD5, SaslLogin, ZooKeeperAddress

_LOG = logging.getLogger(__name__)
# commands report problems on the terminal; kazoo's log lines are only for processes with a log
logging.getLogger("kazoo").addHandler(logging.NullHandler())

_BETWEEN_TRIES = 0.05
_MAX_BETWEEN_TRIES = 1.0
_TRIES_PER_SESSION = 10
# number of times that a client tries all servers within a session timeout, and minimum seconds for each server
_ROUNDS_PER_SESSION = 3
_MIN_SECONDS = 0.5
_LETTERS = {
    "r": Permissions.READ,
    "w": Permissions.WRITE,
    "c": Permissions.CREATE,
    "d": Permissions.DELETE,
    "a": Permissions.ADMIN,
}
_KINDS = {
    NoNodeError: (errors.NoNodeError, "there is no such znode"),
    NodeExistsError: (errors.NodeExistsError, "the znode already exists"),
    BadVersionError: (errors.BadVersionError, "another client changed the znode"),
}


def new_client(address: ZooKeeperAddress) -> KazooClient:
    """Make a client without starting it; once started, the client reconnects until it is stopped.

    Raises:
        ZooKeeperError: a package that the login needs is not installed.
        TlsSetupError: a store cannot be used.
    """
    handler = _KazooHandler(address.tls)
    client = KazooClient(
        hosts=address.hosts,
        timeout=address.session_timeout,
        handler=handler,
        default_acl=acl_of(address),
        auth_data=list(address.auth) or None,
        sasl_options=None if address.sasl is None else _sasl_options(address.sasl),
        # the client retries forever; each caller has a separate deadline
        connection_retry={
            "max_tries": -1,
            "delay": _BETWEEN_TRIES,
            "max_delay": min(_MAX_BETWEEN_TRIES, address.session_timeout / _TRIES_PER_SESSION),
        },
    )

    def changed(_: str) -> None:
        handler.refused = was_refused(client)

    client.add_listener(changed)
    handler.most_seconds = max(address.session_timeout / (_ROUNDS_PER_SESSION * len(client.hosts)), _MIN_SECONDS)
    _watch_connecting(client)
    return client


def granted_timeout(client: KazooClient) -> float:
    """Return the session timeout in seconds that the servers granted, which is between 2 and 20 of their ticks."""
    timeout: float = client.handler.session_timeout
    return timeout


def _watch_connecting(client: KazooClient) -> None:
    """Record the granted timeout, which kazoo does not expose, and limit the wait for a silent server so that the
    session is not lost.

    Creating a session may take as long as kazoo allows, because the ensemble must write the session.
    """
    invoke = client._connection._invoke

    def invoked(timeout: float, request: Any, xid: int | None = None) -> Any:
        if isinstance(request, Connect) and request.session_id:
            timeout = min(timeout, client.handler.most_seconds)
        answer = invoke(timeout, request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:
            client.handler.session_timeout = answer[0].time_out / 1000
        return answer

    client._connection._invoke = invoked


def was_refused(client: KazooClient) -> bool:
    """Return whether ZooKeeper rejected our login, which has ended `client`."""
    return bool(client.handler.refused) or client.client_state == KeeperState.AUTH_FAILED


def has_ended(client: KazooClient) -> bool:
    """Return whether `client` will never connect again."""
    return bool(client.handler.ended) or was_refused(client)


def on_end(client: KazooClient, ended: Callable[[], None]) -> None:
    """Call `ended` in a thread of kazoo when `client` ends, because kazoo does not always notify its listeners."""
    client.handler.on_end = ended


def acl_of(address: ZooKeeperAddress) -> list[Any]:
    """Return the ACL of new znodes in kazoo's form."""
    if not address.acl:
        return list(OPEN_ACL_UNSAFE)
    found = []
    for scheme, who, granted in address.acl:
        if scheme == "auth":
            found += CREATOR_ALL_ACL
        else:
            found.append(ACL(sum(_LETTERS[letter] for letter in set(granted)), Id(scheme, who)))
    return found


def unavailable_error(
    client: KazooClient | None, address: ZooKeeperAddress, seconds: float, path: str = "", *, died: str = ""
) -> errors.ZooKeeperError:
    """Return the error for a caller whose wait for a connection of `client` timed out.

    Args:
        died: the fault that ended the previous client, "" if there was none.
    """
    if client is not None and was_refused(client):
        return refused_error(address, path)
    reason = "" if client is None else client.handler.fault
    died = died if client is None else client.handler.died or died
    problem = f"ZooKeeper at {address.hosts} did not answer within {seconds:g} s"
    hint = f"Check that a majority of the servers in {address.named_by} is up."
    if died:
        problem += f" ({died})"
        hint = "The log contains the cause; the connection is retried."
    elif reason:
        problem += f" ({reason})"
        hint = "Check the stores that hadoop.zk.ssl.* names, and that ZooKeeper's port uses TLS."
    return errors.ZooKeeperError(problem, path=path, hint=hint)


@dataclass(frozen=True, slots=True)
class ZnodeAcl:
    """The ACL that refused an operation: its znode, and its entries in kazoo's form.

    `entries` is None if ZooKeeper does not show them, because since ZooKeeper 3.5, reading an ACL requires the right to
    read the znode.
    """

    path: str
    entries: Sequence[Any] | None

    def __str__(self) -> str:
        if self.entries is None:
            return f"the ACL of {self.path} applies, and our login cannot read this ACL"
        return f"{self.path} has the ACL {','.join(map(_entry, self.entries)) or '(nobody)'}"


def refused_error(address: ZooKeeperAddress, path: str, grants: ZnodeAcl | None = None) -> errors.ZooKeeperError:
    """Return the error for an operation that an ACL refuses, or for a rejected login."""
    key = address.auth_key if address.sasl is None else f"{address.auth_key} or checkpointer.zookeeper.sasl.*"
    hint = f"Set {key} to an identity to which the ACL of the znode grants this operation."
    if grants is not None:
        hint = (
            f"Set {key} to an identity in that ACL, or let one of these identities change the ACL: zkCli.sh, setAcl "
            f"{grants.path} ACL."
        )
    shown = [f"{scheme} {credential.partition(':')[0]}" for scheme, credential in address.auth]
    if address.sasl is not None:
        shown.append(f"{address.sasl.mechanism} {address.sasl.user}".strip())
    who = " and ".join(shown) or "an anonymous client"
    problem = f"ZooKeeper refuses this operation and identifies us as {who}"
    return errors.ZooKeeperError(f"{problem}; {grants}" if grants else problem, path=path, hint=hint)


def parent_of(path: str) -> str:
    """Return the parent znode, whose ACL decides who may create and delete its children."""
    return path.rpartition("/")[0] or "/"


def _entry(entry: Any) -> str:
    """Format an ACL entry as in ha.zookeeper.acl, without the digest of a password."""
    who = entry.id.id.partition(":")[0] if entry.id.scheme == "digest" else entry.id.id
    granted = "".join(letter for letter, bit in _LETTERS.items() if entry.perms & bit)
    return f"{entry.id.scheme}:{who}:{granted}"


def missing_chroot_error(address: ZooKeeperAddress, path: str) -> errors.ZooKeeperError:
    """Return the error for a chroot that is missing, which neither kazoo nor Hadoop creates."""
    chroot = address.hosts[address.hosts.find("/") :]
    hint = f"Create it with ZooKeeper's zkCli.sh, or correct {address.named_by}."
    return errors.ZooKeeperError(f"the chroot {chroot} of {address.named_by} does not exist", path=path, hint=hint)


def as_zookeeper_error(fault: Exception, address: ZooKeeperAddress, path: str) -> errors.ZooKeeperError:
    """Convert kazoo's error to one of our errors."""
    for kind, (ours, problem) in _KINDS.items():
        if isinstance(fault, kind):
            return ours(problem, path=path)
    if isinstance(fault, NoAuthError | AuthFailedError):
        return refused_error(address, path)
    problem = f"ZooKeeper answers {type(fault).__name__} {fault}".rstrip()
    return errors.ZooKeeperError(problem, path=path, hint=f"Check the logs of the servers in {address.named_by}.")


def _sasl_options(login: SaslLogin) -> dict[str, Any]:
    for package, extra in (("puresasl", "sasl"), ("gssapi", "kerberos"))[: 1 if login.mechanism == DIGEST_MD5 else 2]:
        if importlib.util.find_spec(package) is None:
            raise errors.ZooKeeperError(
                f"a ZooKeeper login by {login.mechanism} needs the Python package {package}, which is not installed",
                hint=install_hint(extra),
            )
    found: dict[str, Any] = {"mechanism": login.mechanism, "service": login.service}
    if login.mechanism == DIGEST_MD5:
        return found | {"username": login.user, "password": login.password}
    from hadoop_common.zookeeper.gssapi_mechanism import register

    register()
    return found | {"principal": login.user, "keytab": login.keytab}


class _KazooHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and connections; TLS uses our contexts, because kazoo's contexts trust the system's authorities.

    Attributes:
        fault: TLS fault of the latest connection, "" if there was none.
        ended: whether the client's thread has ended; `died`: the unexpected fault that ended the thread, or "".
        refused: whether the login was rejected, which ends the client.
        session_timeout: session timeout that the servers granted, in seconds; infinite before the first connection.
        most_seconds: maximum wait for one server.
    """

    def __init__(self, stores: ClientStores | None) -> None:
        super().__init__()
        self.fault = ""
        self.refused = False
        self.ended = False
        self.died = ""
        self.on_end: Callable[[], None] = lambda: None
        self.session_timeout = float("inf")
        self.most_seconds = float("inf")
        self._tls = None if stores is None else ClientTls(TlsConfig(), lambda: stores_material(stores))

    def spawn(self, func: Callable[..., None], *given: Any, **more: Any) -> Any:
        """Start a thread; kazoo uses this method only for the client's connection thread."""

        def run() -> None:
            try:
                func(*given, **more)
            except Exception as fault:
                _LOG.exception("a ZooKeeper client failed because of a bug")
                self.died = f"{type(fault).__name__}: {fault}"
            finally:
                self.ended = True
                self.on_end()

        return super().spawn(run)

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **others: Any
    ) -> Any:
        reached = self.most_seconds if timeout is None else min(timeout, self.most_seconds)
        if self._tls is None:
            return super().create_connection(address, hostname=hostname, timeout=reached, **others)
        name = hostname or address[0]
        context = self._tls.context(name, ssl.SSLSocket)
        plain = socket.create_connection(address, reached)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # a handshake takes longer than a connection, on both sides
            plain.settimeout(_ROUNDS_PER_SESSION * reached)
            secured = context.wrap_socket(plain, server_hostname=name)
        except OSError as fault:
            plain.close()
            self.fault = f"TLS: {fault}"
            raise
        self.fault = ""
        return secured
