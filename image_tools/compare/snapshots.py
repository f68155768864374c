"""Compares references, snapshots and snapshot diffs of two images."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hadoop_common.java_numbers import signed32, signed64
from image_format.errors import RecordError
from image_format.proto import fsimage_pb2 as pb
from image_tools.compare.difference import ChangeKind, Difference, ItemKind, changed_attributes, compare_tables
from image_tools.compare.inodes import strings_agree
from image_tools.compare.record_attributes import blocks_meaning, directory_meaning, file_meaning, inode_meaning, plain
from image_tools.compare.side import ComparedImage
from image_tools.dump.records import DirectoryDiffRecords, FileDiffRecords

_DiffTable = dict[int, dict[str, Any]]
_SECTION = "SNAPSHOT_DIFF"


def compare_references(a: ComparedImage, b: ComparedImage) -> Iterator[Difference]:
    """Compare references by content, independent of their numbers."""
    ours, theirs = Counter(a.references), Counter(b.references)
    for kind, extra in ((ChangeKind.REMOVED, ours - theirs), (ChangeKind.ADDED, theirs - ours)):
        for reference in sorted(extra.elements(), key=str):
            yield Difference(ItemKind.REFERENCE, kind, str(reference), inode_id=reference.inode, detail=str(reference))


def compare_snapshots(a: ComparedImage, b: ComparedImage) -> Iterator[Difference]:
    """Compare snapshottable directories, and snapshots by id with the attributes of their roots."""
    ours, theirs = (set(map(signed64, side.records.snapshot_header().snapshottableDir)) for side in (a, b))
    for kind, extra in ((ChangeKind.REMOVED, ours - theirs), (ChangeKind.ADDED, theirs - ours)):
        for inode_id in sorted(extra):
            yield Difference(ItemKind.SNAPSHOTTABLE_DIRECTORY, kind, "", inode_id=inode_id)
    yield from compare_tables(ItemKind.SNAPSHOT, _snapshots(a), _snapshots(b))


def _snapshots(side: ComparedImage) -> _DiffTable:
    return {
        signed32(snapshot.snapshotId): {"inode": signed64(snapshot.root.id), **inode_meaning(snapshot.root, side.names)}
        for snapshot in side.records.snapshots()
    }


def compare_snapshot_diffs(a: ComparedImage, b: ComparedImage) -> Iterator[Difference]:
    """Compare the diffs of each inode by snapshot id; entries without diffs are ignored."""
    ours, theirs = _DiffIndex(a), _DiffIndex(b)
    # Bytes are comparable only if serials and reference numbers have the same meaning in both images.
    comparable = strings_agree(a, b) and a.references == b.references
    for key in np.union1d(ours.keys, theirs.keys).tolist():
        if comparable and ours.stored(key) == theirs.stored(key):
            continue
        yield from _compare_diffs(key >> 1, ours.table(key), theirs.table(key))


def _compare_diffs(inode_id: int, ours: _DiffTable, theirs: _DiffTable) -> Iterator[Difference]:
    for snapshot_id in sorted(ours.keys() | theirs.keys()):
        old, new = ours.get(snapshot_id), theirs.get(snapshot_id)
        detail = f"snapshot {snapshot_id}"
        if old is None or new is None:
            kind = ChangeKind.ADDED if old is None else ChangeKind.REMOVED
            yield Difference(ItemKind.SNAPSHOT_DIFF, kind, "", inode_id=inode_id, detail=detail)
        else:
            yield from changed_attributes(ItemKind.SNAPSHOT_DIFF, "", old, new, inode_id=inode_id, detail=detail)


class _DiffIndex:
    """Positions of the diffs of each inode in SNAPSHOT_DIFF; takes 24 bytes of memory for each inode with diffs."""

    def __init__(self, side: ComparedImage) -> None:
        self._side = side
        section = side.image.section(_SECTION)
        self._data = memoryview(b"") if section is None else section.data
        keys, starts, ends = array("q"), array("q"), array("q")
        for start, end, diffs in side.records.located_snapshot_diffs():
            if diffs.diffs:
                keys.append(signed64(diffs.inode_id) << 1 | isinstance(diffs, DirectoryDiffRecords))
                starts.append(start)
                ends.append(end)
        order = np.argsort(np.asarray(keys, np.int64), kind="stable")
        self.keys, self._starts, self._ends = (np.asarray(values, np.int64)[order] for values in (keys, starts, ends))

    def _rows(self, key: int) -> npt.NDArray[np.intp]:
        return np.arange(np.searchsorted(self.keys, key), np.searchsorted(self.keys, key, side="right"))

    def stored(self, key: int) -> list[memoryview]:
        """Return the bytes of the diffs of an inode, one view for each entry."""
        return [self._data[self._starts[row] : self._ends[row]] for row in self._rows(key)]

    def table(self, key: int) -> _DiffTable:
        """Return the decoded diffs of an inode by snapshot id.

        Raises:
            RecordError: a record is damaged, or a snapshot has two diffs.
        """
        out: _DiffTable = {}
        for row in self._rows(key):
            start = int(self._starts[row])
            _, _, diffs = next(self._side.records.located_snapshot_diffs(start))
            if isinstance(diffs, FileDiffRecords):
                meanings = [self._file_diff(diff) for diff in diffs.diffs]
            else:
                meanings = [self._directory_diff(diff, created) for diff, created in diffs.diffs]
            for snapshot_id, meaning in meanings:
                if snapshot_id in out:
                    text = f"inode {key >> 1} has two diffs of snapshot {snapshot_id}"
                    raise self._side.image.place(_SECTION).error(RecordError, text, start)
                out[snapshot_id] = meaning
        return out

    def _file_diff(self, diff: pb.FileDiff) -> tuple[int, dict[str, Any]]:
        meaning: dict[str, Any] = {"fileSize": signed64(diff.fileSize), "name": plain(diff.name)}
        meaning["blocks"] = blocks_meaning(diff.blocks)
        if diff.HasField("snapshotCopy"):
            meaning |= _copied(file_meaning(diff.snapshotCopy, self._side.names))
        return signed32(diff.snapshotId), meaning

    def _directory_diff(self, diff: pb.DirectoryDiff, created: list[bytes]) -> tuple[int, dict[str, Any]]:
        meaning: dict[str, Any] = {
            "childrenSize": signed32(diff.childrenSize),
            "isSnapshotRoot": diff.isSnapshotRoot,
            "name": plain(diff.name),
            "created": sorted(map(plain, created)),
            "deletedINode": sorted(map(signed64, diff.deletedINode)),
            "deletedINodeRef": sorted(self._reference(index) for index in diff.deletedINodeRef),
        }
        if diff.HasField("snapshotCopy"):
            meaning |= _copied(directory_meaning(diff.snapshotCopy, self._side.names))
        return signed32(diff.snapshotId), meaning

    def _reference(self, index: int) -> str:
        references = self._side.references
        if index >= len(references):
            text = f"INODE_REFERENCE has no record {index}"
            raise self._side.image.place(_SECTION).error(RecordError, text, 0)
        return str(references[index])


def _copied(meaning: dict[str, Any]) -> dict[str, Any]:
    return {f"snapshotCopy.{name}": value for name, value in meaning.items()}
