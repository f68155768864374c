"""ClientProtocol: calls of `hdfs dfsadmin`."""

from __future__ import annotations

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from namenode_stub.administration import Administration, RollingUpgrade
from namenode_stub.names.open_files import OpenFiles
from namenode_stub.names.transactions import Transactions
from namenode_stub.refusals import IllegalArgumentError
from namenode_stub.rpc.handlers import EMPTY, client_path, result
from namenode_stub.rpc.service_switch import ServiceSwitch

# SafeModeActionProto
_LEAVE, _ENTER, _GET, _FORCE_EXIT = 1, 2, 3, 4
# OpenFilesTypeProto
_ALL_OPEN_FILES, _BLOCKING_DECOMMISSION = 1, 2
# RollingUpgradeActionProto
_QUERY, _START, _FINALIZE = 1, 2, 3


class AdminCalls:
    """Handlers for superusers.

    Args:
        pool: block pool id.
        hadoop3: whether to serve calls introduced with Hadoop 3.
    """

    def __init__(
        self,
        administration: Administration,
        transactions: Transactions,
        switch: ServiceSwitch,
        pool: str,
        *,
        hadoop3: bool,
    ) -> None:
        self._administration = administration
        self._transactions = transactions
        self._switch = switch
        self._pool = pool
        self._hadoop3 = hadoop3
        self._open_files = OpenFiles(transactions)

    def methods(self) -> dict[str, Handler]:
        return {
            "setSafeMode": self.set_safe_mode,
            "saveNamespace": self.save_namespace,
            "rollEdits": self.roll_edits,
            "restoreFailedStorage": self.restore_failed_storage,
            "finalizeUpgrade": self.finalize_upgrade,
            "upgradeStatus": self.upgrade_status,
            "rollingUpgrade": self.rolling_upgrade,
            "getCurrentEditLogTxid": self.current_txid,
            "metaSave": self.meta_save,
            "refreshNodes": self.refresh_nodes,
            **({"listOpenFiles": self.open_files} if self._hadoop3 else {}),
        }

    def set_safe_mode(self, request: pb.SetSafeModeRequestProto, context: CallContext) -> pb.ResultProto:
        if request.action == _GET:
            return result(self._administration.in_safe_mode)
        self._switch.check_superuser(context)
        if request.action not in (_LEAVE, _ENTER, _FORCE_EXIT):
            raise IllegalArgumentError(f"there is no safe mode action {request.action}")
        return result(self._administration.set_safe_mode(on=request.action == _ENTER))

    def save_namespace(
        self, request: pb.SaveNamespaceRequestProto, context: CallContext
    ) -> pb.SaveNamespaceResponseProto:
        self._switch.check_superuser(context)
        saved = self._administration.save_namespace(request.timeWindow, request.txGap)
        return pb.SaveNamespaceResponseProto(saved=saved)

    def roll_edits(self, _: pb.EmptyProto, context: CallContext) -> pb.RollEditsResponseProto:
        self._switch.check_superuser(context)
        return pb.RollEditsResponseProto(newSegmentTxId=self._administration.roll())

    def restore_failed_storage(self, _: pb.RestoreFailedStorageRequestProto, context: CallContext) -> pb.ResultProto:
        """Return False: a failed directory is not used until the next start."""
        self._switch.check_superuser(context)
        return result(False)

    def finalize_upgrade(self, _: pb.EmptyProto, context: CallContext) -> pb.EmptyProto:
        """Do nothing: the stub does not start from storage with an unfinalized upgrade."""
        self._switch.check_superuser(context)
        return EMPTY

    def upgrade_status(self, _: pb.EmptyProto, __: CallContext) -> pb.UpgradeStatusResponseProto:
        return pb.UpgradeStatusResponseProto(upgradeFinalized=True)

    def current_txid(self, _: pb.EmptyProto, context: CallContext) -> pb.GetCurrentEditLogTxidResponseProto:
        self._switch.check_superuser(context)
        return pb.GetCurrentEditLogTxidResponseProto(txid=self._transactions.log.durable_txid)

    def meta_save(self, request: pb.MetaSaveRequestProto, context: CallContext) -> pb.EmptyProto:
        self._switch.check_superuser(context)
        self._administration.meta_save(request.filename)
        return EMPTY

    def refresh_nodes(self, _: pb.EmptyProto, context: CallContext) -> pb.EmptyProto:
        """Do nothing: there are no DataNodes."""
        self._switch.check_superuser(context)
        return EMPTY

    def open_files(self, request: pb.ListOpenFilesRequestProto, context: CallContext) -> pb.ListOpenFilesResponseProto:
        """Return open files; none of them blocks decommissioning. Without a type, all are returned, as in 3.0."""
        self._switch.check_superuser(context)
        types = list(request.types) or [_ALL_OPEN_FILES]
        if not set(types) <= {_ALL_OPEN_FILES, _BLOCKING_DECOMMISSION}:
            raise IllegalArgumentError(f"there are no open files of the types {types}")
        answer = pb.ListOpenFilesResponseProto(hasMore=False, types=types)
        if _ALL_OPEN_FILES in types:
            found, answer.hasMore = self._open_files.after(request.id, client_path(request.path))
            for file in found:
                answer.entries.add(id=file.id, path=file.path, clientName=file.holder, clientMachine=file.machine)
        return answer

    def rolling_upgrade(
        self, request: pb.RollingUpgradeRequestProto, context: CallContext
    ) -> pb.RollingUpgradeResponseProto:
        self._switch.check_superuser(context)
        actions = {
            _QUERY: self._administration.query_rolling_upgrade,
            _START: self._administration.start_rolling_upgrade,
            _FINALIZE: self._administration.finalize_rolling_upgrade,
        }
        if request.action not in actions:
            raise IllegalArgumentError(f"there is no rolling upgrade action {request.action}")
        found = actions[request.action]()
        return pb.RollingUpgradeResponseProto(rollingUpgradeInfo=None if found is None else self._message(found))

    def _message(self, upgrade: RollingUpgrade) -> pb.RollingUpgradeInfoProto:
        return pb.RollingUpgradeInfoProto(
            status=pb.RollingUpgradeStatusProto(blockPoolId=self._pool, finalized=upgrade.finalized_at > 0),
            startTime=upgrade.started_at,
            finalizeTime=upgrade.finalized_at,
            createdRollbackImages=upgrade.has_rollback_image,
        )
