"""Calls reach the namespace through a gate: closed while the NameNode starts and stops, and for who may not."""

from __future__ import annotations

import grp
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from google.protobuf.message import Message

from hadoop_rpc.errors import AccessControlError, RemoteError, RetriableError, StandbyError, remote_error
from hadoop_rpc.service import CallContext, Method, Service
from namenode_stub.fail_stop import NotServingError
from namenode_stub.refusals import OperationRefusedError

__all__ = ["Gate"]

Handler = Callable[[Any, CallContext], Message]


@lru_cache(maxsize=16)
def _members(group: str) -> frozenset[str]:
    try:
        return frozenset(grp.getgrnam(group).gr_mem)
    except KeyError:
        return frozenset()


class Gate:
    """Lets calls through while the NameNode serves, and turns refusals into Java exceptions.

    Args:
        superuser: the user this process runs as.
        supergroup: whose members are superusers too (dfs.permissions.superusergroup).
    """

    def __init__(self, superuser: str, supergroup: str) -> None:
        self._superuser = superuser
        self._supergroup = supergroup
        self._answer: Callable[[], RemoteError] | None = self._starting

    @staticmethod
    def _starting() -> RemoteError:
        return RetriableError("NameNode still not started")

    @staticmethod
    def _stopping() -> RemoteError:
        return StandbyError("this NameNode is shutting down")

    def open(self) -> None:
        """Everything is up."""
        self._answer = None

    def close(self) -> None:
        """Service ends; clients look for another NameNode."""
        self._answer = self._stopping

    def check_superuser(self, caller: CallContext) -> None:
        """Raises AccessControlError unless the caller may administer."""
        if caller.user != self._superuser and caller.user not in _members(self._supergroup):
            raise AccessControlError(f"Access denied for user {caller.user}. Superuser privilege is required")

    def guarded(self, service: Service) -> Service:
        """The service behind the gate."""
        methods = {
            name: Method(method.request, self._guard(method.handler)) for name, method in service.methods.items()
        }
        return Service(service.protocol, methods, service.version)

    def _guard(self, handler: Handler) -> Handler:
        def guarded(request: Any, caller: CallContext) -> Message:
            answer = self._answer
            if answer is not None:
                raise answer()
            try:
                return handler(request, caller)
            except OperationRefusedError as error:
                raise remote_error(error.java_class, error.message) from error
            except NotServingError as error:
                raise StandbyError(error.message) from error

        return guarded
