"""Columns of the tables of snapshots: `snapshots`, `snapshot_diffs` and `references`."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import TIMESTAMP, Column, Table

_SNAPSHOT = "fsimage.proto SnapshotSection.Snapshot"
_HEADER = "fsimage.proto SnapshotSection"
_DIFFS = "fsimage.proto SnapshotDiffSection"
_FILE = f"{_DIFFS}.FileDiff"
_DIRECTORY = f"{_DIFFS}.DirectoryDiff"
_EACH = f"{_DIFFS}.{{FileDiff,DirectoryDiff}}"
_REFERENCE = "fsimage.proto INodeReferenceSection.INodeReference"

SNAPSHOTS = Table(
    "snapshots",
    "The existing snapshots, one row each; the attributes describe the directory at the time of the snapshot.",
    (
        Column("snapshot_id", pa.int32(), "Snapshot id.", f"{_SNAPSHOT}.snapshotId", nullable=False),
        Column("name", pa.string(), "Name below `.snapshot`.", f"{_SNAPSHOT}.root.name"),
        Column(
            "root_id", pa.int64(), "Inode id of the snapshottable directory.", f"{_SNAPSHOT}.root.id", nullable=False
        ),
        Column("root_path", pa.string(), "Current path of that directory.", "fsimage.proto INodeSection.INode.name"),
        Column(
            "creation_time",
            TIMESTAMP,
            "Time of the snapshot, which a NameNode stores as the root's modification time.",
            f"{_SNAPSHOT}.root.directory.modificationTime",
            "time, UTC",
        ),
        Column("owner", pa.string(), "User of the directory.", f"{_SNAPSHOT}.root.directory.permission"),
        Column("group", pa.string(), "Group of the directory.", f"{_SNAPSHOT}.root.directory.permission"),
        Column(
            "permission", pa.int32(), "Mode bits of the directory.", f"{_SNAPSHOT}.root.directory.permission", "mode"
        ),
        Column(
            "ns_quota",
            pa.int64(),
            "Namespace quota: maximum number of names; -1 if unlimited.",
            f"{_SNAPSHOT}.root.directory.nsQuota",
        ),
        Column(
            "ds_quota",
            pa.int64(),
            "Space quota: maximum raw space; -1 if unlimited.",
            f"{_SNAPSHOT}.root.directory.dsQuota",
            "bytes",
        ),
        Column(
            "deleted",
            pa.bool_(),
            "Whether the snapshot is deleted but waits for the deletion of older snapshots "
            "(dfs.namenode.snapshot.deletion.ordered).",
            f"{_SNAPSHOT}.root.directory.xAttrs hdfs.snapshot.deleted",
            nullable=False,
        ),
        Column(
            "snapshot_counter",
            pa.int32(),
            "Number of snapshots ever taken, which is the next id; the same in each row.",
            f"{_HEADER}.snapshotCounter",
            nullable=False,
        ),
    ),
)

SNAPSHOT_DIFFS = Table(
    "snapshot_diffs",
    "Earlier states of inodes that changed after a snapshot: a row for each inode and snapshot. An inode whose list of "
    "diffs is empty has no row.",
    (
        Column("inode_id", pa.int64(), "Inode id.", f"{_DIFFS}.DiffEntry.inodeId", nullable=False),
        Column("kind", pa.string(), "FILEDIFF or DIRECTORYDIFF.", f"{_DIFFS}.DiffEntry.type", nullable=False),
        Column("snapshot_id", pa.int32(), "Snapshot of the diff.", f"{_EACH}.snapshotId", nullable=False),
        Column(
            "index",
            pa.int32(),
            "Position in the inode's list, newest first, from 0.",
            f"{_DIFFS}.DiffEntry",
            nullable=False,
        ),
        Column("name", pa.string(), "Name of the inode at the snapshot; empty for a snapshot's root.", f"{_EACH}.name"),
        Column("file_size", pa.int64(), "Length of the file at the snapshot.", f"{_FILE}.fileSize", "bytes"),
        Column(
            "block_count",
            pa.int32(),
            "Number of blocks in the diff, which lists the blocks of a file that was truncated or appended to after "
            "the snapshot.",
            f"{_FILE}.blocks",
        ),
        Column(
            "block_bytes",
            pa.int64(),
            "Sum of the sizes of these blocks, without deleted blocks.",
            f"{_FILE}.blocks",
            "bytes",
        ),
        Column("block_ids", pa.list_(pa.int64()), "Ids of these blocks.", f"{_FILE}.blocks"),
        Column(
            "is_snapshot_root",
            pa.bool_(),
            "Whether the snapshot was taken of this directory.",
            f"{_DIRECTORY}.isSnapshotRoot",
        ),
        Column("children_size", pa.int32(), "Number of children at the snapshot.", f"{_DIRECTORY}.childrenSize"),
        Column(
            "created_count",
            pa.int32(),
            "Number of names created in the directory since the snapshot.",
            f"{_DIRECTORY}.createdListSize",
        ),
        Column(
            "created_names",
            pa.list_(pa.string()),
            "Names created since the snapshot.",
            f"{_DIFFS}.CreatedListEntry.name",
        ),
        Column(
            "deleted_count",
            pa.int32(),
            "Number of inodes deleted or renamed away since the snapshot.",
            f"{_DIRECTORY}.{{deletedINode,deletedINodeRef}}",
        ),
        Column(
            "deleted_inodes",
            pa.list_(pa.int64()),
            "Ids of the deleted inodes, which exist only in snapshots with their descendants.",
            f"{_DIRECTORY}.deletedINode",
        ),
        Column(
            "deleted_references",
            pa.list_(pa.int64()),
            "Numbers in `references` of the inodes that were renamed away.",
            f"{_DIRECTORY}.deletedINodeRef",
        ),
        Column(
            "has_copy",
            pa.bool_(),
            "Whether the diff has a copy of the attributes; otherwise the following columns are null.",
            f"{_EACH}.snapshotCopy",
            nullable=False,
        ),
        Column("owner", pa.string(), "User at the snapshot.", f"{_EACH}.snapshotCopy.permission"),
        Column("group", pa.string(), "Group at the snapshot.", f"{_EACH}.snapshotCopy.permission"),
        Column("permission", pa.int32(), "Mode bits at the snapshot.", f"{_EACH}.snapshotCopy.permission", "mode"),
        Column(
            "mtime",
            TIMESTAMP,
            "Last modification at the snapshot.",
            f"{_EACH}.snapshotCopy.modificationTime",
            "time, UTC",
        ),
        Column(
            "atime",
            TIMESTAMP,
            "Last access at the snapshot, files only.",
            f"{_FILE}.snapshotCopy.accessTime",
            "time, UTC",
        ),
        Column(
            "replication",
            pa.int32(),
            "Replication factor at the snapshot, or 0 for an erasure-coded file (a NameNode reports 1).",
            f"{_FILE}.snapshotCopy.replication",
        ),
        Column(
            "block_size",
            pa.int64(),
            "Preferred size of a block at the snapshot.",
            f"{_FILE}.snapshotCopy.preferredBlockSize",
            "bytes",
        ),
        Column(
            "ns_quota",
            pa.int64(),
            "Namespace quota at the snapshot: maximum number of names; -1 if unlimited.",
            f"{_DIRECTORY}.snapshotCopy.nsQuota",
        ),
        Column(
            "ds_quota",
            pa.int64(),
            "Space quota at the snapshot: maximum raw space; -1 if unlimited.",
            f"{_DIRECTORY}.snapshotCopy.dsQuota",
            "bytes",
        ),
    ),
)

REFERENCES = Table(
    "references",
    "The references to inodes that were renamed after a snapshot of their old location. On a "
    "NameNode, all references to one inode share a WithCount.",
    (
        Column(
            "number",
            pa.int32(),
            "Number of the reference, used by directories and diffs.",
            "position in INODE_REFERENCE",
            nullable=False,
        ),
        Column("inode_id", pa.int64(), "Id of the inode.", f"{_REFERENCE}.referredId", nullable=False),
        Column(
            "kind",
            pa.string(),
            "WithName: a name at the time of a snapshot. DstReference: the target of a rename.",
            f"{_REFERENCE}.dstSnapshotId",
            nullable=False,
        ),
        Column("name", pa.string(), "Name at the time of the snapshot; null for a DstReference.", f"{_REFERENCE}.name"),
        Column(
            "last_snapshot_id",
            pa.int32(),
            "Last snapshot with that name; null for a DstReference.",
            f"{_REFERENCE}.lastSnapshotId",
        ),
        Column(
            "dst_snapshot_id",
            pa.int32(),
            "Last snapshot of the target directory at the time of the rename; null for a WithName.",
            f"{_REFERENCE}.dstSnapshotId",
        ),
        Column(
            "holder_id",
            pa.int64(),
            "Directory that lists the reference as a child, or as deleted in one of its diffs; null if no directory "
            "lists it.",
            f"fsimage.proto INodeDirectorySection.DirEntry.refChildren, {_DIRECTORY}.deletedINodeRef",
        ),
        Column(
            "current",
            pa.bool_(),
            "Whether the reference is a current child of the directory; false for a reference in a deleted list.",
            "fsimage.proto INodeDirectorySection.DirEntry.refChildren",
            nullable=False,
        ),
    ),
)
