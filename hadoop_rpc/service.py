"""Services of a server: protocols by their Java names, and the request type and handler of each method."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.message import DecodeError, Message

from hadoop_common.access import AccessControl, Caller, Right
from hadoop_common.file_faults import as_hdfs_error
from hadoop_rpc.errors import (
    AccessControlError,
    NoSuchProtocolError,
    NoSuchRpcMethodError,
    RemoteError,
    RpcServerError,
    VersionMismatchError,
)
from hadoop_rpc.framing import parse
from hadoop_rpc.server_state import Call
from hadoop_rpc.wire import RpcErrorCode

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallContext:
    """The caller: `user` (impersonated by `real_user`, if any) at address `peer`. A retry cache needs the ids of the
    client and the call.

    Attributes:
        state_id: see `Call`.
        waited: seconds from the arrival of the call until a handler began it.
    """

    user: str
    real_user: str
    peer: str
    protocol: str
    client_id: bytes
    call_id: int
    retry_count: int
    state_id: int | None = None
    waited: float = 0.0


Handler = Callable[[Any, CallContext], Message]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a protocol.

    A handler's RemoteError reaches the caller as its Java exception, and any other HdfsError as java.io.IOException.

    Attributes:
        may_wait: whether its calls may wait for a long time; a server performs these calls in separate threads.
    """

    request: type[Message]
    handler: Handler
    may_wait: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """The methods of an RPC protocol, which is identified by its full Java name."""

    protocol: str
    methods: Mapping[str, Method]
    version: int = 1


class Dispatcher:
    def __init__(self, services: Iterable[Service]) -> None:
        self._services = {service.protocol: service for service in services}

    @property
    def has_waiting_methods(self) -> bool:
        """Whether calls of at least one method may wait."""
        return any(method.may_wait for each in self._services.values() for method in each.methods.values())

    def may_wait(self, call: Call) -> bool:
        """Return whether a call may wait for long (`Method.may_wait`)."""
        found = self._find(call)
        return isinstance(found, Method) and found.may_wait

    def perform(self, call: Call, context: CallContext) -> Message | tuple[RemoteError, RpcErrorCode]:
        """Return the response message, or the error of the call."""
        found = self._find(call)
        if not isinstance(found, Method):
            return found
        try:
            request = parse(found.request, call.body)
        except DecodeError as fault:
            problem = f"the request of {call.method} cannot be read: {fault}"
            return RpcServerError(problem), RpcErrorCode.RPC_SERVER
        except MemoryError as error:
            return self._failed(call, context, error)
        try:
            return found.handler(request, context)
        except RemoteError as error:
            return error, RpcErrorCode.APPLICATION
        except Exception as error:
            return self._failed(call, context, error)

    def _failed(self, call: Call, context: CallContext, error: Exception) -> tuple[RemoteError, RpcErrorCode]:
        known = as_hdfs_error(error)
        if known is not None:
            _LOG.warning("%s of %s failed: %s", call.method, context.user, known)
            return RemoteError(known.message), RpcErrorCode.APPLICATION
        _LOG.error("%s of %s failed because of a bug", call.method, context.user, exc_info=error)
        text = f"the call failed because of a bug in this server; see its log ({type(error).__name__})"
        return RemoteError(text), RpcErrorCode.APPLICATION

    def _find(self, call: Call) -> Method | tuple[RemoteError, RpcErrorCode]:
        service = self._services.get(call.protocol)
        if service is None:
            return NoSuchProtocolError(f"Unknown protocol: {call.protocol}"), RpcErrorCode.NO_SUCH_PROTOCOL
        if service.version != call.version:
            problem = f"{call.protocol} is served in version {service.version}, but the client uses {call.version}"
            return VersionMismatchError(problem), RpcErrorCode.RPC_VERSION_MISMATCH
        method = service.methods.get(call.method)
        if method is None:
            problem = f"Unknown method {call.method} called on {call.protocol} protocol."
            return NoSuchRpcMethodError(problem), RpcErrorCode.NO_SUCH_METHOD
        return method


def access_checked(service: Service, access: AccessControl, right_of: Callable[[str], Right]) -> Service:
    """Return `service` with an access check before each call; a refused call raises AccessControlError.

    With Kerberos, access was already checked when the connection was opened.

    Args:
        right_of: returns the right that a method requires.
    """
    if access.by_name:
        return service
    methods = {
        name: replace(method, handler=_checked(method.handler, name, right_of(name), access))
        for name, method in service.methods.items()
    }
    return Service(service.protocol, methods, service.version)


def _checked(handler: Handler, name: str, right: Right, access: AccessControl) -> Handler:
    def checked(request: Any, context: CallContext) -> Message:
        users = tuple(filter(None, (context.user, context.real_user)))
        verdict = access.check(Caller(context.peer, users), right, name)
        if not verdict.allowed:
            raise AccessControlError(verdict.reason)
        return handler(request, context)

    return checked
