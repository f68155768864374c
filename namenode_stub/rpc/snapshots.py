"""ClientProtocol: calls for snapshots."""

from __future__ import annotations

from hadoop_rpc.client_messages import snapshot_message, snapshottable_message
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.names.snapshot_operations import snapshot_path
from namenode_stub.rpc.handlers import EMPTY, caller_of, client_path
from namenode_stub.rpc.service_switch import ServiceSwitch
from namenode_stub.rpc.statuses import client_inode


class SnapshotCalls:
    def __init__(self, names: ActiveNamespace, cache: RetryCache, switch: ServiceSwitch) -> None:
        self._names = names
        self._snapshots = names.snapshots
        self._cache = cache
        self._switch = switch

    def methods(self) -> dict[str, Handler]:
        return {
            "allowSnapshot": self.allow,
            "disallowSnapshot": self.disallow,
            "createSnapshot": self.create,
            "renameSnapshot": self.rename,
            "deleteSnapshot": self.delete,
            "getSnapshottableDirListing": self.snapshottable,
            "getSnapshotListing": self.listing,
        }

    def allow(self, request: pb.PathRequestProto, context: CallContext) -> pb.EmptyProto:
        self._switch.check_superuser(context)
        self._snapshots.allow(client_path(request.src))
        return EMPTY

    def disallow(self, request: pb.PathRequestProto, context: CallContext) -> pb.EmptyProto:
        self._switch.check_superuser(context)
        self._snapshots.disallow(client_path(request.src))
        return EMPTY

    def create(self, request: pb.CreateSnapshotRequestProto, context: CallContext) -> pb.CreateSnapshotResponseProto:
        caller = caller_of(context)
        root = client_path(request.snapshotRoot)

        def perform() -> str:
            return self._snapshots.create(root, request.snapshotName, caller)

        path = self._cache.once(caller, perform, lambda: snapshot_path(root, request.snapshotName))
        return pb.CreateSnapshotResponseProto(snapshotPath=path)

    def rename(self, request: pb.RenameSnapshotRequestProto, context: CallContext) -> pb.EmptyProto:
        caller = caller_of(context)

        def perform() -> None:
            root = client_path(request.snapshotRoot)
            self._snapshots.rename(root, request.snapshotOldName, request.snapshotNewName, caller)

        self._cache.once(caller, perform, lambda: None)
        return EMPTY

    def delete(self, request: pb.DeleteSnapshotRequestProto, context: CallContext) -> pb.EmptyProto:
        caller = caller_of(context)

        def perform() -> None:
            self._snapshots.delete(client_path(request.snapshotRoot), request.snapshotName, caller)

        self._cache.once(caller, perform, lambda: None)
        return EMPTY

    def snapshottable(self, _: pb.EmptyProto, __: CallContext) -> pb.GetSnapshottableDirListingResponseProto:
        """Return the snapshottable directories; without any, the list is missing, as in Hadoop."""
        answer = pb.GetSnapshottableDirListingResponseProto()
        for found in self._names.views.snapshottable():
            message = snapshottable_message(client_inode(found.view), found.snapshots, found.parent.encode())
            answer.snapshottableDirList.snapshottableDirListing.append(message)
        return answer

    def listing(self, request: pb.PathRequestProto, _: CallContext) -> pb.GetSnapshotListingResponseProto:
        path = client_path(request.src)
        answer = pb.GetSnapshotListingResponseProto(snapshotList=pb.SnapshotListingProto())
        for snapshot_id, view in self._names.views.snapshots(path):
            message = snapshot_message(client_inode(view), snapshot_id, path.encode())
            answer.snapshotList.snapshotListing.append(message)
        return answer
