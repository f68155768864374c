"""ClientProtocol: changes to snapshots."""

from __future__ import annotations

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import Handler
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.paths import client_path
from namenode_stub.names.snapshot_operations import snapshot_path
from namenode_stub.rpc.handlers import OnceOnly, change
from namenode_stub.rpc.service_switch import ServiceSwitch


def snapshot_changes(names: ActiveNamespace, once: OnceOnly, switch: ServiceSwitch) -> dict[str, Handler]:
    """Return the handlers by method."""
    snapshots = names.snapshots
    return {
        "allowSnapshot": switch.for_superusers(change(lambda each: snapshots.allow(client_path(each.src)))),
        "disallowSnapshot": switch.for_superusers(change(lambda each: snapshots.disallow(client_path(each.src)))),
        "createSnapshot": once.answer(
            lambda each, caller: snapshots.create(client_path(each.snapshotRoot), each.snapshotName, caller),
            lambda each: snapshot_path(client_path(each.snapshotRoot), each.snapshotName),
            lambda path: pb.CreateSnapshotResponseProto(snapshotPath=path),
        ),
        "renameSnapshot": once.change(
            lambda each, caller: snapshots.rename(
                client_path(each.snapshotRoot), each.snapshotOldName, each.snapshotNewName, caller
            )
        ),
        "deleteSnapshot": once.change(
            lambda each, caller: snapshots.delete(client_path(each.snapshotRoot), each.snapshotName, caller)
        ),
    }
