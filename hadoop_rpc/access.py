"""Access checks for RPC services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from hadoop_common.access import AccessControl, Caller, Right
from hadoop_rpc.errors import AccessControlError
from hadoop_rpc.service import CallContext, Handler, Method, Service


def guarded(service: Service, access: AccessControl, right_of: Callable[[str], Right]) -> Service:
    """Return `service` with each call checked; a refused call raises AccessControlError.

    With Kerberos, access was already checked when the connection was opened.

    Args:
        right_of: returns the right that a method requires.
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
