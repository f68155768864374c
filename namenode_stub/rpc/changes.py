"""ClientProtocol: calls that change files and directories."""

from __future__ import annotations

from hadoop_rpc.client_messages import signed
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.rpc.handlers import EMPTY, caller_of, client_path, new_path, result
from namenode_stub.rpc.statuses import status_message

_MODE_MASK = 0o1777
# CreateFlagProto
_CREATE, _OVERWRITE, _APPEND, _LAZY_PERSIST, _SHOULD_REPLICATE = 0x01, 0x02, 0x04, 0x10, 0x80


class Changes:
    """Handlers of files and directories.

    Args:
        cache: for operations that must not be performed twice.
        pool: block pool id.
    """

    def __init__(self, names: ActiveNamespace, cache: RetryCache, pool: str) -> None:
        self._names = names
        self._cache = cache
        self._pool = pool

    def methods(self) -> dict[str, Handler]:
        return {
            "mkdirs": self.mkdirs,
            "create": self.create,
            "append": self.append,
            "addBlock": self.add_block,
            "abandonBlock": self.abandon_block,
            "fsync": self.fsync,
            "complete": self.complete,
            "renewLease": self.renew_lease,
            "recoverLease": self.recover_lease,
            "truncate": self.truncate,
            "delete": self.delete,
            "rename": self.rename,
            "rename2": self.rename2,
            "createSymlink": self.create_symlink,
        }

    # ---- directories -------------------------------------------------------------------------------------------

    def mkdirs(self, request: pb.MkdirsRequestProto, context: CallContext) -> pb.ResultProto:
        self._names.directories.mkdirs(
            new_path(request.src),
            request.masked.perm & _MODE_MASK,
            caller_of(context),
            create_parent=request.createParent,
        )
        return result(True)

    def delete(self, request: pb.DeleteRequestProto, context: CallContext) -> pb.ResultProto:
        caller = caller_of(context)
        path = client_path(request.src)
        if path == "/":
            # FSDirDeleteOp does nothing here, without an error
            return result(False)

        def perform() -> bool:
            return self._names.directories.delete(path, caller, recursive=request.recursive)

        return result(self._cache.once(caller, perform, lambda: True))

    def rename(self, request: pb.RenameRequestProto, context: CallContext) -> pb.ResultProto:
        caller = caller_of(context)

        def perform() -> bool:
            return self._names.directories.rename_into(client_path(request.src), new_path(request.dst), caller)

        return result(self._cache.once(caller, perform, lambda: True))

    def rename2(self, request: pb.Rename2RequestProto, context: CallContext) -> pb.EmptyProto:
        caller = caller_of(context)

        def perform() -> None:
            self._names.directories.rename(
                client_path(request.src), new_path(request.dst), caller, overwrite=request.overwriteDest
            )

        self._cache.once(caller, perform, lambda: None)
        return EMPTY

    def create_symlink(self, request: pb.CreateSymlinkRequestProto, context: CallContext) -> pb.EmptyProto:
        caller = caller_of(context)

        def perform() -> None:
            self._names.directories.create_symlink(
                request.target,
                new_path(request.link),
                request.dirPerm.perm & _MODE_MASK,
                caller,
                create_parent=request.createParent,
            )

        self._cache.once(caller, perform, lambda: None)
        return EMPTY

    # ---- files -------------------------------------------------------------------------------------------------

    def create(self, request: pb.CreateRequestProto, context: CallContext) -> pb.FileStatusResponseProto:
        caller = caller_of(context)
        path = new_path(request.src)
        if request.createFlag & _APPEND:
            raise self._names.files.refuse_append(path)

        def perform() -> bytes:
            self._names.files.create(
                path,
                request.masked.perm & _MODE_MASK,
                caller,
                holder=request.clientName,
                replication=request.replication,
                block_size=request.blockSize,
                overwrite=bool(request.createFlag & _OVERWRITE),
                must_exist=not request.createFlag & _CREATE,
                create_parent=request.createParent,
                storage_policy="LAZY_PERSIST" if request.createFlag & _LAZY_PERSIST else request.storagePolicy,
                erasure_coding=request.ecPolicyName,
                replicated=bool(request.createFlag & _SHOULD_REPLICATE),
            )
            return created()

        def created() -> bytes:
            return status_message(self._names.views.file(path), self._pool).SerializeToString()

        # the status at the time of creation: the file may have moved when the call is repeated
        status = pb.HdfsFileStatusProto.FromString(self._cache.once(caller, perform, created))
        return pb.FileStatusResponseProto(fs=status)

    def append(self, request: pb.AppendRequestProto, _: CallContext) -> pb.EmptyProto:
        raise self._names.files.refuse_append(client_path(request.src))

    def add_block(self, request: pb.AddBlockRequestProto, _: CallContext) -> pb.EmptyProto:
        raise self._names.files.refuse_data(client_path(request.src), request.clientName)

    def abandon_block(self, request: pb.AbandonBlockRequestProto, _: CallContext) -> pb.EmptyProto:
        """Abandon a block, which a client never got; only checks its lease."""
        self._names.files.check_held(client_path(request.src), request.holder)
        return EMPTY

    def fsync(self, request: pb.FsyncRequestProto, _: CallContext) -> pb.EmptyProto:
        self._names.files.check_held(client_path(request.src), request.client, request.fileId)
        return EMPTY

    def complete(self, request: pb.CompleteRequestProto, _: CallContext) -> pb.ResultProto:
        last = request.last.blockId if request.HasField("last") else None
        done = self._names.files.complete(client_path(request.src), request.clientName, request.fileId, last_block=last)
        return result(done)

    def truncate(self, request: pb.TruncateRequestProto, context: CallContext) -> pb.ResultProto:
        path, length = client_path(request.src), signed(request.newLength)
        return result(self._names.files.truncate(path, length, request.clientName, caller_of(context)))

    def renew_lease(self, request: pb.RenewLeaseRequestProto, _: CallContext) -> pb.EmptyProto:
        self._names.files.renew_lease(request.clientName)
        return EMPTY

    def recover_lease(self, request: pb.RecoverLeaseRequestProto, _: CallContext) -> pb.ResultProto:
        return result(self._names.files.recover_lease(client_path(request.src), request.clientName))
