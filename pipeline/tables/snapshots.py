"""Columns of what snapshots leave in an image: `snapshots`, `snapshot_diffs` and `references`."""

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
    "The snapshots there are, a row each; attributes are those of the directory when the snapshot was taken.",
    (
        Column("snapshot_id", pa.int32(), "Snapshot id.", f"{_SNAPSHOT}.snapshotId", nullable=False),
        Column("name", pa.string(), "Name, as below `.snapshot`.", f"{_SNAPSHOT}.root.name"),
        Column(
            "root_id", pa.int64(), "Inode id of the directory it was taken of.", f"{_SNAPSHOT}.root.id", nullable=False
        ),
        Column("root_path", pa.string(), "Where that directory is now.", "fsimage.proto INodeSection.INode.name"),
        Column(
            "creation_time",
            TIMESTAMP,
            "When it was taken: a NameNode sets the root's modification time to it.",
            f"{_SNAPSHOT}.root.directory.modificationTime",
            "time, UTC",
        ),
        Column("owner", pa.string(), "User of the directory.", f"{_SNAPSHOT}.root.directory.permission"),
        Column("group", pa.string(), "Group of the directory.", f"{_SNAPSHOT}.root.directory.permission"),
        Column("permission", pa.int32(), "Its mode bits.", f"{_SNAPSHOT}.root.directory.permission", "mode"),
        Column("ns_quota", pa.int64(), "Its limit of names; -1 for none.", f"{_SNAPSHOT}.root.directory.nsQuota"),
        Column(
            "ds_quota",
            pa.int64(),
            "Its limit of raw space; -1 for none.",
            f"{_SNAPSHOT}.root.directory.dsQuota",
            "bytes",
        ),
        Column(
            "deleted",
            pa.bool_(),
            "Whether it was deleted and waits for older snapshots to go (dfs.namenode.snapshot.deletion.ordered).",
            f"{_SNAPSHOT}.root.directory.xAttrs hdfs.snapshot.deleted",
            nullable=False,
        ),
        Column(
            "snapshot_counter",
            pa.int32(),
            "Number of snapshots ever taken, the next one's id; the same in each row.",
            f"{_HEADER}.snapshotCounter",
            nullable=False,
        ),
    ),
)

SNAPSHOT_DIFFS = Table(
    "snapshot_diffs",
    "What snapshots remember of inodes that changed after them: a row an inode and snapshot. An inode whose list of "
    "diffs is empty has no row.",
    (
        Column("inode_id", pa.int64(), "Inode id.", f"{_DIFFS}.DiffEntry.inodeId", nullable=False),
        Column("kind", pa.string(), "FILEDIFF or DIRECTORYDIFF.", f"{_DIFFS}.DiffEntry.type", nullable=False),
        Column("snapshot_id", pa.int32(), "Snapshot that needs the diff.", f"{_EACH}.snapshotId", nullable=False),
        Column(
            "index",
            pa.int32(),
            "Position in the inode's list, newest first, from 0 on.",
            f"{_DIFFS}.DiffEntry",
            nullable=False,
        ),
        Column("name", pa.string(), "Name of the inode at the snapshot; empty for a snapshot's root.", f"{_EACH}.name"),
        Column("file_size", pa.int64(), "Length of the file at the snapshot.", f"{_FILE}.fileSize", "bytes"),
        Column(
            "block_count",
            pa.int32(),
            "Blocks that the diff lists: the file's at the snapshot, where it was truncated or appended to since.",
            f"{_FILE}.blocks",
        ),
        Column("block_bytes", pa.int64(), "Sum of their sizes, deleted ones left out.", f"{_FILE}.blocks", "bytes"),
        Column("block_ids", pa.list_(pa.int64()), "Their block ids.", f"{_FILE}.blocks"),
        Column(
            "is_snapshot_root",
            pa.bool_(),
            "Whether the snapshot was taken of this directory.",
            f"{_DIRECTORY}.isSnapshotRoot",
        ),
        Column("children_size", pa.int32(), "Names in the directory at the snapshot.", f"{_DIRECTORY}.childrenSize"),
        Column("created_count", pa.int32(), "Names made in the directory since.", f"{_DIRECTORY}.createdListSize"),
        Column("created_names", pa.list_(pa.string()), "Those names.", f"{_DIFFS}.CreatedListEntry.name"),
        Column(
            "deleted_count",
            pa.int32(),
            "Inodes deleted from the directory or renamed away since.",
            f"{_DIRECTORY}.{{deletedINode,deletedINodeRef}}",
        ),
        Column(
            "deleted_inodes",
            pa.list_(pa.int64()),
            "Ids of those that are plain: nothing but snapshots holds them and all below them.",
            f"{_DIRECTORY}.deletedINode",
        ),
        Column(
            "deleted_references",
            pa.list_(pa.int64()),
            "Numbers in `references` of those that were renamed away.",
            f"{_DIRECTORY}.deletedINodeRef",
        ),
        Column(
            "has_copy",
            pa.bool_(),
            "Whether the diff has a copy of the attributes; the columns after this one are null without it.",
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
            "Replication factor at the snapshot, 0 for an erasure coded file.",
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
            "ns_quota", pa.int64(), "Limit of names at the snapshot; -1 for none.", f"{_DIRECTORY}.snapshotCopy.nsQuota"
        ),
        Column(
            "ds_quota",
            pa.int64(),
            "Limit of raw space at the snapshot; -1 for none.",
            f"{_DIRECTORY}.snapshotCopy.dsQuota",
            "bytes",
        ),
    ),
)

REFERENCES = Table(
    "references",
    "The records that stand for an inode which was renamed after a snapshot was taken of its old place. All records "
    "of one inode together are what a NameNode calls its WithCount.",
    (
        Column(
            "number",
            pa.int32(),
            "Number of the record, which directories and diffs name it by.",
            "position in INODE_REFERENCE",
            nullable=False,
        ),
        Column("inode_id", pa.int64(), "Inode it stands for.", f"{_REFERENCE}.referredId", nullable=False),
        Column(
            "kind",
            pa.string(),
            "WithName: a name it had when a snapshot was taken. DstReference: where it was renamed to.",
            f"{_REFERENCE}.dstSnapshotId",
            nullable=False,
        ),
        Column("name", pa.string(), "Name it had; null for a DstReference.", f"{_REFERENCE}.name"),
        Column(
            "last_snapshot_id",
            pa.int32(),
            "Last snapshot that shows that name; null for a DstReference.",
            f"{_REFERENCE}.lastSnapshotId",
        ),
        Column(
            "dst_snapshot_id",
            pa.int32(),
            "Last snapshot of the target's directory when it was renamed there; null for a WithName.",
            f"{_REFERENCE}.dstSnapshotId",
        ),
        Column(
            "holder_id",
            pa.int64(),
            "Directory that has the reference among its children, or as deleted in its diffs; null where none has.",
            f"fsimage.proto INodeDirectorySection.DirEntry.refChildren, {_DIRECTORY}.deletedINodeRef",
        ),
        Column(
            "current",
            pa.bool_(),
            "Whether the directory has it among its children now; false for one in a deleted list.",
            "fsimage.proto INodeDirectorySection.DirEntry.refChildren",
            nullable=False,
        ),
    ),
)
