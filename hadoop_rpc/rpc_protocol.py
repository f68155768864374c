"""A protocol: its Java name, and from the service in its .proto file the messages of each method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from hadoop_rpc.service import Handler, Method, Service


class ServerKind(Enum):
    """Who serves a protocol."""

    NAMENODE = "NameNode"
    JOURNALNODE = "JournalNode"


@dataclass(frozen=True, slots=True)
class RpcProtocol:
    """`name` is the full name of the Java interface, which travels with each call; the service's own does not."""

    name: str
    service: ServiceDescriptor
    server: ServerKind = ServerKind.NAMENODE

    def request(self, method: str) -> type[Message]:
        """The message that `method` takes; KeyError where the protocol has no such method."""
        return GetMessageClass(self.service.methods_by_name[method].input_type)

    def response(self, method: str) -> type[Message]:
        """The message that `method` answers with; KeyError as above."""
        return GetMessageClass(self.service.methods_by_name[method].output_type)

    def served_by(self, handlers: Mapping[str, Handler]) -> Service:
        """A service that has these methods of the protocol, by their names; KeyError as above."""
        return Service(self.name, {name: Method(self.request(name), each) for name, each in handlers.items()})
