"""Helpers shared by the handlers of ClientProtocol: paths and callers."""

from __future__ import annotations

from engine.namespace.paths import join_names, split_path
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext
from journal.ops import NO_CALL_ID
from namenode_stub.names.caller import ClientCall
from namenode_stub.names.limits import check_path
from namenode_stub.refusals import InvalidPathRefusalError

EMPTY = pb.EmptyProto()


def client_path(path: str) -> str:
    """Normalize slashes in a path as Hadoop 3 does; a relative path is unchanged."""
    return join_names(split_path(path, hadoop3=True)) if path.startswith("/") else path


def new_path(path: str) -> str:
    """Return `client_path` of a path to be created.

    Raises:
        InvalidPathRefusalError: it contains an invalid name (DFSUtil.isValidName).
        OperationRefusedError: it is too long.
    """
    if ":" in path or "//" in path.rstrip("/"):
        raise InvalidPathRefusalError(f"Invalid path name {path}")
    check_path(path)
    return client_path(path)


def caller_of(context: CallContext) -> ClientCall:
    call_id = context.call_id if context.client_id else NO_CALL_ID
    return ClientCall(user=context.user, machine=context.peer, client_id=context.client_id, call_id=call_id)


def result(value: bool) -> pb.ResultProto:
    return pb.ResultProto(result=value)
