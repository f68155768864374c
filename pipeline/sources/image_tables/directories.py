"""The `directories` table, column by column for a range of slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hadoop_common.java_numbers import signed64
from image_format.errors import BufferOrigin, RecordError
from image_format.index import Bytes, Ids
from image_format.packed import Packed
from image_tools.dump.records import ImageRecords
from pipeline.kernels import features as kernel
from pipeline.sources.image_tables.batches import numbers
from pipeline.tables.inodes import STORAGE_TYPES

Arrays = dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class SnapshotCounts:
    """Information about directories in SNAPSHOT and SNAPSHOT_DIFF.

    Attributes:
        snapshottable: ids of the snapshottable directories, ascending.
        snapshots: number of snapshots of each of these directories.
        with_diffs: ids of inodes with an entry in SNAPSHOT_DIFF, ascending.
    """

    snapshottable: Ids
    snapshots: Ids
    with_diffs: Ids

    @classmethod
    def of(cls, records: ImageRecords, with_diffs: Ids) -> SnapshotCounts:
        """Read SNAPSHOT; raise RecordError if it is damaged."""
        counts = Counter(signed64(snapshot.root.id) for snapshot in records.snapshots())
        allowed = np.unique(np.array([signed64(i) for i in records.snapshot_header().snapshottableDir], np.int64))
        return cls(allowed, np.array([counts[i] for i in allowed.tolist()], np.int64), with_diffs)


def quota_columns(buf: Bytes, offsets: Packed, slots: Ids, place: BufferOrigin) -> tuple[Ids, Arrays]:
    """Return (ids, columns `id` and quotas) of the directories in `slots`.

    Raises:
        RecordError: a record is damaged.
    """
    ids, limits = np.zeros(slots.size, np.int64), np.empty((kernel.QUOTA_ROWS, slots.size), np.int64)
    whole = kernel.directory_quotas(buf, offsets, slots, ids, limits)
    if whole != slots.size:
        raise place.error(RecordError, "damaged inode record", offsets.item(slots[whole]))
    arrays = {
        "id": numbers(ids, pa.int64()),
        "ns_quota": numbers(limits[kernel.NS_QUOTA], pa.int64()),
        "ds_quota": numbers(limits[kernel.DS_QUOTA], pa.int64()),
    }
    for row, storage_type in enumerate(STORAGE_TYPES, kernel.FIRST_TYPE_QUOTA):
        arrays[f"{storage_type.lower()}_quota"] = numbers(limits[row], pa.int64(), limits[row] < 0)
    return ids, arrays


def children_columns(buf: Bytes, ids: Ids, spans_of: Callable[[Ids], Ids], place: BufferOrigin) -> Arrays:
    """Return the columns `children` and `reference_children`.

    Args:
        buf: the INODE_DIR section; place: its location, for errors.
        spans_of: returns (start, end) of directories' entries in INODE_DIR, (-1, -1) for a directory without an entry.

    Raises:
        RecordError: an entry is damaged.
    """
    starts = np.ascontiguousarray(spans_of(ids)[:, 0])
    counts = kernel.children_counts(buf, starts)
    damaged = np.flatnonzero(counts[:, 0] < 0)
    if damaged.size:
        at = int(damaged[0])
        raise place.error(RecordError, f"damaged entry of directory {ids[at]}", int(starts[at]))
    return {
        "children": pa.array(np.ascontiguousarray(counts[:, 0])),
        "reference_children": pa.array(np.ascontiguousarray(counts[:, 1])),
    }


def snapshotting_columns(ids: Ids, found: SnapshotCounts) -> Arrays:
    """Return the columns `snapshottable`, `snapshots` and `with_snapshot`."""
    allowed = np.isin(ids, found.snapshottable)
    counts = np.zeros(ids.size, np.int32)
    counts[allowed] = found.snapshots[np.searchsorted(found.snapshottable, ids[allowed])]
    return {
        "snapshottable": pa.array(allowed),
        "snapshots": pa.array(counts),
        "with_snapshot": pa.array(np.isin(ids, found.with_diffs)),
    }
