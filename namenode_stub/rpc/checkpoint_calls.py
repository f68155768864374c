"""NamenodeProtocol: the stub as active NameNode of checkpointers and BackupNodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from hadoop_common.hadoop_releases import Release
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import IncorrectVersionError, RemoteError, UnregisteredNodeError
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.namenode_protocol import (
    CheckpointCommand,
    CheckpointSignature,
    EditLogManifest,
    NamenodeRegistration,
    NamenodeRole,
    NamespaceInfo,
    RemoteEditLog,
)
from hadoop_rpc.service import CallContext
from journal.segment_file import EditLogSegment
from namenode_stub.administration import Administration
from namenode_stub.backup_streams import BackupStreams
from namenode_stub.image_store import StubImages, manifest
from namenode_stub.names.transactions import Transactions
from namenode_stub.node_parts import Addresses
from namenode_stub.rpc.service_switch import ServiceSwitch


class NodeQueries:
    """`NamenodeQuestions` of the stub in one state.

    Args:
        info: content of the storage's VERSION file.
        release: reported release.
        last_txid: returns the newest transaction that was written, or that a standby applied; raises an error if the
            NameNode has failed.
    """

    def __init__(
        self,
        info: StorageInfo,
        release: Release,
        state: HAState,
        images: StubImages,
        switch: ServiceSwitch,
        *,
        last_txid: Callable[[], int],
    ) -> None:
        self._info = info
        self._release = release
        self._state = state
        self._images = images
        self._switch = switch
        self._last_txid = last_txid

    def transaction_id(self, caller: CallContext) -> int:
        self._switch.check_superuser(caller)
        return self._last_txid()

    def most_recent_checkpoint_txid(self, caller: CallContext) -> int:
        self._switch.check_superuser(caller)
        return self._images.checkpoint_txid

    def version_request(self, caller: CallContext) -> NamespaceInfo:
        self._switch.check_superuser(caller)
        release = self._release
        # Hadoop releases before 3.0 do not report their HA state.
        state = "" if release.version.startswith("2.") else self._state.name
        return NamespaceInfo(self._info, release.revision, release.version, state)


_LOG = logging.getLogger(__name__)
_FATAL = 1  # NamenodeProtocol.FATAL


class CheckpointCalls(NodeQueries):
    """`NamenodeProtocol` of the active stub.

    Args:
        info: content of the storage's VERSION file.
        release: reported release.
        segments: lists the segments in all edits directories.
        addresses: returns the addresses of this node's servers, once they listen.
    """

    def __init__(
        self,
        info: StorageInfo,
        release: Release,
        transactions: Transactions,
        administration: Administration,
        images: StubImages,
        backups: BackupStreams,
        switch: ServiceSwitch,
        *,
        segments: Callable[[], Iterable[EditLogSegment]],
        addresses: Callable[[], Addresses],
    ) -> None:
        super().__init__(info, release, HAState.ACTIVE, images, switch, last_txid=self._written)
        self._transactions = transactions
        self._administration = administration
        self._backups = backups
        self._segments = segments
        self._addresses = addresses

    # ---- queries ---------------------------------------------------------------------------------------------------

    def _written(self) -> int:
        self._transactions.fail_stop.check()
        return self._transactions.log.last_txid

    def edit_log_manifest(self, since: int, caller: CallContext) -> EditLogManifest:
        self._switch.check_superuser(caller)
        self._transactions.fail_stop.check()
        logs = tuple(RemoteEditLog(first, last) for first, last in manifest(self._segments(), since))
        committed = None if self._release.version.startswith("2.") else self._committed(logs)
        return EditLogManifest(logs, committed)

    @staticmethod
    def _committed(logs: tuple[RemoteEditLog, ...]) -> int | None:
        return logs[-1].last if logs else None

    def is_upgrade_finalized(self, caller: CallContext) -> bool:
        """Return True, because the stub does not start from storage with a `previous` directory."""
        self._switch.check_superuser(caller)
        return True

    def is_rolling_upgrade(self, caller: CallContext) -> bool:
        self._switch.check_superuser(caller)
        return self._administration.is_rolling_upgrade

    # ---- checkpoints -------------------------------------------------------------------------------------------

    def roll_edit_log(self, caller: CallContext) -> CheckpointSignature:
        self._switch.check_superuser(caller)
        return self._signature(self._administration.roll())

    def _signature(self, first: int) -> CheckpointSignature:
        return CheckpointSignature(self._info, self._images.checkpoint_txid, first)

    def register(self, registration: NamenodeRegistration, caller: CallContext) -> NamenodeRegistration:
        """Register a node; a BackupNode receives the edits from the next segment on."""
        self._switch.check_superuser(caller)
        reported, expected = registration.storage_info.layout_version, self._software_layout
        if reported != expected:
            raise IncorrectVersionError(
                f"Unexpected version of data node. Reported: {reported}. Expecting = {expected}."
            )
        if registration.storage_info.namespace_id != self._info.namespace_id:
            raise RemoteError(
                f"Incompatible namespaceIDs: Namenode namespaceID = {self._info.namespace_id}; "
                f"{registration.role.name} node namespaceID = {registration.storage_info.namespace_id}"
            )
        if registration.role is NamenodeRole.BACKUP:
            try:
                self._backups.register(registration)
            except ValueError as fault:
                raise RemoteError(f"the address {registration.rpc_address!r} of the backup node {fault}") from fault
        addresses = self._addresses()
        return NamenodeRegistration(addresses.rpc, addresses.http, self._info, NamenodeRole.NAMENODE)

    @property
    def _software_layout(self) -> int:
        """The only layout version that a registering node may report (NameNodeRpcServer.verifyLayoutVersion)."""
        return self._info.layout_version

    def start_checkpoint(self, registration: NamenodeRegistration, caller: CallContext) -> CheckpointCommand | None:
        self._switch.check_superuser(caller)
        self._check_registered(registration)
        other = registration.storage_info
        newer = other.layout_version < self._info.layout_version or (
            other.layout_version == self._info.layout_version and other.c_time > self._info.c_time
        )
        if registration.role is NamenodeRole.NAMENODE or newer:
            _LOG.error("refused a checkpoint of %s: role %s, %s", registration.rpc_address, registration.role, other)
            return None
        return CheckpointCommand(self._signature(self._administration.roll()), need_to_return_image=True)

    def end_checkpoint(
        self, registration: NamenodeRegistration, signature: CheckpointSignature, caller: CallContext
    ) -> None:
        self._switch.check_superuser(caller)
        self._check_registered(registration)
        if signature.storage_info != self._info:
            raise RemoteError(f"Inconsistent checkpoint fields: {signature.storage_info}, expected {self._info}")

    def error_report(self, registration: NamenodeRegistration, code: int, text: str, caller: CallContext) -> None:
        self._switch.check_superuser(caller)
        self._check_registered(registration)
        _LOG.warning("error report from %s: %d, %s", registration.rpc_address, code, text)
        if code == _FATAL:
            self._backups.release(registration)

    def _check_registered(self, registration: NamenodeRegistration) -> None:
        """Check that the node belongs to this file system (NameNodeRpcServer.verifyRequest)."""
        other, own = registration.storage_info, self._info
        if (other.namespace_id, other.cluster_id, other.c_time) != (own.namespace_id, own.cluster_id, own.c_time):
            raise UnregisteredNodeError(f"Unregistered server: {registration.rpc_address} has {other}, expected {own}")
