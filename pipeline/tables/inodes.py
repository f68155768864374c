"""Columns of the inode tables: `inodes`, `directories`, `blocks`, `acls`, `xattrs` and `under_construction`."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import TIMESTAMP, Column, Table

_ANY = "fsimage.proto INodeSection.INode"
_FILE = "fsimage.proto INodeSection.INodeFile"
_DIRECTORY = "fsimage.proto INodeSection.INodeDirectory"
_EACH = "fsimage.proto INodeSection.INode{File,Directory,Symlink}"

INODES = Table(
    "inodes",
    "The current tree, a row for each inode; inodes that exist only in snapshots have no row.",
    (
        Column("id", pa.int64(), "Inode id.", f"{_ANY}.id", nullable=False),
        Column(
            "parent",
            pa.int64(),
            "Inode id of the current parent; null for the root.",
            "fsimage.proto INodeDirectorySection.DirEntry.{parent,children,refChildren}",
        ),
        Column("path", pa.string(), "Absolute path, with U+FFFD for bytes that are not UTF-8.", f"{_ANY}.name"),
        Column("name", pa.string(), "Last component of the path; empty for the root.", f"{_ANY}.name"),
        Column("type", pa.string(), "FILE, DIRECTORY or SYMLINK.", f"{_ANY}.type", nullable=False),
        Column("owner", pa.string(), "User.", f"{_EACH}.permission, StringTableSection"),
        Column("group", pa.string(), "Group.", f"{_EACH}.permission, StringTableSection"),
        Column(
            "permission", pa.int32(), "Mode bits, including the sticky bit, e.g. 0o1777.", f"{_EACH}.permission", "mode"
        ),
        Column(
            "length", pa.int64(), "Sum of the block sizes; null for types other than FILE.", f"{_FILE}.blocks", "bytes"
        ),
        Column("mtime", TIMESTAMP, "Last modification.", f"{_EACH}.modificationTime", "time, UTC"),
        Column("atime", TIMESTAMP, "Last access; null for directories.", f"{_FILE}.accessTime", "time, UTC"),
        Column(
            "replication",
            pa.int32(),
            "Replication factor, 0 for an erasure-coded file (a NameNode reports 1); null for types other than FILE.",
            f"{_FILE}.replication",
        ),
        Column("block_size", pa.int64(), "Preferred size of a block.", f"{_FILE}.preferredBlockSize", "bytes"),
        Column("block_count", pa.int32(), "Number of blocks or block groups.", f"{_FILE}.blocks"),
        Column(
            "storage_policy",
            pa.string(),
            "Policy of the inode itself, e.g. COLD; null if inherited.",
            f"{_FILE}.storagePolicyID, {_DIRECTORY}.xAttrs hsm.block.storage.policy.id",
        ),
        Column(
            "ec_policy",
            pa.string(),
            "Erasure coding policy of the inode itself, e.g. RS-6-3-1024k.",
            f"{_FILE}.erasureCodingPolicyID, {_DIRECTORY}.xAttrs hdfs.erasurecoding.policy",
        ),
        Column(
            "ns_quota",
            pa.int64(),
            "Namespace quota of a directory: maximum number of names; -1 if unlimited.",
            f"{_DIRECTORY}.nsQuota",
        ),
        Column(
            "ds_quota",
            pa.int64(),
            "Space quota of a directory: maximum raw space; -1 if unlimited.",
            f"{_DIRECTORY}.dsQuota",
            "bytes",
        ),
    ),
)


_ENTRY = "fsimage.proto INodeDirectorySection.DirEntry"

STORAGE_TYPES = ("DISK", "SSD", "ARCHIVE", "RAM_DISK", "PROVIDED", "NVDIMM")
"""Storage types, each with a quota column, in the order of StorageTypeProto from 1."""


def _type_quota(storage_type: str) -> Column:
    text = f"Space quota of {storage_type} storage: maximum raw space; null if unlimited."
    return Column(f"{storage_type.lower()}_quota", pa.int64(), text, f"{_DIRECTORY}.typeQuotas", "bytes")


DIRECTORIES = Table(
    "directories",
    "All directory records with their direct children; owner, times and policies are in `inodes`.",
    (
        Column("id", pa.int64(), "Inode id.", "fsimage.proto INodeSection.INode.id", nullable=False),
        Column(
            "parent",
            pa.int64(),
            "Inode id of the current parent; null for the root and for directories that exist only in snapshots.",
            f"{_ENTRY}.parent",
        ),
        Column(
            "path",
            pa.string(),
            "Absolute path in the current tree; null for directories that exist only in snapshots.",
            "fsimage.proto INodeSection.INode.name",
        ),
        Column(
            "children",
            pa.int64(),
            "Number of current children that the directory lists directly, not by reference.",
            f"{_ENTRY}.children",
            nullable=False,
        ),
        Column(
            "reference_children",
            pa.int64(),
            "Number of current children by reference: renamed after a snapshot of their old location.",
            f"{_ENTRY}.refChildren",
            nullable=False,
        ),
        Column(
            "ns_quota",
            pa.int64(),
            "Namespace quota: maximum number of names; -1 if unlimited.",
            f"{_DIRECTORY}.nsQuota",
            nullable=False,
        ),
        Column(
            "ds_quota",
            pa.int64(),
            "Space quota: maximum raw space; -1 if unlimited.",
            f"{_DIRECTORY}.dsQuota",
            "bytes",
            nullable=False,
        ),
        *map(_type_quota, STORAGE_TYPES),
        Column(
            "snapshottable",
            pa.bool_(),
            "Whether the directory is snapshottable.",
            "fsimage.proto SnapshotSection.snapshottableDir",
            nullable=False,
        ),
        Column(
            "snapshots",
            pa.int32(),
            "Number of existing snapshots; 0 for a directory that is not snapshottable.",
            "fsimage.proto SnapshotSection.Snapshot.root",
            nullable=False,
        ),
        Column(
            "with_snapshot",
            pa.bool_(),
            "Whether a list of snapshot diffs exists, possibly empty.",
            "fsimage.proto SnapshotDiffSection.DiffEntry.inodeId",
            nullable=False,
        ),
    ),
)


_BLOCK = "hdfs.proto BlockProto"

BLOCKS = Table(
    "blocks",
    "The blocks of all file records, a row for each block or erasure-coded block group, including files only in "
    "snapshots. Blocks that exist only in a snapshot's diff are in `snapshot_diffs`.",
    (
        Column("inode_id", pa.int64(), "Id of the file.", "fsimage.proto INodeSection.INode.id", nullable=False),
        Column("index", pa.int32(), "Position in the file, from 0.", f"{_FILE}.blocks", nullable=False),
        Column(
            "block_id",
            pa.int64(),
            "Block id; negative for a block group and for the random ids of old releases.",
            f"{_BLOCK}.blockId",
            nullable=False,
        ),
        Column("genstamp", pa.int64(), "Generation stamp.", f"{_BLOCK}.genStamp", nullable=False),
        Column(
            "bytes",
            pa.int64(),
            "Size of the block, or of all data in a block group: the last committed size of a block under "
            "construction, 2^63-1 for a deleted block (BlockCommand.NO_ACK).",
            f"{_BLOCK}.numBytes",
            "bytes",
            nullable=False,
        ),
        Column(
            "striped", pa.bool_(), "Whether this is an erasure-coded block group.", f"{_FILE}.blockType", nullable=False
        ),
        Column(
            "replication",
            pa.int32(),
            "Replication factor of the file; 0 for an erasure-coded file (a NameNode reports 1).",
            f"{_FILE}.replication",
            nullable=False,
        ),
        Column(
            "ec_policy",
            pa.string(),
            "Erasure coding policy of the file, e.g. RS-6-3-1024k; null for a replicated file.",
            f"{_FILE}.erasureCodingPolicyID, ErasureCodingSection",
        ),
        Column(
            "raw_bytes",
            pa.int64(),
            "Space of the block with all replicas or its parity; null for a deleted block and for a policy that "
            "the image does not describe.",
            f"{_FILE}.replication, {_BLOCK}.numBytes, StripedBlockUtil.spaceConsumedByStripedBlock",
            "bytes",
        ),
        Column(
            "under_construction", pa.bool_(), "Whether the file is open for writing.", f"{_FILE}.fileUC", nullable=False
        ),
    ),
)


_ID = "fsimage.proto INodeSection.INode.id"
_ACL = "fsimage.proto INodeSection.INode{File,Directory}.acl"
_XATTR = "fsimage.proto INodeSection.INode{File,Directory}.xAttrs"


def _inode() -> tuple[Column, Column]:
    return (
        Column("inode_id", pa.int64(), "Inode id.", _ID, nullable=False),
        Column(
            "path",
            pa.string(),
            "Absolute path in the current tree; null for inodes that exist only in snapshots.",
            "fsimage.proto INodeSection.INode.name",
        ),
    )


ACLS = Table(
    "acls",
    "The ACL entries in addition to the mode bits, one row each. The mode bits contain the entries of the owner and of "
    "others, which have no row; the group bits contain the mask.",
    (
        *_inode(),
        Column("index", pa.int32(), "Position in the ACL, from 0.", f"{_ACL}.entries", nullable=False),
        Column(
            "scope",
            pa.string(),
            "ACCESS, or DEFAULT for entries that new children of a directory inherit.",
            f"{_ACL}.entries, AclEntryScope",
            nullable=False,
        ),
        Column("type", pa.string(), "USER, GROUP, MASK or OTHER.", f"{_ACL}.entries, AclEntryType", nullable=False),
        Column(
            "name",
            pa.string(),
            "User or group; null for owner, owning group, mask and others.",
            f"{_ACL}.entries, StringTableSection",
        ),
        Column("permission", pa.string(), "Permission, e.g. r-x.", f"{_ACL}.entries, FsAction", nullable=False),
    ),
)

XATTRS = Table(
    "xattrs",
    "The extended attributes, one row each, including those of HDFS itself.",
    (
        *_inode(),
        Column("index", pa.int32(), "Position among the inode's attributes, from 0.", _XATTR, nullable=False),
        Column(
            "namespace",
            pa.string(),
            "USER, TRUSTED, SECURITY, SYSTEM or RAW.",
            f"{_XATTR}.name, XAttr.NameSpace",
            nullable=False,
        ),
        Column("name", pa.string(), "Name without the namespace.", f"{_XATTR}.name, StringTableSection"),
        Column("value", pa.binary(), "Value in bytes; null for an attribute without a value.", f"{_XATTR}.value"),
    ),
)


_LEASE = "fsimage.proto FilesUnderConstructionSection.FileUnderConstructionEntry"

UNDER_CONSTRUCTION = Table(
    "under_construction",
    "Files open for writing, one row each. A file has a lease entry, the under-construction feature in its record, or "
    "both. A file with only one of the two is normal only if it is in a snapshot and was deleted while open.",
    (
        Column("inode_id", pa.int64(), "Id of the file.", f"{_LEASE}.inodeId", nullable=False),
        Column("path", pa.string(), "Path in the lease entry; null without one.", f"{_LEASE}.fullPath"),
        Column(
            "client_name",
            pa.string(),
            "Client that holds the lease; null without the feature in the record.",
            f"{_FILE}.fileUC.clientName",
        ),
        Column("client_machine", pa.string(), "Machine of that client.", f"{_FILE}.fileUC.clientMachine"),
        Column("mtime", TIMESTAMP, "Last modification.", f"{_FILE}.modificationTime", "time, UTC"),
        Column(
            "length",
            pa.int64(),
            "Sum of the last committed block sizes without deleted blocks.",
            f"{_FILE}.blocks",
            "bytes",
        ),
        Column("block_count", pa.int32(), "Number of blocks.", f"{_FILE}.blocks"),
        Column("block_ids", pa.list_(pa.int64()), "Ids of the blocks in order.", f"{_FILE}.blocks"),
        Column("last_block_genstamp", pa.int64(), "Generation stamp of the last block.", f"{_FILE}.blocks"),
        Column("last_block_bytes", pa.int64(), "Committed size of the last block.", f"{_FILE}.blocks", "bytes"),
    ),
)


IMAGE_COLUMN = Column(
    "image", pa.string(), "Path of the row's image, or its name if Spark fetched the image.", "", nullable=False
)
