"""Settings of a secure cluster with JournalNodes, and calls of a logged-in client."""

from __future__ import annotations

from google.protobuf.message import Message

from hadoop_rpc.client import RpcClient
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.kerberos import security_for
from hadoop_rpc.proto import client_namenode_pb2 as client_pb
from hadoop_rpc.proto import ha_service_pb2 as ha_pb
from hadoop_rpc.rpc_protocol import RpcProtocol, ServerKind
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf

SETTINGS = {
    "hadoop.rpc.protection": "privacy",
    "dfs.namenode.checkpoint.check.period": "1",
    "dfs.ha.tail-edits.period": "1",
    "dfs.ha.log-roll.period": "1",
}


def transition() -> ha_pb.TransitionToActiveRequestProto:
    source = ha_pb.HAStateChangeRequestInfoProto(reqSource=ha_pb.REQUEST_BY_USER)
    return ha_pb.TransitionToActiveRequestProto(reqInfo=source)


def call(namenode: NameNode | HadoopConf, protocol: RpcProtocol, method: str, request: Message) -> None:
    security = security_for(ServerKind.NAMENODE, namenode.rpc_address[0])
    with RpcClient(*namenode.rpc_address, protocol.name, user="", security=security) as client:
        client.call(method, request, protocol.response(method))


def mkdirs(namenode: NameNode | HadoopConf, *paths: str) -> None:
    for path in paths:
        request = client_pb.MkdirsRequestProto(
            src=path, masked=client_pb.FsPermissionProto(perm=0o755), createParent=True
        )
        call(namenode, CLIENT_PROTOCOL, "mkdirs", request)
