"""Checks that an image's snapshots and references lead to existing inodes, as a NameNode requires."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from image_format.errors import InconsistentSnapshotsError, RecordError
from image_format.index import ImageIndex
from image_format.kernels.history_check import first_misfit
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.snapshot_index import SnapshotIndex

_ROOT_ENTRY = 12
"""Largest size in bytes of SNAPSHOT_DIFF without snapshots: an entry without diffs for the root."""


def check_snapshots(index: ImageIndex) -> None:
    """Check an image with snapshots in one pass over SNAPSHOT_DIFF, with a search for every created name.

    Raises:
        InconsistentSnapshotsError: a list leads to a missing inode; two lists or references lead to the same inode; or
            the diff of a snapshot's root has no snapshot.
        RecordError: the snapshot of a root diff never existed.
    """
    snapshot_index = index.snapshot_index
    if snapshot_index.size <= _ROOT_ENTRY and not snapshot_index.reference_count:
        return
    _check_roots(index, snapshot_index)
    _check_lists(index, snapshot_index)
    _check_references(index, snapshot_index)


def _check_roots(index: ImageIndex, snapshot_index: SnapshotIndex) -> None:
    roots = snapshot_index.root_diffs()
    if not roots.size:
        return
    reader = MessageReader(index.section("SNAPSHOT"), index.place("SNAPSHOT"))
    header = pb.SnapshotSection() if reader.done else reader.read(pb.SnapshotSection)
    known = [reader.read(pb.Snapshot).snapshotId for _ in range(header.numSnapshots)]
    lost = roots[~np.isin(roots["snapshot"], known)]
    if lost.size:
        first = lost[np.argmax(lost["snapshot"])]
        what = f"directory {first['owner']} has the root diff of snapshot {first['snapshot']}, which does not exist"
        error = InconsistentSnapshotsError if first["snapshot"] < header.snapshotCounter else RecordError
        raise index.place("SNAPSHOT_DIFF").error(error, what, int(first["offset"]))


def _check_lists(index: ImageIndex, snapshot_index: SnapshotIndex) -> None:
    sections = *snapshot_index.columns, *index.columns
    deleted = np.empty(1 << 10, np.int64)
    while True:
        misfit, count = first_misfit(*sections, deleted)
        if misfit:
            what = f"the snapshot diffs of directory {misfit} are inconsistent with the image"
            raise index.place("SNAPSHOT_DIFF").error(InconsistentSnapshotsError, what, 0)
        if count <= deleted.size:
            break
        deleted = np.empty(count, np.int64)
    for inode_id in _twins(deleted[:count]).tolist():
        if index.kind(inode_id) == pb.INode.SYMLINK:
            # Copies of a link share its record, and a NameNode loads them.
            continue
        what = f"inode {inode_id} is in two deleted lists"
        raise index.place("SNAPSHOT_DIFF").error(InconsistentSnapshotsError, what, 0)


def _check_references(index: ImageIndex, snapshot_index: SnapshotIndex) -> None:
    pairs = np.stack([snapshot_index.referred, snapshot_index.last_snapshots], axis=1)
    if np.unique(pairs, axis=0).shape[0] < pairs.shape[0]:
        what = "an inode has two references with the same last snapshot, or two references to its current location"
        raise index.place("INODE_REFERENCE").error(InconsistentSnapshotsError, what, 0)


def _twins(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ordered = np.sort(ids)
    twins: npt.NDArray[np.int64] = ordered[1:][ordered[1:] == ordered[:-1]]
    return twins
