"""An RPC protocol: its Java name, and its methods' messages as defined by the service in the .proto file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from hadoop_rpc.service import CallContext, Handler, Method, Service

MethodHandler = Callable[[Any, CallContext], Message | None]
"""Handler of a method of a protocol; None is the empty response."""


class ServerKind(Enum):
    NAMENODE = "NameNode"
    JOURNALNODE = "JournalNode"


@dataclass(frozen=True, slots=True)
class RpcProtocol:
    """A protocol; `name` is the Java interface that each call names. The protobuf service has a different name."""

    name: str
    service: ServiceDescriptor
    server: ServerKind = ServerKind.NAMENODE

    def request(self, method: str) -> type[Message]:
        """Return the request type of `method`; raise KeyError if the protocol does not have the method."""
        return GetMessageClass(self.service.methods_by_name[method].input_type)

    def response(self, method: str) -> type[Message]:
        """Return the response type of `method`; raise KeyError as `request` does."""
        return GetMessageClass(self.service.methods_by_name[method].output_type)

    def served_by(self, handlers: Mapping[str, MethodHandler]) -> Service:
        """Return a service with handlers for these methods; raise KeyError as `request` does."""
        methods = {
            name: Method(self.request(name), _answering(each, self.response(name))) for name, each in handlers.items()
        }
        return Service(self.name, methods)


def _answering(handler: MethodHandler, response: type[Message]) -> Handler:
    def answer(request: Any, context: CallContext) -> Message:
        found = handler(request, context)
        return response() if found is None else found

    return answer
