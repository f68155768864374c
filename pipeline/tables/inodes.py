"""Columns of the `inodes` table: the current tree, a row for each inode."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import TIMESTAMP, Column, Table

_ANY = "fsimage.proto INodeSection.INode"
_FILE = "fsimage.proto INodeSection.INodeFile"
_DIRECTORY = "fsimage.proto INodeSection.INodeDirectory"
_EACH = "fsimage.proto INodeSection.INode{File,Directory,Symlink}"

INODES = Table(
    "inodes",
    "The current tree, a row for each inode; inodes only in snapshots have no row.",
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
        Column("permission", pa.int32(), "Mode bits with the sticky bit, e.g. 0o644.", f"{_EACH}.permission", "mode"),
        Column(
            "length", pa.int64(), "Sum of the block sizes; null for other types than FILE.", f"{_FILE}.blocks", "bytes"
        ),
        Column("mtime", TIMESTAMP, "Last modification.", f"{_EACH}.modificationTime", "time, UTC"),
        Column("atime", TIMESTAMP, "Last access; null for directories.", f"{_FILE}.accessTime", "time, UTC"),
        Column(
            "replication",
            pa.int32(),
            "Replication factor, 0 for an erasure-coded file; null for other types than FILE.",
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
        Column("ns_quota", pa.int64(), "Limit of names below a directory; -1 for none.", f"{_DIRECTORY}.nsQuota"),
        Column(
            "ds_quota",
            pa.int64(),
            "Limit of raw space below a directory; -1 for none.",
            f"{_DIRECTORY}.dsQuota",
            "bytes",
        ),
    ),
)
