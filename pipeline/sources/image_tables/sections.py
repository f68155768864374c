"""Reads each table from an open image: passes sections, records and paths to the functions that make rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hadoop_common.java_numbers import signed64
from image_format.erasure_policies import policies_of
from image_format.errors import RecordError
from image_format.index import Ids
from image_format.inode_columns import read_inode_columns
from image_tools.dump.records import ImageRecords
from image_tools.dump.values import SerialNames
from pipeline.kernels import features as kernel
from pipeline.sources.image_tables.batches import BATCH_ROWS, numbers, to_batch
from pipeline.sources.image_tables.blocks import block_batches
from pipeline.sources.image_tables.directories import (
    SnapshotCounts,
    children_columns,
    quota_columns,
    snapshotting_columns,
)
from pipeline.sources.image_tables.inodes import (
    FoundInode,
    Marks,
    acl_rows,
    feature_marks,
    inodes_in,
    inodes_with,
    open_file_rows,
    xattr_rows,
)
from pipeline.sources.image_tables.managers import cache_rows, token_rows
from pipeline.sources.image_tables.snapshots import diff_cuts, diff_rows, reference_rows, snapshot_rows
from pipeline.sources.image_tables.summary import summary_rows
from pipeline.sources.table_reader import TablePart
from pipeline.tables.inodes import DIRECTORIES

if TYPE_CHECKING:
    from pipeline.host_image import HostImage

_Rows = Iterator[dict[str, Any]]
_SECTION_DIFFS = "SNAPSHOT_DIFF"


def blocks(host: HostImage, part: TablePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read the `blocks` table; a kernel fills its columns."""
    return blocks_of(host, part.cut(host.count), columns)


