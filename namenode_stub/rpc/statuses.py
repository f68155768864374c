"""Conversion of inode views to messages of ClientProtocol (PBHelper)."""

from __future__ import annotations

from hadoop_rpc.client_messages import inode_message, unsigned
from hadoop_rpc.client_values import ClientInode, ClientInodeType
from hadoop_rpc.proto import client_namenode_pb2 as pb
from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK
from namenode_stub.names.inode_views import InodeView

_TYPES = {DIRECTORY: ClientInodeType.DIRECTORY, FILE: ClientInodeType.FILE, SYMLINK: ClientInodeType.SYMLINK}
_NO_TOKEN = pb.TokenProto(identifier=b"", password=b"", kind="", service="")


def client_inode(view: InodeView) -> ClientInode:
    return ClientInode(
        type=_TYPES[view.kind],
        id=view.id,
        name=view.name,
        owner=view.owner,
        group=view.group,
        mode=view.mode,
        mtime=view.mtime,
        atime=view.atime,
        length=view.length,
        replication=view.replication,
        block_size=view.block_size,
        children=view.children,
        policy=view.policies.storage,
        coding=view.policies.erasure,
        target=view.target,
        has_acl=view.acl is not None,
        snapshottable=view.snapshottable,
        hadoop3=view.hadoop3,
    )


def status_message(view: InodeView, pool: str, *, locations: bool = False) -> pb.HdfsFileStatusProto:
    """Return HdfsFileStatusProto; with `locations`, it has the blocks, which no DataNode holds here."""
    message = inode_message(client_inode(view))
    if locations and view.kind == FILE:
        message.locations.CopyFrom(located(view, pool))
    return message


def located(view: InodeView, pool: str) -> pb.LocatedBlocksProto:
    """Return LocatedBlocksProto of a file: blocks without DataNodes."""
    message = pb.LocatedBlocksProto(
        fileLength=view.length, underConstruction=view.is_open, isLastBlockComplete=not view.is_open
    )
    offset = 0
    for block in view.blocks:
        message.blocks.add(
            b=pb.ExtendedBlockProto(
                poolId=pool, blockId=unsigned(block.block_id), generationStamp=block.genstamp, numBytes=block.num_bytes
            ),
            offset=offset,
            corrupt=False,
            blockToken=_NO_TOKEN,
        )
        offset += block.num_bytes
    if message.blocks:
        message.lastBlock.CopyFrom(message.blocks[-1])
    return message
