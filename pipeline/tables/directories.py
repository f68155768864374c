"""Columns of the `directories` table: a row a directory, with its quotas and what snapshots do there."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import Column, Table

_DIRECTORY = "fsimage.proto INodeSection.INodeDirectory"
_ENTRY = "fsimage.proto INodeDirectorySection.DirEntry"

STORAGE_TYPES = ("DISK", "SSD", "ARCHIVE", "RAM_DISK", "PROVIDED", "NVDIMM")
"""Storage types with a quota column each, by StorageTypeProto number from 1 on."""


def _type_quota(storage_type: str) -> Column:
    text = f"Limit of raw space on {storage_type} storage; null where none is set."
    return Column(f"{storage_type.lower()}_quota", pa.int64(), text, f"{_DIRECTORY}.typeQuotas", "bytes")


DIRECTORIES = Table(
    "directories",
    "Every directory record with what it holds directly; owner, times and policies are in `inodes`.",
    (
        Column("id", pa.int64(), "Inode id.", "fsimage.proto INodeSection.INode.id", nullable=False),
        Column(
            "parent",
            pa.int64(),
            "Inode id of the directory it is in now; null for the root and for what only snapshots hold.",
            f"{_ENTRY}.parent",
        ),
        Column(
            "path",
            pa.string(),
            "Absolute path in the current tree; null for what only snapshots hold.",
            "fsimage.proto INodeSection.INode.name",
        ),
        Column("children", pa.int64(), "Names in it now, references left out.", f"{_ENTRY}.children", nullable=False),
        Column(
            "reference_children",
            pa.int64(),
            "Names in it now that are references: renamed after a snapshot was taken of their old place.",
            f"{_ENTRY}.refChildren",
            nullable=False,
        ),
        Column(
            "ns_quota", pa.int64(), "Limit of names below it; -1 for none.", f"{_DIRECTORY}.nsQuota", nullable=False
        ),
        Column(
            "ds_quota",
            pa.int64(),
            "Limit of raw space below it; -1 for none.",
            f"{_DIRECTORY}.dsQuota",
            "bytes",
            nullable=False,
        ),
        *map(_type_quota, STORAGE_TYPES),
        Column(
            "snapshottable",
            pa.bool_(),
            "Whether snapshots of it are allowed.",
            "fsimage.proto SnapshotSection.snapshottableDir",
            nullable=False,
        ),
        Column(
            "snapshots",
            pa.int32(),
            "Snapshots taken of it that exist; 0 for one that is not snapshottable.",
            "fsimage.proto SnapshotSection.Snapshot.root",
            nullable=False,
        ),
        Column(
            "with_snapshot",
            pa.bool_(),
            "Whether it has a list of snapshot diffs, which may be empty.",
            "fsimage.proto SnapshotDiffSection.DiffEntry.inodeId",
            nullable=False,
        ),
    ),
)
