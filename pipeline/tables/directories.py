"""Columns of the `directories` table: a row for each directory, with its quotas and snapshots."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import Column, Table

_DIRECTORY = "fsimage.proto INodeSection.INodeDirectory"
_ENTRY = "fsimage.proto INodeDirectorySection.DirEntry"

STORAGE_TYPES = ("DISK", "SSD", "ARCHIVE", "RAM_DISK", "PROVIDED", "NVDIMM")
"""Storage types, each with a quota column, in the order of StorageTypeProto from 1."""


def _type_quota(storage_type: str) -> Column:
    text = f"Limit of raw space on {storage_type} storage; null for no limit."
    return Column(f"{storage_type.lower()}_quota", pa.int64(), text, f"{_DIRECTORY}.typeQuotas", "bytes")


DIRECTORIES = Table(
    "directories",
    "All directory records with their direct children; owner, times and policies are in `inodes`.",
    (
        Column("id", pa.int64(), "Inode id.", "fsimage.proto INodeSection.INode.id", nullable=False),
        Column(
            "parent",
            pa.int64(),
            "Inode id of the current parent; null for the root and for directories only in snapshots.",
            f"{_ENTRY}.parent",
        ),
        Column(
            "path",
            pa.string(),
            "Absolute path in the current tree; null for directories only in snapshots.",
            "fsimage.proto INodeSection.INode.name",
        ),
        Column(
            "children",
            pa.int64(),
            "Number of current children without references.",
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
        Column("ns_quota", pa.int64(), "Limit of names below; -1 for none.", f"{_DIRECTORY}.nsQuota", nullable=False),
        Column(
            "ds_quota",
            pa.int64(),
            "Limit of raw space below; -1 for none.",
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
            "Whether a list of snapshot diffs exists, maybe empty.",
            "fsimage.proto SnapshotDiffSection.DiffEntry.inodeId",
            nullable=False,
        ),
    ),
)
