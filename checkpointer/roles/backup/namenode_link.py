"""A backup node's calls to its NameNode: queries, registration and reports (BackupNode, NameNodeRpcServer)."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from checkpointer.roles.watched_call import watched
from engine.errors import CheckpointError
from hadoop_common.addresses import WILDCARDS, host_port, is_local
from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import IncorrectVersionError, RemoteError, RpcError
from hadoop_rpc.namenode_protocol import (
    CheckpointCommand,
    CheckpointSignature,
    EditLogManifest,
    NamenodeClient,
    NamenodeRegistration,
    NamenodeRole,
    NamespaceInfo,
    NodeErrorCode,
)
from image_format.layout import check_supported
from journal.binary_codec import check_layout

_LOG = logging.getLogger(__name__)
_REPORT_TIMEOUT = 5.0
_PROBE_TIMEOUT = 20.0
_NULL = "java.lang.NullPointerException"

T = TypeVar("T")


class NoBackupNodesError(CheckpointError):
    """Failure to register a backup node, even Hadoop's, at a NameNode without an HTTP address."""


@dataclass(frozen=True, slots=True)
class OwnAddresses:
    """Host and port of our servers; an address that the NameNode can reach replaces a wildcard host."""

    rpc: tuple[str, int]
    http: tuple[str, int]


