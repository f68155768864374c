"""Compares the contents of two images, and finds the paths of the differences."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from hadoop_common.java_numbers import signed32, signed64
from image_format.layout import LayoutVersion
from image_format.reader import ImageFile
from image_tools.compare.difference import ChangeKind, Difference, ItemKind
from image_tools.compare.inodes import compare_inodes, compare_stray_entries
from image_tools.compare.managers import compare_counters, compare_managers
from image_tools.compare.side import ComparedImage
from image_tools.compare.snapshots import compare_references, compare_snapshot_diffs, compare_snapshots

_MARKED = "hdfs.snapshot.deleted"
_REPLAY_TIMES = ("modificationTime", "snapshotCopy.modificationTime")


class ImageComparison:
    """Comparison of the contents of two images.

    The comparison ignores the order of records, the numbers of strings and references, compression, unknown sections,
    unknown fields outside NS_INFO, and empty lists of diffs. A missing field has its default value, so images of
    different layouts can be compared; the layout version itself is also compared.

    Args:
        a, b: opened images; they must stay open.

    Raises:
        RecordError: an image is damaged.
    """

    def __init__(self, a: ImageFile, b: ImageFile) -> None:
        self._a, self._b = ComparedImage(a), ComparedImage(b)

    @property
    def inodes(self) -> tuple[int, int]:
        """Numbers of inodes in the two images."""
        return self._a.tree.ids.size, self._b.tree.ids.size

    def differences(self, progress: Callable[[int], None] | None = None) -> Iterator[Difference]:
        """Yield all differences without paths, which `named` adds.

        Args:
            progress: called with the number of compared inodes that exist in both images.

        Raises:
            RecordError: a record is damaged.
        """
        a, b = self._a, self._b
        yield from compare_counters(a, b)
        yield from compare_inodes(a, b, progress)
        yield from compare_stray_entries(a, b)
        yield from compare_references(a, b)
        yield from compare_snapshots(a, b)
        yield from compare_snapshot_diffs(a, b)
        yield from compare_managers(a, b)

    def is_replay_time(self, difference: Difference) -> bool:
        """Return whether a difference is a time that each replaying NameNode reads from its clock.

        Before layout -66, operations on snapshots have no time. Replay then sets the modification time of the
        snapshottable directory to the time of the replay, and copies it to the snapshot and its diffs. In every layout,
        ordered deletion marks and renames a snapshot, and sets its time to the time of the replay.
        """
        if difference.attribute not in _REPLAY_TIMES:
            return False
        if self._timed:
            return difference.topic is ItemKind.SNAPSHOT and difference.subject in self._marked
        return difference.topic is ItemKind.SNAPSHOT or difference.inode_id in self._snapshottable

    @functools.cached_property
    def _timed(self) -> bool:
        """Return whether operations on snapshots have a time in the layout of an image."""
        images = (self._a.image, self._b.image)
        return any(each.layout_version <= LayoutVersion.SNAPSHOT_MODIFICATION_TIME for each in images)

    @functools.cached_property
    def _marked(self) -> set[str]:
        """Ids of the snapshots that are marked as deleted."""
        return {
            str(signed32(snapshot.snapshotId))
            for side in (self._a, self._b)
            for snapshot in side.records.snapshots()
            if any(side.names.xattr(each.name)[1] == _MARKED for each in snapshot.root.directory.xAttrs.xAttrs)
        }

    @functools.cached_property
    def _snapshottable(self) -> set[int]:
        return {
            signed64(each) for side in (self._a, self._b) for each in side.records.snapshot_header().snapshottableDir
        }

    def paths(self, difference: Difference) -> set[str]:
        """Return the paths of the difference's inode in both images; empty if it has none."""
        inode_id = difference.inode_id
        found = () if inode_id is None else (self._a.path(inode_id), self._b.path(inode_id))
        return set(filter(None, found))

    def named(self, difference: Difference) -> Difference:
        """Return the difference with its inode's path as `subject`; for a renamed inode, include both paths."""
        inode_id = difference.inode_id
        if inode_id is None:
            return difference
        old, new = self._a.path(inode_id), self._b.path(inode_id)
        nowhere = f"id {inode_id}"
        if difference.topic is ItemKind.INODE and difference.kind is ChangeKind.RENAMED:
            return dataclasses.replace(difference, subject=new or nowhere, old=old or nowhere, new=new or nowhere)
        path = (old or new) if difference.kind is ChangeKind.REMOVED else (new or old)
        if difference.topic is ItemKind.SNAPSHOT:
            return dataclasses.replace(difference, detail=path or nowhere)
        return dataclasses.replace(difference, subject=path or nowhere)
