"""Calls reach the NameNode through a gate: what is behind it changes with its state, and not all may pass."""

from __future__ import annotations

import grp
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from google.protobuf.message import Message

from hadoop_rpc.errors import AccessControlError, RemoteError, RetriableError, StandbyError, remote_error
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Method, Service
from namenode_stub.fail_stop import NotServingError
from namenode_stub.refusals import OperationRefusedError

Handler = Callable[[Any, CallContext], Message]


@lru_cache(maxsize=16)
def _members(group: str) -> frozenset[str]:
    try:
        return frozenset(grp.getgrnam(group).gr_mem)
    except KeyError:
        return frozenset()


class Gate:
    """Lets calls through to the services of the NameNode's state, and turns refusals into Java exceptions.

    Args:
        superuser: who the NameNode itself is.
        supergroup: whose members are superusers too (dfs.permissions.superusergroup).
    """

    def __init__(self, superuser: str, supergroup: str) -> None:
        self._superuser = superuser
        self._supergroup = supergroup
        self._behind = _Behind({}, lambda: RetriableError("NameNode still not started"))

    def open(self, services: Iterable[Service]) -> None:
        """All of these are served, and nothing else is there."""
        self._behind = _Behind(_by_protocol(services), None)

    def narrow(self, services: Iterable[Service], reason: str) -> None:
        """These are served; a client that calls anything else is to look for another NameNode."""
        self._behind = _Behind(_by_protocol(services), lambda: StandbyError(reason))

    def doors(self, protocols: Iterable[str]) -> list[Service]:
        """What an RpcServer offers: for each protocol, whatever is behind the gate when a call comes."""
        return [Service(protocol, _Door(self, protocol)) for protocol in protocols]

    def check_superuser(self, caller: CallContext) -> None:
        """Raises AccessControlError unless the caller may administer."""
        if caller.user != self._superuser and caller.user not in _members(self._supergroup):
            raise AccessControlError(f"Access denied for user {caller.user}. Superuser privilege is required")

    def methods(self, protocol: str) -> Mapping[str, Method]:
        """What of a protocol is served now."""
        return self._behind.services.get(protocol, {})

    def method(self, protocol: str, name: str) -> Method | None:
        """What a call meets now; None where there is no such method."""
        behind = self._behind
        found = behind.services.get(protocol, {}).get(name)
        if found is not None:
            return Method(found.request, _guard(found.handler))
        return None if behind.refusal is None else Method(pb.EmptyProto, _refusing(behind.refusal))


class _Behind:
    """What is behind the gate, and the answer to calls of anything else; None where that is not there at all."""

    def __init__(self, services: Mapping[str, Mapping[str, Method]], refusal: Callable[[], RemoteError] | None) -> None:
        self.services = services
        self.refusal = refusal


class _Door(Mapping[str, Method]):
    """The methods of one protocol."""

    def __init__(self, gate: Gate, protocol: str) -> None:
        self._gate = gate
        self._protocol = protocol

    def __getitem__(self, name: str) -> Method:
        found = self._gate.method(self._protocol, name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._gate.methods(self._protocol))

    def __len__(self) -> int:
        return len(self._gate.methods(self._protocol))


def _by_protocol(services: Iterable[Service]) -> dict[str, Mapping[str, Method]]:
    return {service.protocol: service.methods for service in services}


def _guard(handler: Handler) -> Handler:
    def guarded(request: Any, caller: CallContext) -> Message:
        try:
            return handler(request, caller)
        except OperationRefusedError as error:
            raise remote_error(error.java_class, error.message) from error
        except NotServingError as error:
            raise StandbyError(error.message) from error

    return guarded


def _refusing(refusal: Callable[[], RemoteError]) -> Handler:
    def refused(request: Any, caller: CallContext) -> Message:
        raise refusal()

    return refused
