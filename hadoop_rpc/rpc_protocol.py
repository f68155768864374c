"""An RPC protocol: its Java name, and its methods' messages as defined by the service in the .proto file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from hadoop_rpc.service import Handler, Method, Service


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

    def served_by(self, handlers: Mapping[str, Handler]) -> Service:
        """Return a service with handlers for these methods; raise KeyError as `request` does."""
        return Service(self.name, {name: Method(self.request(name), each) for name, each in handlers.items()})
