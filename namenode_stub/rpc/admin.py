"""ClientProtocol: calls of `hdfs dfsadmin`."""

from __future__ import annotations

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from namenode_stub.administration import Administration, RollingUpgrade
from namenode_stub.names.open_files import open_files_after
from namenode_stub.names.paths import client_path
from namenode_stub.names.transactions import Transactions
from namenode_stub.refusals import IllegalArgumentError
from namenode_stub.rpc.handlers import EMPTY, change, result
from namenode_stub.rpc.service_switch import ServiceSwitch

# SafeModeActionProto
_LEAVE, _ENTER, _GET, _FORCE_EXIT = 1, 2, 3, 4
# OpenFilesTypeProto
_ALL_OPEN_FILES, _BLOCKING_DECOMMISSION = 1, 2
# RollingUpgradeActionProto
_QUERY, _START, _FINALIZE = 1, 2, 3


def admin_calls(
    administration: Administration, transactions: Transactions, switch: ServiceSwitch, pool: str
) -> dict[str, Handler]:
    """Return the handlers by method; `pool` is the id of the block pool."""

    def set_safe_mode(request: pb.SetSafeModeRequestProto, context: CallContext) -> pb.ResultProto:
        if request.action == _GET:
            return result(administration.in_safe_mode)
        switch.check_superuser(context)
        if request.action not in (_LEAVE, _ENTER, _FORCE_EXIT):
            raise IllegalArgumentError(f"there is no safe mode action {request.action}")
        return result(administration.set_safe_mode(on=request.action == _ENTER))

    def save_namespace(request: pb.SaveNamespaceRequestProto, _: CallContext) -> pb.SaveNamespaceResponseProto:
        saved = administration.save_namespace(request.timeWindow, request.txGap)
        return pb.SaveNamespaceResponseProto(saved=saved)

    def roll_edits(_: pb.EmptyProto, __: CallContext) -> pb.RollEditsResponseProto:
        return pb.RollEditsResponseProto(newSegmentTxId=administration.roll())

    def current_txid(_: pb.EmptyProto, __: CallContext) -> pb.GetCurrentEditLogTxidResponseProto:
        return pb.GetCurrentEditLogTxidResponseProto(txid=transactions.log.durable_txid)

    def open_files(request: pb.ListOpenFilesRequestProto, _: CallContext) -> pb.ListOpenFilesResponseProto:
        """Return the open files of the requested types.

        A request without types (Hadoop 3.0) returns all open files. In the stub, open files never block
        decommissioning.
        """
        types = list(request.types) or [_ALL_OPEN_FILES]
        if not set(types) <= {_ALL_OPEN_FILES, _BLOCKING_DECOMMISSION}:
            raise IllegalArgumentError(f"there are no open files of the types {types}")
        answer = pb.ListOpenFilesResponseProto(hasMore=False, types=types)
        if _ALL_OPEN_FILES in types:
            with transactions.view() as namespace:
                found, answer.hasMore = open_files_after(namespace, request.id, client_path(request.path))
            for file in found:
                answer.entries.add(id=file.id, path=file.path, clientName=file.holder, clientMachine=file.machine)
        return answer

    def rolling_upgrade(request: pb.RollingUpgradeRequestProto, _: CallContext) -> pb.RollingUpgradeResponseProto:
        actions = {
            _QUERY: administration.query_rolling_upgrade,
            _START: administration.start_rolling_upgrade,
            _FINALIZE: administration.finalize_rolling_upgrade,
        }
        if request.action not in actions:
            raise IllegalArgumentError(f"there is no rolling upgrade action {request.action}")
        found = actions[request.action]()
        return pb.RollingUpgradeResponseProto(rollingUpgradeInfo=None if found is None else _message(found, pool))

    of_superusers: dict[str, Handler] = {
        "saveNamespace": save_namespace,
        "rollEdits": roll_edits,
        # a failed directory is not used again before the next start
        "restoreFailedStorage": lambda _, __: result(False),
        # the stub does not start from storage with an unfinalized upgrade
        "finalizeUpgrade": lambda _, __: EMPTY,
        "rollingUpgrade": rolling_upgrade,
        "getCurrentEditLogTxid": current_txid,
        "metaSave": change(lambda each: administration.meta_save(each.filename)),
        # there are no DataNodes
        "refreshNodes": lambda _, __: EMPTY,
        **({"listOpenFiles": open_files} if transactions.namespace.hadoop3 else {}),
    }
    return {
        "setSafeMode": set_safe_mode,
        "upgradeStatus": lambda _, __: pb.UpgradeStatusResponseProto(upgradeFinalized=True),
        **{name: switch.for_superusers(handler) for name, handler in of_superusers.items()},
    }


def _message(upgrade: RollingUpgrade, pool: str) -> pb.RollingUpgradeInfoProto:
    return pb.RollingUpgradeInfoProto(
        status=pb.RollingUpgradeStatusProto(blockPoolId=pool, finalized=upgrade.finalized_at > 0),
        startTime=upgrade.started_at,
        finalizeTime=upgrade.finalized_at,
        createdRollbackImages=upgrade.has_rollback_image,
    )
