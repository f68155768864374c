"""The one place that makes kazoo's clients, and what there is to know of them beyond kazoo.

A client whose login was refused ends for good, as does one whose connection broke amid a login by SASL, which kazoo
cannot tell from it, and one whose thread met a fault that kazoo knows nothing of: whoever wants to go on makes another
one.
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

from hadoop_common.tls.client_stores import ClientStores
from hadoop_common.tls.material import stores_material
from hadoop_common.tls.process import ClientTls
from hadoop_common.tls.settings import TlsConfig
from hadoop_common.zookeeper import errors
from hadoop_common.zookeeper.address import DIGEST_MD5, SaslLogin, ZooKeeperAddress

_LOG = logging.getLogger(__name__)
# A command says in its own words what does not work; the lines of kazoo are for a process that has a log.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

_BETWEEN_TRIES = 0.05
_MOST_BETWEEN_TRIES = 1.0
_TRIES_A_SESSION = 10
# within a session's timeout all servers can be waited for so many times, but each for no less than this
_ROUNDS_A_SESSION = 3
_LEAST_SECONDS = 0.5
_LETTERS = {
    "r": Permissions.READ,
    "w": Permissions.WRITE,
    "c": Permissions.CREATE,
    "d": Permissions.DELETE,
    "a": Permissions.ADMIN,
}
_KINDS = {
    NoNodeError: (errors.NoNodeError, "there is no such znode"),
    NodeExistsError: (errors.NodeExistsError, "the znode exists already"),
    BadVersionError: (errors.BadVersionError, "the znode was changed by somebody else"),
}


def new_client(address: ZooKeeperAddress) -> KazooClient:
    """A client that is not started; once it is, it connects until it is stopped.

    Raises:
        ZooKeeperError: a package that the login needs is not here.
        TlsSetupError: a store cannot be used.
    """
    handler = _Handler(address.tls)
    client = KazooClient(
        hosts=address.hosts,
        timeout=address.session_timeout,
        handler=handler,
        default_acl=acl_of(address),
        auth_data=list(address.auth) or None,
        sasl_options=None if address.sasl is None else _sasl_options(address.sasl),
        # it never gives up: whoever asks does
        connection_retry={
            "max_tries": -1,
            "delay": _BETWEEN_TRIES,
            "max_delay": min(_MOST_BETWEEN_TRIES, address.session_timeout / _TRIES_A_SESSION),
        },
    )

    def changed(_: str) -> None:
        handler.refused = was_refused(client)

    client.add_listener(changed)
    handler.most_seconds = max(address.session_timeout / (_ROUNDS_A_SESSION * len(client.hosts)), _LEAST_SECONDS)
    _watch_connecting(client)
    return client


def given_timeout(client: KazooClient) -> float:
    """Of the session, seconds, as the servers gave it, who clip what they are asked for to 2 to 20 of their ticks."""
    timeout: float = client.handler.session_timeout
    return timeout


def _watch_connecting(client: KazooClient) -> None:
    """Keep the timeout that kazoo tells nobody, and let no server that is silent cost us the session that we have.

    A new session may take as long as kazoo lets it: it is a write for all servers.
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
    """Whether ZooKeeper did not take our login, which has ended `client`."""
    return bool(client.handler.refused) or client.client_state == KeeperState.AUTH_FAILED


def has_ended(client: KazooClient) -> bool:
    """Whether `client` never connects again."""
    return bool(client.handler.ended) or was_refused(client)


def on_end(client: KazooClient, ended: Callable[[], None]) -> None:
    """Have `ended` called, in a thread of kazoo's, when `client` never connects again; its listeners may not hear."""
    client.handler.on_end = ended


def acl_of(address: ZooKeeperAddress) -> list[Any]:
    """Of znodes that are made, as kazoo has it."""
    if not address.acl:
        return list(OPEN_ACL_UNSAFE)
    found = []
    for scheme, who, granted in address.acl:
        if scheme == "auth":
            found += CREATOR_ALL_ACL
        else:
            found.append(ACL(sum(_LETTERS[letter] for letter in set(granted)), Id(scheme, who)))
    return found


def why_away(
    client: KazooClient | None, address: ZooKeeperAddress, seconds: float, path: str = ""
) -> errors.ZooKeeperError:
    """The error of whoever has waited for a connection of `client` for so long."""
    if client is not None and was_refused(client):
        return refused(address, path)
    said = "" if client is None else client.handler.fault
    died = "" if client is None else client.handler.died
    problem = f"ZooKeeper at {address.hosts} did not answer within {seconds:g} s"
    hint = f"Check that a majority of the servers in {address.named_by} is up."
    if died:
        problem += f" ({died})"
        hint = "The log has the cause; it is tried again."
    elif said:
        problem += f" ({said})"
        hint = "Check the stores that hadoop.zk.ssl.* names, and that its port speaks TLS."
    return errors.ZooKeeperError(problem, path=path, hint=hint)


