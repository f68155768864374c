"""Conversion of inode views to messages of ClientProtocol (PBHelper)."""

from __future__ import annotations

from engine.namespace.erasure_coding import ErasureCodingPolicy
from hadoop_rpc.proto import client_namenode_pb2 as pb
from image_format.kernels.inode import DIRECTORY, FILE
from namenode_stub.names.inode_views import InodeView

_UINT64 = (1 << 64) - 1
_ACL_BIT = 1 << 12  # FsPermissionExtension: 2.7 uses this bit for an ACL, 3.x the flag
_HAS_ACL, _HAS_EC, _SNAPSHOT_ENABLED = 0x01, 0x04, 0x08  # HdfsFileStatusProto.Flags
_NO_TOKEN = pb.TokenProto(identifier=b"", password=b"", kind="", service="")


def unsigned(value: int) -> int:
    """Convert a Java long to a uint64 field."""
    return value & _UINT64


def signed(value: int) -> int:
    """Convert a uint64 field to a Java long."""
    return value - (1 << 64) if value >> 63 else value


def _kind(view: InodeView) -> pb.HdfsFileStatusProto.FileType:
    if view.kind == DIRECTORY:
        return pb.HdfsFileStatusProto.IS_DIR
    return pb.HdfsFileStatusProto.IS_FILE if view.kind == FILE else pb.HdfsFileStatusProto.IS_SYMLINK


def status_message(view: InodeView, pool: str, *, locations: bool = False) -> pb.HdfsFileStatusProto:
    """Return HdfsFileStatusProto; with `locations`, it has the blocks, which no DataNode holds here."""
    message = pb.HdfsFileStatusProto(
        fileType=_kind(view),
        path=view.name,
        length=view.length,
        permission=pb.FsPermissionProto(perm=view.mode | (_ACL_BIT if view.acl is not None else 0)),
        owner=view.owner,
        group=view.group,
        modification_time=unsigned(view.mtime),
        access_time=unsigned(view.atime),
        block_replication=view.replication,
        blocksize=view.block_size,
        fileId=view.id,
        childrenNum=view.children,
        storagePolicy=view.policies.storage,
        flags=(_HAS_ACL if view.acl is not None else 0) | (_SNAPSHOT_ENABLED if view.snapshottable else 0),
    )
    if view.policies.erasure is not None:
        message.ecPolicy.CopyFrom(erasure_coding_message(view.policies.erasure))
        message.flags |= 0 if view.policies.erasure.is_replication else _HAS_EC
    if view.target is not None:
        message.symlink = view.target
    if locations and view.kind == FILE:
        message.locations.CopyFrom(located(view, pool))
    return message


def erasure_coding_message(policy: ErasureCodingPolicy) -> pb.ErasureCodingPolicyProto:
    """Return a complete ErasureCodingPolicyProto, although clients know built-in policies by id."""
    schema = pb.ECSchemaProto(codecName=policy.codec, dataUnits=policy.data_units, parityUnits=policy.parity_units)
    for key, value in policy.options:
        schema.options.add(key=key, value=value)
    return pb.ErasureCodingPolicyProto(
        id=policy.id, name=policy.name, schema=schema, cellSize=policy.cell_size, state=policy.state
    )


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
