"""Converts the values of `hadoop_rpc.client_values` to messages of ClientProtocol (PBHelperClient)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hadoop_common.java_numbers import unsigned64
from hadoop_common.storage_policies import StoragePolicy
from hadoop_rpc.client_values import ClientAcl, ClientInode
from hadoop_rpc.proto import client_namenode_pb2 as pb

if TYPE_CHECKING:
    from image_format.erasure_policies import ErasurePolicy

# FsPermissionExtension: Hadoop 2 sends these bits; Hadoop 3 sends only the flags
_ACL_BIT, _ENCRYPTED_BIT = 1 << 12, 1 << 13
# HdfsFileStatusProto.Flags
_HAS_ACL, _HAS_CRYPT, _HAS_EC, _SNAPSHOT_ENABLED = 0x01, 0x02, 0x04, 0x08
_STICKY = 0o1000
_REPLICATION_POLICY_ID = 0
_SNAPSHOT_LIMIT = 1 << 16  # DirectorySnapshottableFeature: maximum number of snapshots of a directory


def inode_message(inode: ClientInode) -> pb.HdfsFileStatusProto:
    """Return HdfsFileStatusProto without block locations."""
    flags = {
        _HAS_ACL: inode.has_acl,
        _HAS_CRYPT: inode.encrypted,
        _HAS_EC: inode.coding is not None and inode.coding.id != _REPLICATION_POLICY_ID,
        _SNAPSHOT_ENABLED: inode.snapshottable,
    }
    extra = 0 if inode.hadoop3 else _ACL_BIT * inode.has_acl | _ENCRYPTED_BIT * inode.encrypted
    message = pb.HdfsFileStatusProto(
        fileType=pb.HdfsFileStatusProto.FileType.Name(inode.type.value),
        path=inode.name,
        length=inode.length,
        permission=pb.FsPermissionProto(perm=inode.mode | extra),
        owner=inode.owner,
        group=inode.group,
        modification_time=unsigned64(inode.mtime),
        access_time=unsigned64(inode.atime),
        block_replication=inode.replication,
        blocksize=inode.block_size,
        fileId=unsigned64(inode.id),
        childrenNum=inode.children,
        storagePolicy=inode.policy,
        flags=sum(flag for flag, is_set in flags.items() if is_set),
    )
    if inode.coding is not None:
        message.ecPolicy.CopyFrom(erasure_coding_message(inode.coding))
    if inode.target is not None:
        message.symlink = inode.target
    return message


def erasure_coding_message(policy: ErasurePolicy) -> pb.ErasureCodingPolicyProto:
    """Return a complete ErasureCodingPolicyProto, although clients recognise built-in policies by id."""
    schema = pb.ECSchemaProto(codecName=policy.codec, dataUnits=policy.data_units, parityUnits=policy.parity_units)
    for key, value in policy.options:
        schema.options.add(key=key, value=value)
    return pb.ErasureCodingPolicyProto(
        id=policy.id, name=policy.name, schema=schema, cellSize=policy.cell_size, state=policy.state
    )


def acl_message(acl: ClientAcl) -> pb.AclStatusProto:
    entries = [
        pb.AclEntryProto(type=each.type, scope=each.scope, permissions=each.permission, name=each.name or None)
        for each in acl.entries
    ]
    message = pb.AclStatusProto(
        owner=acl.owner, group=acl.group, sticky=bool((acl.mode or 0) & _STICKY), entries=entries
    )
    if acl.mode is not None:
        message.permission.perm = acl.mode
    return message


def storage_policy_message(policy: StoragePolicy) -> pb.BlockStoragePolicyProto:
    def types(names: tuple[str, ...]) -> pb.StorageTypesProto:
        return pb.StorageTypesProto(storageTypes=names)

    return pb.BlockStoragePolicyProto(
        policyId=policy.id,
        name=policy.name,
        creationPolicy=types(policy.creation),
        creationFallbackPolicy=types(policy.creation_fallback),
        replicationFallbackPolicy=types(policy.replication_fallback),
    )


def snapshottable_message(inode: ClientInode, snapshots: int, parent: bytes) -> pb.SnapshottableDirectoryStatusProto:
    """Return SnapshottableDirectoryStatusProto of a directory with `snapshots` snapshots in the directory `parent`."""
    return pb.SnapshottableDirectoryStatusProto(
        dirStatus=inode_message(inode),
        snapshot_quota=_SNAPSHOT_LIMIT,
        snapshot_number=snapshots,
        parent_fullpath=parent,
    )


def snapshot_message(inode: ClientInode, snapshot_id: int, directory: bytes) -> pb.SnapshotStatusProto:
    """Return SnapshotStatusProto of the root of a snapshot; `directory` is the path of the snapshottable directory."""
    return pb.SnapshotStatusProto(
        dirStatus=inode_message(inode), snapshotID=snapshot_id, parent_fullpath=directory, isDeleted=False
    )
