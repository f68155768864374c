"""ZKFCProtocol, between failover controllers; client and server side (ZKFCProtocol.proto)."""

from __future__ import annotations

from typing import Final, Protocol

from hadoop_common.access import Right
from hadoop_common.java_numbers import signed32, unsigned32
from hadoop_rpc.errors import AccessControlError
from hadoop_rpc.proto import zkfc_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.rpc_protocol import RpcProtocol
from hadoop_rpc.service import CallContext, Service

ZKFC_PROTOCOL: Final = RpcProtocol(
    "org.apache.hadoop.ha.ZKFCProtocol", pb.DESCRIPTOR.services_by_name["ZKFCProtocolService"]
)
_REFUSED_HINT: Final = (
    "Run the command as the user of that failover controller, or as a user in its dfs.cluster.administrators; without "
    "Kerberos, hadoop.user.name names the user."
)


class ZKFCClient(ProtocolClient):
    """Client of ZKFCProtocol at one controller; the methods raise `RpcError` (see `RpcClient.call`)."""

    protocol = ZKFC_PROTOCOL

    def cede_active(self, milliseconds: int) -> None:
        """Make the controller's NameNode a standby, and keep it out of the election for this time; 0 or less ends the
        pause.
        """
        self._call("cedeActive", pb.CedeActiveRequestProto(millisToCede=unsigned32(milliseconds)))

    def graceful_failover(self) -> None:
        """Make the controller's NameNode active, and wait for the result; raise RemoteError on failure."""
        try:
            self._call("gracefulFailover", pb.GracefulFailoverRequestProto(), idempotent=False)
        except AccessControlError as refusal:
            raise AccessControlError(refusal.text, class_name=refusal.class_name, hint=_REFUSED_HINT) from refusal


class ZKFCProtocol(Protocol):
    """A failover controller as a server; called from many threads."""

    def cede_active(self, milliseconds: int) -> None: ...

    def graceful_failover(self) -> None:
        """Raise RemoteError if the controller's NameNode did not become active."""


def zkfc_service(controller: ZKFCProtocol) -> Service:
    def cede(request: pb.CedeActiveRequestProto, _: CallContext) -> None:
        controller.cede_active(signed32(request.millisToCede))

    return ZKFC_PROTOCOL.served_by(
        {"cedeActive": cede, "gracefulFailover": lambda _, __: controller.graceful_failover()}
    )


def right_of(_: str) -> Right:
    """Return the right to change, because every method changes the active NameNode."""
    return Right.CHANGE
