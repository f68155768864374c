"""Services whose calls pass a decision first: who may do what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from hadoop_common.access import AccessControl, Caller, Right
from hadoop_rpc.errors import AccessControlError
from hadoop_rpc.service import CallContext, Handler, Method, Service


def guarded(service: Service, access: AccessControl, right_of: Callable[[str], Right]) -> Service:
    """`service`, a call of which is an AccessControlError where the caller may not make it.

    Where callers prove who they are, that was decided when the connection was opened for the protocol.

    Args:
        right_of: the right that a method needs, by its name.
    """
    if access.by_name:
        return service
    methods = {
        name: Method(method.request, _checked(method.handler, name, right_of(name), access))
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