class NamenodeLink:
    """Client of the one NameNode to which this node is subordinate; a context manager that closes the connection.

    Args:
        host, port: address of the NameNode's RPC server.
        user: the user name for the NameNode, an HDFS superuser.
        timeout: seconds to wait for each response.
        cancelled: when it returns True, waiting calls raise CheckpointCancelledError.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        user: str,
        timeout: float,
        addresses: OwnAddresses,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._host, self._port, self._user = host, port, user
        self.addresses = addresses
        self._connect(timeout)
        self._cancelled = cancelled
        self.registered = False

    def _connect(self, timeout: float) -> None:
        self._timeout = timeout
        self._client = NamenodeClient(self._host, self._port, user=self._user, timeout=timeout)
        # A probe has a short limit and no retry, because the next probe follows soon.
        limit = min(_PROBE_TIMEOUT, timeout)
        self._probe = NamenodeClient(
            self._host, self._port, user=self._user, timeout=limit, connect_timeout=limit, retry=NO_RETRY
        )

    def use_timeout(self, timeout: float) -> None:
        """Apply a new timeout; a changed timeout aborts waiting calls."""
        if timeout != self._timeout:
            self.close()
            self._connect(timeout)

    @property
    def address(self) -> str:
        """`host:port` of the NameNode."""
        return self._client.address

    def is_on_this_host(self) -> bool:
        """Return whether the NameNode's address belongs to this host."""
        return is_local(self._host)

    def close(self) -> None:
        """Close the connections, which ends waiting calls."""
        for client in (self._probe, self._client):
            # `close` waits for the end of a connection attempt.
            threading.Thread(target=client.close, name=f"close-{client.address}", daemon=True).start()

    def _ask(self, call: Callable[[NamenodeClient], T]) -> T:
        return watched(lambda: call(self._client), self._cancelled, self.address)

    # ---- queries -------------------------------------------------------------------------------------------

    def namespace(self) -> NamespaceInfo:
        """Return the active NameNode's namespace after a check that replay supports its layout.

        Raises:
            RpcError: the NameNode cannot be queried.
            UnsupportedLayoutError: the NameNode's layout is not supported.
            CheckpointError: the NameNode is not active.
        """
        found = self._ask(NamenodeClient.version_request)
        check_supported(found.storage_info.layout_version, self.address)
        check_layout(found.storage_info.layout_version)
        if found.state not in ("", "ACTIVE"):
            raise CheckpointError(
                f"the NameNode at {self.address} is in state {found.state}",
                hint="A backup node requires a NameNode without HA; with HA, use the standby role.",
            )
        return found

    def transaction_id(self) -> int:
        """Return the newest transaction that the NameNode has written."""
        return watched(self._probe.transaction_id, self._cancelled, self.address)

    def newest_image_txid(self) -> int:
        return self._ask(NamenodeClient.most_recent_checkpoint_txid)

    def roll(self) -> CheckpointSignature:
        return self._ask(NamenodeClient.roll_edit_log)

    def manifest(self, since: int) -> EditLogManifest:
        return self._ask(lambda client: client.edit_log_manifest(since))

    # ---- reports -------------------------------------------------------------------------------------------

    def register(self, ours: StorageInfo) -> None:
        """Register as the NameNode's backup node; repeated calls are allowed. The stream begins with the NameNode's
        next segment.

        Raises:
            RpcError: the NameNode cannot be reached or refuses the registration.
            StorageError: the NameNode and our storage have different namespaces.
            NoBackupNodesError: the NameNode cannot register backup nodes.
            CheckpointError: the NameNode is not active.
        """
        theirs = self.namespace().storage_info
        check_same_namespace(theirs, ours, self.address)
        try:
            answer = self._register(theirs)
        except RemoteError as error:
            if error.class_name != _NULL:
                raise
            raise NoBackupNodesError(
                f"the NameNode at {self.address} cannot register backup nodes ({error.message})",
                hint="A NameNode with dfs.http.policy=HTTPS_ONLY cannot register backup nodes. Checkpoints continue "
                "without a registration; use the secondary role.",
            ) from error
        if answer.role is not NamenodeRole.NAMENODE:
            raise CheckpointError(
                f"{self.address} is a node of role {answer.role.name}, not a NameNode",
                hint="Check dfs.namenode.rpc-address.",
            )
        self.registered = True
        _LOG.info("registered with the NameNode at %s as a backup node", self.address)

    def _register(self, theirs: StorageInfo) -> NamenodeRegistration:
        """Register with the layout version of the NameNode's software.

        During a rolling upgrade, Hadoop releases up to 3.3 report this layout version. Later releases report the layout
        version of their storage, but their refusal contains the expected version.
        """
        try:
            return self._ask(lambda client: client.register(self._registration(theirs)))
        except IncorrectVersionError as error:
            if error.expected is None:
                raise
            expected = replace(theirs, layout_version=error.expected)
        return self._ask(lambda client: client.register(self._registration(expected)))

    def start_checkpoint(self, ours: StorageInfo) -> CheckpointCommand | None:
        """Request a roll for a checkpoint; return None if the NameNode requires this node to stop."""
        return self._ask(lambda client: client.start_checkpoint(self._registration(ours)))

    def end_checkpoint(self, ours: StorageInfo, signature: CheckpointSignature) -> None:
        self._ask(lambda client: client.end_checkpoint(self._registration(ours), signature))

    def withdraw(self, ours: StorageInfo, text: str) -> None:
        """Request that the NameNode end its stream to us; ignore an unreachable NameNode."""
        if not self.registered:
            return
        self.registered = False
        # Use a separate connection, because other calls may be waiting for a hanging NameNode.
        with NamenodeClient(
            self._host,
            self._port,
            user=self._user,
            timeout=_REPORT_TIMEOUT,
            connect_timeout=_REPORT_TIMEOUT,
            retry=NO_RETRY,
        ) as client:
            try:
                client.error_report(self._registration(ours), NodeErrorCode.FATAL, text)
            except (RpcError, CheckpointError) as error:
                _LOG.warning('could not send the NameNode the message "%s": %s', text, error)

    def _registration(self, info: StorageInfo) -> NamenodeRegistration:
        rpc, http = self.addresses.rpc, self.addresses.http
        return NamenodeRegistration(self._reachable(*rpc), self._reachable(*http), info, NamenodeRole.BACKUP)

    def _reachable(self, host: str, port: int) -> str:
        return host_port(self._local_host() if host in WILDCARDS else host, port)

    def _local_host(self) -> str:
        """Return the address of this machine on the route to the NameNode, without sending a packet."""
        try:
            family, kind, _, _, target = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(target)
                return str(probe.getsockname()[0])
        except OSError as fault:
            raise CheckpointError(
                f"cannot reach the NameNode at {self.address}: {fault}",
                hint="Check the NameNode's host name, or set dfs.namenode.backup.address to an address that the "
                "NameNode can reach.",
            ) from fault


def check_same_namespace(theirs: StorageInfo, ours: StorageInfo, where: str) -> None:
    """Refuse a NameNode of another namespace. Layout and cTime may differ, for example after an upgrade.

    Raises:
        StorageError: the NameNode has another namespace.
    """
    for name in ("namespace_id", "cluster_id", "blockpool_id"):
        left, right = getattr(theirs, name), getattr(ours, name)
        if left != right:
            raise StorageError(
                f"the NameNode at {where} belongs to another namespace: its {name} is {left}, ours is {right}",
                hint="Check dfs.namenode.name.dir and fs.defaultFS. To use this NameNode, stop the daemon, and move "
                "the contents of this node's directories away; they may be the last copy of the other namespace. Leave "
                "an empty folder `current` there, and start the daemon.",
            )
