"""Rows of the tables `snapshots`, `snapshot_diffs` and `references`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from hadoop_common.java_numbers import signed32, signed64
from image_format.index import Ids
from image_format.kernels.records import BY_DIFF_LIST, DIFF_STATE, cut_records
from image_format.permission import XAttrNamespace
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import DirectoryDiffRecords, FileDiffRecords, ImageRecords
from image_tools.dump.values import SerialNames
from pipeline.sources.image_tables.batches import text, to_micros, total_bytes

_Row = dict[str, Any]
_DELETED = "hdfs.snapshot.deleted"
_OWN_MODE = 0o1777


def snapshot_rows(
    records: ImageRecords, names: SerialNames, directory_path: Callable[[int], str | None]
) -> Iterator[_Row]:
    """Yield a row for each snapshot.

    Args:
        directory_path: returns the current path of a directory by inode id, or None if it has no path.

    Raises:
        RecordError: a record is damaged.
    """
    counter = signed32(records.snapshot_header().snapshotCounter)
    for snapshot in records.snapshots():
        root = snapshot.root
        root_id = signed64(root.id)
        yield {
            "snapshot_id": signed32(snapshot.snapshotId),
            "name": text(root.name),
            "root_id": root_id,
            "root_path": directory_path(root_id),
            "creation_time": to_micros(root.directory.modificationTime),
            **_owner(names, root.directory.permission),
            **_quotas(root.directory),
            "deleted": any(names.xattr(each.name) == _MARK for each in root.directory.xAttrs.xAttrs),
            "snapshot_counter": counter,
        }


_MARK = (XAttrNamespace.SYSTEM.name, _DELETED)


def _owner(names: SerialNames, packed: int) -> _Row:
    owner = names.owner(packed)
    return {"owner": text(owner.user), "group": text(owner.group), "permission": owner.mode & _OWN_MODE}


def _quotas(directory: pb.INodeDirectory) -> _Row:
    return {"ns_quota": signed64(directory.nsQuota), "ds_quota": signed64(directory.dsQuota)}


def diff_cuts(section: Any, partitions: int, owners: int) -> list[tuple[int, int]]:
    """Divide SNAPSHOT_DIFF into (start, end) of about `partitions` runs of complete lists of diffs.

    Args:
        section: the section's bytes, already scanned without errors.
        owners: number of lists in the section.
    """
    step = max(1, -(-owners // max(1, partitions)))
    cuts = np.empty(owners // step + 1, np.int64)
    progress, state = np.zeros(2, np.int64), np.zeros(DIFF_STATE, np.int64)
    count, _, _ = cut_records(section, 0, BY_DIFF_LIST, step, progress, state, cuts)
    bounds = sorted({0, section.size, *cuts[:count].tolist()})
    return list(itertools.pairwise(bounds))


def diff_rows(records: ImageRecords, names: SerialNames, start: int, end: int) -> Iterator[_Row]:
    """Yield a row for each diff of the lists between `start` and `end` of SNAPSHOT_DIFF.

    Raises:
        RecordError: a record is damaged.
    """
    if start >= end:
        return
    for _, behind, of_inode in records.located_snapshot_diffs(start):
        inode_id = signed64(of_inode.inode_id)
        for index, row in enumerate(_list_rows(of_inode, names)):
            yield {"inode_id": inode_id, "index": index, **row}
        if behind >= end:
            return


def _list_rows(of_inode: FileDiffRecords | DirectoryDiffRecords, names: SerialNames) -> Iterator[_Row]:
    if isinstance(of_inode, FileDiffRecords):
        for diff in of_inode.diffs:
            yield _file_diff(diff, names)
    else:
        for directory_diff, created in of_inode.diffs:
            yield _directory_diff(directory_diff, created, names)


def _file_diff(diff: pb.FileDiff, names: SerialNames) -> _Row:
    row: _Row = {
        "kind": "FILEDIFF",
        "snapshot_id": signed32(diff.snapshotId),
        "name": text(diff.name),
        "file_size": signed64(diff.fileSize),
        "block_count": len(diff.blocks),
        "block_bytes": total_bytes(diff.blocks),
        "block_ids": [signed64(block.blockId) for block in diff.blocks],
        "has_copy": diff.HasField("snapshotCopy"),
    }
    if row["has_copy"]:
        copy = diff.snapshotCopy
        row |= _owner(names, copy.permission)
        row["mtime"], row["atime"] = to_micros(copy.modificationTime), to_micros(copy.accessTime)
        row["replication"], row["block_size"] = signed32(copy.replication), signed64(copy.preferredBlockSize)
    return row


def _directory_diff(diff: pb.DirectoryDiff, created: list[bytes], names: SerialNames) -> _Row:
    row: _Row = {
        "kind": "DIRECTORYDIFF",
        "snapshot_id": signed32(diff.snapshotId),
        "name": text(diff.name),
        "is_snapshot_root": diff.isSnapshotRoot,
        "children_size": signed32(diff.childrenSize),
        "created_count": len(created),
        "created_names": [text(name) for name in created],
        "deleted_count": len(diff.deletedINode) + len(diff.deletedINodeRef),
        "deleted_inodes": [signed64(inode_id) for inode_id in diff.deletedINode],
        "deleted_references": list(diff.deletedINodeRef),
        "has_copy": diff.HasField("snapshotCopy"),
    }
    if row["has_copy"]:
        row |= _owner(names, diff.snapshotCopy.permission) | _quotas(diff.snapshotCopy)
        row["mtime"] = to_micros(diff.snapshotCopy.modificationTime)
    return row


def reference_rows(references: Iterable[pb.INodeReference], holders: Ids) -> Iterator[_Row]:
    """Yield a row for each reference.

    Args:
        holders: by reference number, the id of the directory that lists the reference as a child, or the negative id of
            the directory that lists it as deleted; 0 if there is none.

    Raises:
        RecordError: a record is damaged.
    """
    for number, (record, holder) in enumerate(zip(references, holders.tolist(), strict=True)):
        row: _Row = {
            "number": number,
            "inode_id": signed64(record.referredId),
            "holder_id": abs(holder) or None,
            "current": holder > 0,
        }
        if record.HasField("dstSnapshotId"):
            row |= {"kind": "DstReference", "dst_snapshot_id": signed32(record.dstSnapshotId)}
        else:
            last = signed32(record.lastSnapshotId)
            row |= {"kind": "WithName", "name": text(record.name), "last_snapshot_id": last}
        yield row
