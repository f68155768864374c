"""What the handlers of ClientProtocol share: paths as clients send them, and who the caller is to the namespace."""

from __future__ import annotations

from engine.namespace.paths import join_names, split_path
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext
from journal.ops import NO_CALL_ID
from namenode_stub.names.caller import Caller
from namenode_stub.names.limits import check_path
from namenode_stub.refusals import InvalidPathError

EMPTY = pb.EmptyProto()


def client_path(path: str) -> str:
    """A path as the namespace has it: slashes count as they do in Hadoop 3. One that is not absolute stays as it is."""
    return join_names(split_path(path, hadoop3=True)) if path.startswith("/") else path


def new_path(path: str) -> str:
    """`client_path` of what is going to be made.

    Raises:
        InvalidPathError: it has a name that clients must not give (DFSUtil.isValidName).
        OperationRefusedError: it is too long.
    """
    if ":" in path or "//" in path.rstrip("/"):
        raise InvalidPathError(f"Invalid path name {path}")
    check_path(path)
    return client_path(path)


def caller_of(context: CallContext) -> Caller:
    """Who calls, and by which RPC."""
    call_id = context.call_id if context.client_id else NO_CALL_ID
    return Caller(user=context.user, machine=context.peer, client_id=context.client_id, call_id=call_id)


def result(value: bool) -> pb.ResultProto:
    return pb.ResultProto(result=value)
