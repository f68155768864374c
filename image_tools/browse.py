"""Read access to an image by path, in the current tree and in snapshots: inodes, children, and sums of subtrees."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.index import ImageIndex
from image_format.kernels.scan import count_children, find_id
from image_format.layout import LayoutVersion, supports
from image_format.name_order import name_key
from image_format.policies import policies_of
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message, read_record
from image_tools.directory_sums import directory_sums
from image_tools.dump.records import ImageRecords
from image_tools.dump.values import SerialNames, signed32, signed64
from image_tools.namespace_browser import (
    ChildPage,
    ContentTotals,
    Enter,
    LocatedInode,
    Place,
    SnapshotFolder,
    SubtreeTotals,
    placed,
    places_along,
    space_consumed,
)
from image_tools.past_tree import PastTree

_COUNTS = 4

Numbers = npt.NDArray[np.int64]


class ImageBrowser:
    """Lookup of inodes in a memory-mapped image (`NamespaceBrowser`); thread-safe.

    An inode that is in the tree by a reference has its current path.

    Attributes:
        names: decodes owners, ACL entries and attributes.
        hadoop3: whether it is an image of Hadoop 3.
        erasure_policies: erasure coding policies by id.

    Args:
        allocator: for the index, and for the sums that `content` computes at its first call.

    Raises:
        ImageFormatError: the image is damaged.
        ImageStorageError: not enough disk space.
    """

    def __init__(self, image: ImageFile, allocator: ArrayAllocator | None = None) -> None:
        self._image = image
        self._allocator = ArrayAllocator() if allocator is None else allocator
        self._index = ImageIndex(image, allocator=self._allocator)
        self._guard = threading.Lock()
        self._past = PastTree(image, self._index)
        self.names = SerialNames(image.string_table())
        self.hadoop3 = supports(LayoutVersion.ERASURE_CODING, image.layout_version)
        self.erasure_policies = policies_of(ImageRecords(image).erasure_coding())

    def find(self, path: bytes) -> Place:
        """Return the inode at a path such as `/a/b` or `/a/.snapshot/s1/b`; None if missing. Repeated slashes count
        once.

        Raises:
            RecordError: a record on the way is damaged.
        """
        return self.below(self.root(), path.split(b"/"))

    def root(self) -> LocatedInode | None:
        inode = self.inode(ROOT_INODE_ID)
        return None if inode is None else self._place(inode, None, None)

    def pause(self) -> None:
        """Do nothing: an image does not change."""

    def chain(self, inode_id: int, *, deleted: bool = False) -> list[LocatedInode]:
        """Return the inodes from the root to an inode, see `NamespaceBrowser.chain`.

        Raises:
            RecordError: a record is damaged.
        """
        if self.inode(inode_id) is None:
            return []
        with self._guard:
            (chain,) = self._index.history.chains(np.array([inode_id], np.int64))
        places: list[LocatedInode] = []
        for each in chain.tolist():
            inode = self.inode(each)
            if inode is None:
                return []
            places.append(self._place(inode, None, places[-1] if places else None))
        return places

    def below(self, start: LocatedInode | None, names: Iterable[bytes]) -> Place:
        """Return the inode at a path relative to `start`; empty names are ignored.

        Raises:
            RecordError: a record on the way is damaged.
        """
        return places_along(self, start, names)[-1]

    def snapshottable(self) -> list[int]:
        """Return the ids of the snapshottable directories, ascending."""
        with self._guard:
            return sorted(self._past.snapshottable)

    def is_snapshottable(self, place: LocatedInode) -> bool:
        if place.snapshot is not None or not place.inode.HasField("directory"):
            return False
        with self._guard:
            return signed64(place.inode.id) in self._past.snapshottable

    def child_count(self, place: LocatedInode) -> int:
        """Return the number of children of a directory; 0 for other inodes.

        Raises:
            RecordError: the directory's entry is damaged.
        """
        inode = place.inode
        if place.snapshot is not None:
            return len(self._names_at(place)) if inode.HasField("directory") else 0
        row = self._row(inode)
        if row < 0:
            return 0
        offset = int(self._index.arrays.directory_offsets[row])
        plain, references = count_children(self._index.directory_buffer, offset)
        if plain < 0:
            raise self._image.place("INODE_DIR").error(RecordError, f"damaged entry of directory {inode.id}", offset)
        return int(plain + references)

    def children(self, place: LocatedInode, behind: bytes = b"") -> Iterator[LocatedInode]:
        """Yield the children of a directory with names after `behind`, in name order.

        Raises:
            RecordError: a record is damaged.
        """
        if place.snapshot is not None:
            held = self._names_at(place)
            wanted = sorted((name for name in held if name_key(name) > name_key(behind)), key=name_key)
            yield from (each for name in wanted if (each := self._at(place, name, held[name])) is not None)
            return
        for inode in self._present_children(signed64(place.inode.id), behind):
            yield self._place(inode, None, place)

    def page(self, place: LocatedInode, behind: bytes, limit: int) -> ChildPage:
        children = self.children(place, behind)
        entries = list(itertools.islice(children, limit))
        return ChildPage(entries, sum(1 for _ in children))

    def content(self, place: LocatedInode, enter: Enter | None = None) -> ContentTotals:
        """Return the sums of the subtree at an inode, without inodes that only snapshots have.

        Everybody may read an image, so `enter` is not called.

        Raises:
            RecordError: a record is damaged.
            ImageStorageError: not enough disk space.
        """
        return ContentTotals(self._content(place))

    def _content(self, place: LocatedInode) -> SubtreeTotals:
        """Return the sums of the subtree at an inode; a symlink counts as an empty file."""
        inode = place.inode
        if not inode.HasField("directory"):
            length = sum(block.numBytes for block in inode.file.blocks)
            coding = inode.file.erasureCodingPolicyID if inode.file.HasField("erasureCodingPolicyID") else -1
            columns = np.array([[length], [signed32(inode.file.replication)], [coding]], np.int64)
            return SubtreeTotals(1, 0, length, int(space_consumed(self.erasure_policies, *columns)[0]))
        if place.snapshot is not None:
            below = [self._content(child) for child in self.children(place)]
            totals = SubtreeTotals(*map(sum, zip(*below, strict=True))) if below else SubtreeTotals(0, 0, 0, 0)
            return totals._replace(directories=totals.directories + 1)
        row = self._row(inode)
        counts = [0] * _COUNTS if row < 0 else self._totals[row].tolist()
        return SubtreeTotals(counts[0], counts[1] + 1, counts[2], counts[3])

    def snapshot_folder(self, place: LocatedInode | None) -> SnapshotFolder:
        if place is None or not self.is_snapshottable(place):
            return SnapshotFolder(place, None)
        with self._guard:
            numbers = self._past.snapshots_of(signed64(place.inode.id)).values()
            roots = [(self._past.root(number), number) for number in numbers]
        return SnapshotFolder(place, [self._place(root, number, place) for root, number in roots])

    def child(self, place: LocatedInode, name: bytes) -> LocatedInode | None:
        if not place.inode.HasField("directory"):
            return None
        if place.snapshot is not None:
            held = self._names_at(place)
            return self._at(place, name, held[name]) if name in held else None
        inode_id = self._child(signed64(place.inode.id), name)
        inode = self.inode(inode_id) if inode_id else None
        return None if inode is None else self._place(inode, None, place)

    def _names_at(self, place: LocatedInode) -> dict[bytes, int]:
        assert place.snapshot is not None
        with self._guard:
            return self._past.children(signed64(place.inode.id), place.snapshot)

    def _at(self, above: LocatedInode, name: bytes, inode_id: int) -> LocatedInode | None:
        """Return a child in a snapshot, under its name of that time."""
        assert above.snapshot is not None
        inode = self.inode(inode_id)
        if inode is None:
            return None
        with self._guard:
            seen = self._past.inode(inode, above.snapshot)
        seen.name = name
        return self._place(seen, above.snapshot, above)

    def _place(self, inode: pb.INode, snapshot: int | None, above: LocatedInode | None) -> LocatedInode:
        return placed(inode, snapshot, above, self.names, self.erasure_policies)

    def _present_children(self, directory_id: int, behind: bytes) -> Iterator[pb.INode]:
        plain, referred = self._entry(directory_id)
        if not referred.size:
            for child in plain[self._first(directory_id, behind) if behind else 0 :].tolist():
                if (found := self.inode(child)) is not None:
                    yield found
            return
        inodes = [self.inode(child) for child in np.concatenate([plain, referred]).tolist()]
        found_inodes = [found for found in inodes if found is not None and name_key(found.name) > name_key(behind)]
        yield from sorted(found_inodes, key=lambda found: name_key(found.name))

    @functools.cached_property
    def _totals(self) -> Numbers:
        """`SubtreeTotals` of the descendants, by row of a directory with children."""
        return directory_sums(self._image, self._index, self.erasure_policies, self._allocator).totals

    def _row(self, inode: pb.INode) -> int:
        """Return the row of a directory with children, -1 for any other inode."""
        return int(find_id(self._index.directory_ids, signed64(inode.id)))

    def _child(self, directory_id: int, name: bytes) -> int:
        with self._guard:
            child = self._index.child(directory_id, name)
            self._index.forget_directory(directory_id)
        if child:
            return child
        for referred in map(int, self._entry(directory_id)[1]):
            inode = self.inode(referred)
            if inode is not None and inode.name == name:
                return referred
        return 0

    def _first(self, directory_id: int, behind: bytes) -> int:
        """Return the position of the first plain child after a name."""
        with self._guard:
            positions, found = self._index.locate(directory_id, [behind])
            self._index.forget_directory(directory_id)
        return int(positions[0]) + bool(found[0])

    def _entry(self, directory_id: int) -> tuple[Numbers, Numbers]:
        """Return the ids of the plain children in name order, and of the children by reference."""
        with self._guard:
            plain = self._index.children(directory_id)
            numbers = self._index.reference_children(directory_id)
            self._index.forget_directory(directory_id)
        return plain, self._index.history.referred[numbers] if numbers.size else numbers

    def inode(self, inode_id: int) -> pb.INode | None:
        slot = self._index.slot(inode_id)
        if slot < 0:
            return None
        place = self._image.place("INODE")
        record = read_record(self._index.inode_buffer.data, self._index.inode_offset(slot), place)
        return parse_message(pb.INode, record, place)
