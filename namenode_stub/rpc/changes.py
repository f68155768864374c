"""ClientProtocol: calls that change files and directories."""

from __future__ import annotations

from hadoop_common.java_numbers import signed64
from hadoop_rpc.client_messages import inode_message
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from namenode_stub.active_namespace import ActiveNamespace
from namenode_stub.names.caller import ClientCall
from namenode_stub.names.new_inode import CreateModes
from namenode_stub.names.paths import client_path
from namenode_stub.rpc.handlers import MODE_MASK, OnceOnly, caller_of, change, new_path, result

# CreateFlagProto
_CREATE, _OVERWRITE, _APPEND, _LAZY_PERSIST, _SHOULD_REPLICATE = 0x01, 0x02, 0x04, 0x10, 0x80


def _modes(request: pb.MkdirsRequestProto | pb.CreateRequestProto) -> CreateModes:
    unmasked = request.unmasked.perm & MODE_MASK if request.HasField("unmasked") else None
    return CreateModes(request.masked.perm & MODE_MASK, unmasked)


def file_changes(names: ActiveNamespace, once: OnceOnly) -> dict[str, Handler]:
    """Return the handlers by method."""
    directories, files = names.directories, names.files

    def mkdirs(request: pb.MkdirsRequestProto, context: CallContext) -> pb.ResultProto:
        path = new_path(request.src)
        directories.mkdirs(path, _modes(request), caller_of(context), create_parent=request.createParent)
        return result(True)

    def delete(request: pb.DeleteRequestProto, caller: ClientCall) -> bool:
        path = client_path(request.src)
        # as in FSDirDeleteOp, ignore a deletion of the root without an error
        return path != "/" and directories.delete(path, caller, recursive=request.recursive)

    def create_symlink(request: pb.CreateSymlinkRequestProto, caller: ClientCall) -> None:
        link, mode = new_path(request.link), request.dirPerm.perm & MODE_MASK
        directories.create_symlink(request.target, link, mode, caller, create_parent=request.createParent)

    def create(request: pb.CreateRequestProto, caller: ClientCall) -> bytes:
        path, flags = new_path(request.src), request.createFlag
        if flags & _APPEND:
            raise files.refuse_append(path)
        files.create(
            path,
            _modes(request),
            caller,
            holder=request.clientName,
            replication=request.replication,
            block_size=request.blockSize,
            overwrite=bool(flags & _OVERWRITE),
            must_exist=not flags & _CREATE,
            create_parent=request.createParent,
            storage_policy="LAZY_PERSIST" if flags & _LAZY_PERSIST else request.storagePolicy,
            erasure_coding=request.ecPolicyName,
            replicated=bool(flags & _SHOULD_REPLICATE),
        )
        return created(request)

    def created(request: pb.CreateRequestProto) -> bytes:
        """Return the status at the time of creation, because the file may have moved when the call is repeated."""
        with names.transactions.reading() as read:
            return inode_message(read.reads.inode(read.file(request.src))).SerializeToString()

    def append(request: pb.AppendRequestProto, _: CallContext) -> pb.EmptyProto:
        raise files.refuse_append(client_path(request.src))

    def add_block(request: pb.AddBlockRequestProto, _: CallContext) -> pb.EmptyProto:
        raise files.refuse_data(client_path(request.src), request.clientName)

    def complete(request: pb.CompleteRequestProto, _: CallContext) -> pb.ResultProto:
        last = request.last.blockId if request.HasField("last") else None
        return result(files.complete(client_path(request.src), request.clientName, request.fileId, last_block=last))

    def truncate(request: pb.TruncateRequestProto, context: CallContext) -> pb.ResultProto:
        path, length = client_path(request.src), signed64(request.newLength)
        return result(files.truncate(path, length, request.clientName, caller_of(context)))

    def recover_lease(request: pb.RecoverLeaseRequestProto, _: CallContext) -> pb.ResultProto:
        return result(files.recover_lease(client_path(request.src), request.clientName))

    return {
        "mkdirs": mkdirs,
        "create": once.answer(
            create, created, lambda status: pb.FileStatusResponseProto(fs=pb.HdfsFileStatusProto.FromString(status))
        ),
        "append": append,
        "addBlock": add_block,
        # clients never receive a block that they could abandon, so check only the lease
        "abandonBlock": change(lambda each: files.check_held(client_path(each.src), each.holder)),
        "fsync": change(lambda each: files.check_held(client_path(each.src), each.client, each.fileId)),
        "complete": complete,
        "renewLease": change(lambda each: files.renew_lease(each.clientName)),
        "recoverLease": recover_lease,
        "truncate": truncate,
        "delete": once.answer(delete, lambda _: True, result),
        "rename": once.answer(
            lambda each, caller: directories.rename_into(client_path(each.src), new_path(each.dst), caller),
            lambda _: True,
            result,
        ),
        "rename2": once.change(
            lambda each, caller: directories.rename(
                client_path(each.src), new_path(each.dst), caller, overwrite=each.overwriteDest
            )
        ),
        "createSymlink": once.change(create_symlink),
    }