def blocks_of(host: HostImage, slots: range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read the rows of the `blocks` table for the inodes in these slots."""
    image, buffer = host.image, host.inode_buffer
    needs_policies = "ec_policy" in columns or "raw_bytes" in columns
    policies = policies_of(ImageRecords(image).erasure_coding()) if needs_policies else {}
    return block_batches(buffer, host.arrays.offsets, slots, columns, policies, image.place("INODE"))


def directories(host: HostImage, part: TablePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read the `directories` table; kernels fill its columns except the paths."""
    index, place, offsets = host.index, host.image.place("INODE"), host.arrays.offsets
    found = SnapshotCounts.of(ImageRecords(host.image), index.snapshot_index.owners)
    inodes = part.cut(host.count)
    marks = feature_marks(host.inode_buffer, offsets, inodes, place)
    every = np.flatnonzero(marks & kernel.DIRECTORY) + inodes.start
    for start in range(0, every.size, BATCH_ROWS):
        slots = every[start : start + BATCH_ROWS]
        ids, arrays = quota_columns(host.inode_buffer, offsets, slots, place)
        arrays |= children_columns(index.directory_buffer, ids, index.directory_spans, index.place("INODE_DIR"))
        arrays |= snapshotting_columns(ids, found)
        if "parent" in columns:
            arrays["parent"] = _parents(host, slots)
        if "path" in columns:
            arrays["path"] = pa.array(_paths(host, slots), pa.string())
        yield to_batch(DIRECTORIES, columns, arrays)


def _parents(host: HostImage, slots: Ids) -> pa.Array:
    """Return the parents' ids, null for inodes outside the tree."""
    rows = host.parent_rows[slots]
    known = rows >= 0
    known[known] = host.directories.in_tree[rows[known]]
    ids = np.zeros(slots.size, np.int64)
    ids[known] = host.directories.ids[rows[known]]
    return numbers(ids, pa.int64(), ~known)


def _paths(host: HostImage, slots: Ids) -> list[str | None]:
    buffer = host.inode_buffer
    read = read_inode_columns(buffer, host.arrays.offsets.at(slots), host.image.place("INODE"))
    spans = zip(slots.tolist(), read.name_start.tolist(), read.name_size.tolist(), strict=True)
    return [host.path(slot, buffer[start : start + size].tobytes()) for slot, start, size in spans]


def snapshots(host: HostImage, _part: TablePart) -> _Rows:
    records = ImageRecords(host.image)

    def path(directory_id: int) -> str | None:
        slot = host.slot(directory_id)
        return None if slot < 0 else host.path(slot, host.index.name(directory_id))

    return snapshot_rows(records, SerialNames(host.image.string_table()), path)


def snapshot_diffs(host: HostImage, part: TablePart) -> _Rows:
    """Read the `snapshot_diffs` table: a part's lists of diffs."""
    section = host.image.section(_SECTION_DIFFS)
    lists = host.index.snapshot_index.owners.size
    if section is None or not lists:
        return iter(())
    cuts = diff_cuts(section, part.of, lists)
    start, end = cuts[part.number] if part.number < len(cuts) else (0, 0)
    return diff_rows(ImageRecords(host.image), SerialNames(host.image.string_table()), start, end)


def references(host: HostImage, _part: TablePart) -> _Rows:
    return reference_rows(ImageRecords(host.image).references(), host.index.snapshot_index.holders())


def _inodes(host: HostImage, part: TablePart, mark: int) -> Iterator[FoundInode]:
    place = host.image.place("INODE")
    return inodes_with(mark, host.inode_buffer, host.arrays.offsets, part.cut(host.count), place)


def acls(host: HostImage, part: TablePart) -> _Rows:
    found = _inodes(host, part, kernel.ACL)
    return acl_rows(found, host.image.string_table(), host.path, host.image.place("INODE"))


def xattrs(host: HostImage, part: TablePart) -> _Rows:
    found = _inodes(host, part, kernel.XATTRS)
    return xattr_rows(found, host.image.string_table(), host.path, host.image.place("INODE"))


def marks_of(host: HostImage, part: TablePart) -> Marks:
    """Return the bits of `kernels.features` of each inode of a part."""
    return feature_marks(host.inode_buffer, host.arrays.offsets, part.cut(host.count), host.image.place("INODE"))


def xattrs_of(host: HostImage, slots: Sequence[int]) -> _Rows:
    """Read the rows of the `xattrs` table of the inodes in these slots."""
    place = host.image.place("INODE")
    found = inodes_in(slots, host.inode_buffer, host.arrays.offsets, place)
    return xattr_rows(found, host.image.string_table(), host.path, place)


def under_construction(host: HostImage, part: TablePart) -> _Rows:
    """Read the `under_construction` table; raise RecordError for a lease of a missing inode."""
    return open_files(host, part, marks_of(host, part))


def open_files(host: HostImage, part: TablePart, marks: Marks) -> _Rows:
    """Read the `under_construction` table with known marks; see `under_construction`.

    Args:
        marks: result of `marks_of`.
    """
    entries = ImageRecords(host.image).files_under_construction()
    leases = {signed64(entry.inodeId): entry.fullPath for entry in entries}
    slots = host.arrays.slots_of(np.fromiter(leases, np.int64, len(leases)))
    if (slots < 0).any():
        missing = list(leases)[int(np.flatnonzero(slots < 0)[0])]
        place = host.image.place("FILES_UNDERCONSTRUCTION")
        raise place.error(RecordError, f"a lease of inode {missing}, which is missing from the image", 0)
    mine = part.cut(host.count)
    leased = slots[(slots >= mine.start) & (slots < mine.stop)]
    wanted = np.union1d(np.flatnonzero(marks & kernel.OPEN) + mine.start, leased).tolist()
    found = inodes_in(wanted, host.inode_buffer, host.arrays.offsets, host.image.place("INODE"))
    return open_file_rows(found, leases)


def cache(host: HostImage, _part: TablePart) -> _Rows:
    return cache_rows(ImageRecords(host.image).caches())


def tokens(host: HostImage, _part: TablePart) -> _Rows:
    return token_rows(ImageRecords(host.image).secrets())


def summary(host: HostImage, _part: TablePart) -> _Rows:
    records = ImageRecords(host.image)
    scanned = {
        "INODE_DIR": host.arrays.directory_ids.size,
        "INODE_REFERENCE": host.index.snapshot_index.reference_count,
        _SECTION_DIFFS: host.index.snapshot_index.owners.size,
        "FILES_UNDERCONSTRUCTION": sum(1 for _ in records.files_under_construction()),
    }
    return summary_rows(records, scanned)
