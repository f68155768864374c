"""Read access to an image by path, in the current tree and in snapshots: inodes, children, and sums of subtrees."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from hadoop_common.java_numbers import signed64
from image_format.array_allocator import ArrayAllocator
from image_format.erasure_policies import policies_of
from image_format.index import ImageIndex
from image_format.kernels.scan import find_id
from image_format.layout import LayoutVersion, supports
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.directory_sums import directory_sums
from image_tools.dump.records import ImageRecords
from image_tools.dump.values import SerialNames
from image_tools.image_diffs import ImageDiffs
from image_tools.namespace_browser import (
    NO_TOTALS,
    ContentTotals,
    Enter,
    LocatedInode,
    NamespaceBrowser,
    Place,
    SubtreeTotals,
    leaf_totals,
    places_along,
)
from image_tools.type_usage import LIMITED_TYPES, file_usage, type_usage


class ImageBrowser(NamespaceBrowser):
    """Lookup of inodes in a memory-mapped image; thread-safe.

    An inode that the tree contains by a reference has its current path. Small sections are decoded only when a read
    needs them.

    Args:
        allocator: allocator of the index, and of the sums that the first call of `content` computes.

    Raises:
        ImageFormatError: the image is damaged.
        ImageStorageError: not enough disk space.
    """

    def __init__(self, image: ImageFile, allocator: ArrayAllocator | None = None) -> None:
        self._image = image
        self._allocator = ArrayAllocator() if allocator is None else allocator
        self._records = ImageRecords(image)
        self._guard = threading.Lock()
        self.index = ImageIndex(image, allocator=self._allocator)
        self.past = ImageDiffs(self.index, lambda snapshot: self._snapshots[snapshot].directory)
        self.names = SerialNames(image.string_table())
        self.hadoop3 = supports(LayoutVersion.ERASURE_CODING, image.layout_version)
        self.erasure_policies = policies_of(self._records.erasure_coding())

    def find(self, path: bytes) -> Place:
        """Return the inode at a path such as `/a/b` or `/a/.snapshot/s1/b`; None if it is missing.

        Ignore repeated slashes.

        Raises:
            RecordError: a record along the path is damaged.
        """
        return self.below(self.root(), path.split(b"/"))

    def below(self, start: LocatedInode | None, names: Iterable[bytes]) -> Place:
        """Return the inode at a path relative to `start`; empty names are ignored.

        Raises:
            RecordError: a record along the path is damaged.
        """
        return places_along(self, start, names)[-1]

    def pause(self) -> None:
        """Do nothing: an image does not change."""

    def _ids_above(self, inode_id: int, *, deleted: bool) -> list[int]:
        if self.index.slot(inode_id) < 0:
            return []
        with self._guard:
            (chain,) = self.index.snapshot_index.chains(np.array([inode_id], np.int64))
        return list(map(int, chain))

    # ---- snapshots -----------------------------------------------------------------------------------------

    @functools.cached_property
    def _snapshottable(self) -> list[int]:
        return sorted(map(signed64, self._records.snapshot_header().snapshottableDir))

    @functools.cached_property
    def _snapshots(self) -> dict[int, pb.INode]:
        return {each.snapshotId: each.root for each in self._records.snapshots()}

    def snapshottable(self) -> list[int]:
        return self._snapshottable

    def _has_snapshots(self, inode_id: int) -> bool:
        return inode_id in self._snapshottable

    def _snapshots_of(self, directory_id: int) -> Iterable[tuple[int, pb.INode]]:
        found = ((number, root) for number, root in self._snapshots.items() if signed64(root.id) == directory_id)
        return sorted(found, key=lambda each: name_key(each[1].name))

    # ---- sums ----------------------------------------------------------------------------------------------

    def content(self, place: LocatedInode, enter: Enter | None = None) -> ContentTotals:
        """Return the sums of the subtree at an inode, without inodes that exist only in snapshots.

        `enter` is not called, because any user may read the whole image.

        Raises:
            RecordError: a record is damaged.
            ImageStorageError: not enough disk space.
        """
        if place.snapshot is not None:
            return self._past_content(place)
        types = self._present_usage(place) if place.inode.directory.typeQuotas.quotas else {}
        return ContentTotals(self._present_content(place), types=types)

    def _past_content(self, top: LocatedInode) -> ContentTotals:
        totals, usage = NO_TOTALS, np.zeros(len(LIMITED_TYPES), np.int64)
        # not recursive, because a path may have more levels than Python allows in nested calls
        waiting: list[Iterator[LocatedInode]] = [iter((top,))]
        while waiting:
            place = next(waiting[-1], None)
            if place is None:
                waiting.pop()
            elif place.inode.HasField("directory"):
                totals = totals._replace(directories=totals.directories + 1)
                waiting.append(self.children(place))
            else:
                totals = totals.plus(leaf_totals(place.inode, self.erasure_policies))
                usage += file_usage(place.inode.file, place.policy)
        return ContentTotals(totals, types=dict(zip(LIMITED_TYPES, usage.tolist(), strict=True)))

    def _present_content(self, place: LocatedInode) -> SubtreeTotals:
        if not place.inode.HasField("directory"):
            return leaf_totals(place.inode, self.erasure_policies)
        row = find_id(self.index.directory_ids, signed64(place.inode.id))
        totals = SubtreeTotals(*self._totals[row].tolist()) if row >= 0 else NO_TOTALS
        return totals._replace(directories=totals.directories + 1)

    def _present_usage(self, place: LocatedInode) -> Mapping[str, int]:
        row = find_id(self.index.directory_ids, signed64(place.inode.id))
        return {} if row < 0 else dict(zip(LIMITED_TYPES, self._usage[row].tolist(), strict=True))

    @functools.cached_property
    def _usage(self) -> npt.NDArray[np.int64]:
        """Bytes by storage type, for the row of each directory with children; few images have storage type quotas."""
        return type_usage(self._image, self.index, self.names, self._allocator)

    @functools.cached_property
    def _totals(self) -> npt.NDArray[np.int64]:
        """`SubtreeTotals` of the descendants, for the row of each directory with children."""
        return directory_sums(self._image, self.index, self.erasure_policies, self._allocator).totals
