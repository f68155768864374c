"""Routes RPC calls to the services of the NameNode's state, with superuser checks."""

from __future__ import annotations

import grp
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from google.protobuf.message import Message

from hadoop_rpc.errors import AccessControlError, RemoteError, RetriableError, StandbyError, remote_error
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler, Method, Service
from image_tools.permission_checker import ReadRefusedError
from namenode_stub.fail_stop import NotServingError
from namenode_stub.refusals import OperationRefusedError


@lru_cache(maxsize=16)
def _members(group: str) -> frozenset[str]:
    try:
        return frozenset(grp.getgrnam(group).gr_mem)
    except KeyError:
        return frozenset()


class ServiceSwitch:
    """Router of calls to the services of the NameNode's state, which turns refusals into Java exceptions.

    Args:
        superuser: user name of the NameNode.
        supergroup: group of additional superusers (dfs.permissions.superusergroup).
    """

    def __init__(self, superuser: str, supergroup: str) -> None:
        self._superuser = superuser
        self._supergroup = supergroup
        self._active = _ActiveServices({}, lambda: RetriableError("NameNode still not started"))

    def open(self, services: Iterable[Service]) -> None:
        """Serve only these services."""
        self._active = _ActiveServices(_by_protocol(services), None)

    def narrow(self, services: Iterable[Service], reason: str) -> None:
        """Serve these services; other calls refer the client to another NameNode."""
        self._active = _ActiveServices(_by_protocol(services), lambda: StandbyError(reason))

    def services(self, protocols: Iterable[str]) -> list[Service]:
        """Return services for an RpcServer; each call looks up the service's current methods."""
        return [Service(protocol, _SwitchedMethods(self, protocol)) for protocol in protocols]

    def check_superuser(self, caller: CallContext) -> None:
        """Check that the caller is a superuser; raise AccessControlError otherwise."""
        if caller.user != self._superuser and caller.user not in _members(self._supergroup):
            raise AccessControlError(f"Access denied for user {caller.user}. Superuser privilege is required")

    def for_superusers(self, handler: Handler) -> Handler:
        """Return a handler that checks whether the caller is a superuser."""

        def checked(request: Any, caller: CallContext) -> Message:
            self.check_superuser(caller)
            return handler(request, caller)

        return checked

    def methods(self, protocol: str) -> Mapping[str, Method]:
        """Return the currently served methods of a protocol."""
        return self._active.services.get(protocol, {})

    def method(self, protocol: str, name: str) -> Method | None:
        """Return the current method of a call; None if it does not exist."""
        active = self._active
        found = active.services.get(protocol, {}).get(name)
        if found is not None:
            return Method(found.request, _with_java_exceptions(found.handler))
        return None if active.refusal is None else Method(pb.EmptyProto, _refusing(active.refusal))


class _ActiveServices:
    """The current services.

    Args:
        refusal: makes the error for a call that is not in `services`; None to report the method as unknown.
    """

    def __init__(self, services: Mapping[str, Mapping[str, Method]], refusal: Callable[[], RemoteError] | None) -> None:
        self.services = services
        self.refusal = refusal


class _SwitchedMethods(Mapping[str, Method]):
    """The methods of one protocol, looked up at each call."""

    def __init__(self, switch: ServiceSwitch, protocol: str) -> None:
        self._switch = switch
        self._protocol = protocol

    def __getitem__(self, name: str) -> Method:
        found = self._switch.method(self._protocol, name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._switch.methods(self._protocol))

    def __len__(self) -> int:
        return len(self._switch.methods(self._protocol))


def _by_protocol(services: Iterable[Service]) -> dict[str, Mapping[str, Method]]:
    return {service.protocol: service.methods for service in services}


def _with_java_exceptions(handler: Handler) -> Handler:
    def guarded(request: Any, caller: CallContext) -> Message:
        try:
            return handler(request, caller)
        except OperationRefusedError as error:
            raise remote_error(error.java_class, error.message) from error
        except ReadRefusedError as error:
            raise remote_error(error.java_class, str(error)) from error
        except NotServingError as error:
            raise StandbyError(error.message) from error

    return guarded


def _refusing(refusal: Callable[[], RemoteError]) -> Handler:
    def refused(request: Any, caller: CallContext) -> Message:
        raise refusal()

    return refused