@dataclass(frozen=True, slots=True)
class Grants:
    """The ACL that something was refused by: whose it is, and its entries as kazoo has them.

    `entries` is None where ZooKeeper does not show them: since 3.5 only those see an ACL whom it lets read the znode.
    """

    path: str
    entries: Sequence[Any] | None

    def __str__(self) -> str:
        if self.entries is None:
            return f"the ACL of {self.path} decides, which is not shown to us"
        return f"{self.path} has the ACL {','.join(map(_entry, self.entries)) or '(nobody)'}"


def refused(address: ZooKeeperAddress, path: str, grants: Grants | None = None) -> errors.ZooKeeperError:
    """The error where we are not whom ZooKeeper lets do this, or where it does not take our login at all."""
    key = address.auth_key if address.sasl is None else f"{address.auth_key} or checkpointer.zookeeper.sasl.*"
    hint = f"Set {key} to what the ACL of the znode grants this to."
    if grants is not None:
        hint = f"Set {key} to one that it names, or have one of those change it: zkCli.sh, setAcl {grants.path} ACL."
    shown = [f"{scheme} {credential.partition(':')[0]}" for scheme, credential in address.auth]
    if address.sasl is not None:
        shown.append(f"{address.sasl.mechanism} {address.sasl.user}".strip())
    who = " and ".join(shown) or "nobody in particular"
    problem = f"ZooKeeper refuses this to us, whom it knows as {who}"
    return errors.ZooKeeperError(f"{problem}; {grants}" if grants else problem, path=path, hint=hint)


def parent_of(path: str) -> str:
    """The znode above; its ACL says who may make and remove those below it."""
    return path.rpartition("/")[0] or "/"


def _entry(entry: Any) -> str:
    """As ha.zookeeper.acl has it, but for the digest of a password."""
    who = entry.id.id.partition(":")[0] if entry.id.scheme == "digest" else entry.id.id
    granted = "".join(letter for letter, bit in _LETTERS.items() if entry.perms & bit)
    return f"{entry.id.scheme}:{who}:{granted}"


def no_chroot(address: ZooKeeperAddress, path: str) -> errors.ZooKeeperError:
    """The error where a znode cannot be made although its parents are: kazoo makes no chroot, nor does Hadoop."""
    chroot = address.hosts[address.hosts.find("/") :]
    hint = f"Create it by ZooKeeper's zkCli.sh, or correct {address.named_by}."
    return errors.ZooKeeperError(f"the chroot {chroot} of {address.named_by} is not there", path=path, hint=hint)


def told(fault: Exception, address: ZooKeeperAddress, path: str) -> errors.ZooKeeperError:
    """Our error for one of kazoo's."""
    for kind, (ours, problem) in _KINDS.items():
        if isinstance(fault, kind):
            return ours(problem, path=path)
    if isinstance(fault, NoAuthError | AuthFailedError):
        return refused(address, path)
    problem = f"ZooKeeper answers {type(fault).__name__} {fault}".rstrip()
    return errors.ZooKeeperError(problem, path=path, hint=f"Look into the logs of the servers in {address.named_by}.")


def _sasl_options(login: SaslLogin) -> dict[str, Any]:
    for package, extra in (("puresasl", "sasl"), ("gssapi", "kerberos"))[: 1 if login.mechanism == DIGEST_MD5 else 2]:
        if importlib.util.find_spec(package) is None:
            raise errors.ZooKeeperError(
                f"the login at ZooKeeper by {login.mechanism} needs the Python package {package}, which is not here",
                hint=f"Install it: pip install 'hdfs-checkpointer[{extra}]'.",
            )
    found: dict[str, Any] = {"mechanism": login.mechanism, "service": login.service}
    if login.mechanism == DIGEST_MD5:
        return found | {"username": login.user, "password": login.password}
    from hadoop_common.zookeeper.gssapi_mechanism import register

    register()
    return found | {"principal": login.user, "keytab": login.keytab}


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads; over TLS the connections are made by our contexts, as kazoo's own trust the system always.

    Attributes:
        fault: of TLS with the last connection, "" where there was none.
        ended: whether its thread has; `died`: by which fault, "" where by none.
        refused: whether the login was, which has ended the client.
        session_timeout: as the servers gave it, seconds; infinite before they did.
        most_seconds: for which one server is waited for.
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
        """Begin a thread: the one that keeps the connection, for there is no other."""

        def run() -> None:
            try:
                func(*given, **more)
            except Exception as fault:
                _LOG.exception("a client of ZooKeeper ends by a fault")
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
            # a handshake is work for both sides
            plain.settimeout(_ROUNDS_A_SESSION * reached)
            secured = context.wrap_socket(plain, server_hostname=name)
        except OSError as fault:
            plain.close()
            self.fault = f"TLS: {fault}"
            raise
        self.fault = ""
        return secured
