"""Helpers shared by the handlers of ClientProtocol: paths, callers, and factories for handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from journal.ops import NO_CALL_ID
from namenode_stub.names.caller import ClientCall
from namenode_stub.names.limits import check_path
from namenode_stub.names.paths import client_path
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.refusals import InvalidPathRefusalError

T = TypeVar("T")

EMPTY = pb.EmptyProto()
MODE_MASK = 0o1777


def new_path(path: str) -> str:
    """Return `client_path` of a path to be created.

    Raises:
        InvalidPathRefusalError: the path contains an invalid name (DFSUtil.isValidName).
        OperationRefusedError: the path is too long.
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


def change(perform: Callable[[Any], object]) -> Handler:
    """Return the handler of a change with an empty response."""

    def handler(request: Any, _: CallContext) -> pb.EmptyProto:
        perform(request)
        return EMPTY

    return handler


class OnceOnly:
    """Factory for handlers that do not perform a change again when a client repeats its call."""

    def __init__(self, cache: RetryCache) -> None:
        self._cache = cache

    def change(self, perform: Callable[[Any, ClientCall], object]) -> Handler:
        """Return the handler of a change with an empty response."""
        return self.answer(perform, lambda _: None, lambda _: EMPTY)

    def answer(
        self, perform: Callable[[Any, ClientCall], T], known: Callable[[Any], T], message: Callable[[T], Message]
    ) -> Handler:
        """Return the handler of a change with a response.

        Args:
            known: returns the response to a request whose response was lost in a restart.
            message: encodes a response.
        """

        def handler(request: Any, context: CallContext) -> Message:
            caller = caller_of(context)
            return message(self._cache.once(caller, lambda: perform(request, caller), lambda: known(request)))

        return handler
