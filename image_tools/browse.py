"""Read access to an image by path, in the current tree and in snapshots: inodes, children, and sums of subtrees."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID, UNSPECIFIED_POLICY
from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.index import ImageIndex
from image_format.inode_columns import read_inode_columns
from image_format.kernels.directory_tree import add_upwards
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.kernels.scan import count_children, find_id
from image_format.name_order import name_key
from image_format.policies import policies_of, raw_bytes
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message, read_record
from image_tools.directory_paths import chain_directories, place_inodes
from image_tools.dump.records import ImageRecords
from image_tools.dump.values import SerialNames, own_policies, signed32, signed64
from image_tools.past_tree import PastTree

_BATCH = 1 << 16
_COUNTS = 4
DOT_SNAPSHOT = b".snapshot"

Numbers = npt.NDArray[np.int64]


class SubtreeTotals(NamedTuple):
    """Sums of a subtree, including its top.

    Attributes:
        length: bytes of all files; space: bytes with replicas or parity.
    """

    files: int
    directories: int
    length: int
    space: int


class LocatedInode(NamedTuple):
    """An inode at a path.

    Attributes:
        inode: the inode at that path; in a snapshot with the attributes and the name of that time.
        snapshot: id of the snapshot in the path, None for the current tree.
        policy: id of the effective storage policy, own or inherited; 0 for none.
        coding: name of the effective erasure coding policy; "" for none. Files do not inherit one.
    """

    inode: pb.INode
    snapshot: int | None = None
    policy: int = UNSPECIFIED_POLICY
    coding: str = ""


class SnapshotFolder(NamedTuple):
    """The folder `.snapshot` of a directory, which is None if the path has no directory.

    Attributes:
        snapshots: the directory in each snapshot, under the name of the snapshot; None if the directory is not
            snapshottable.
    """

    directory: LocatedInode | None
    snapshots: list[LocatedInode] | None


class ImageBrowser:
    """Lookup of inodes in a memory-mapped image; thread-safe.

    An inode that is in the tree by a reference has its current path.

    Attributes:
        names: decodes owners, ACL entries and attributes.
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
        self.erasure_policies = policies_of(ImageRecords(image).erasure_coding())

    def find(self, path: bytes) -> LocatedInode | SnapshotFolder | None:
        """Return the inode at a path such as `/a/b` or `/a/.snapshot/s1/b`; None if missing. Repeated slashes count
        once.

        Raises:
            RecordError: a record on the way is damaged.
        """
        return self.below(self.root(), path.split(b"/"))

    def root(self) -> LocatedInode | None:
        """Return the root of the tree."""
        inode = self._inode(ROOT_INODE_ID)
        return None if inode is None else self._place(inode, None, None)

    def with_id(self, inode_id: int, *, parent: bool = False) -> LocatedInode | None:
        """Return the inode with an id, or with `parent` its parent; None if the current tree does not contain it.

        Raises:
            RecordError: a record is damaged.
        """
        if self._inode(inode_id) is None:
            return None
        with self._guard:
            (chain,) = self._index.history.chains(np.array([inode_id], np.int64))
        ids = chain.tolist()
        place: LocatedInode | None = None
        for each in ids[:-1] if parent and len(ids) > 1 else ids:
            inode = self._inode(each)
            if inode is None:
                return None
            place = self._place(inode, None, place)
        return place

    def below(self, start: LocatedInode | None, names: Iterable[bytes]) -> LocatedInode | SnapshotFolder | None:
        """Return the inode at a path relative to `start`; empty names are ignored.

        Raises:
            RecordError: a record on the way is damaged.
        """
        place: LocatedInode | SnapshotFolder | None = start
        for name in filter(None, names):
            if isinstance(place, SnapshotFolder):
                place = next((each for each in place.snapshots or () if each.inode.name == name), None)
            elif name == DOT_SNAPSHOT and (place is None or place.snapshot is None):
                place = self._snapshot_folder(place)
            elif place is None:
                return None
            else:
                place = self._child_of(place, name)
        return place

    def is_snapshottable(self, place: LocatedInode) -> bool:
        """Return whether a directory of the current tree is snapshottable."""
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

    def content(self, place: LocatedInode) -> SubtreeTotals:
        """Return the sums of the subtree at an inode; a symlink counts as an empty file.

        Raises:
            RecordError: a record is damaged.
            ImageStorageError: not enough disk space.
        """
        inode = place.inode
        if not inode.HasField("directory"):
            length = sum(block.numBytes for block in inode.file.blocks)
            coding = inode.file.erasureCodingPolicyID if inode.file.HasField("erasureCodingPolicyID") else -1
            columns = np.array([[length], [signed32(inode.file.replication)], [coding]], np.int64)
            return SubtreeTotals(1, 0, length, int(self._space(*columns)[0]))
        if place.snapshot is not None:
            below = [self.content(child) for child in self.children(place)]
            totals = SubtreeTotals(*map(sum, zip(*below, strict=True))) if below else SubtreeTotals(0, 0, 0, 0)
            return totals._replace(directories=totals.directories + 1)
        row = self._row(inode)
        counts = [0] * _COUNTS if row < 0 else self._totals[row].tolist()
        return SubtreeTotals(counts[0], counts[1] + 1, counts[2], counts[3])

    def _snapshot_folder(self, place: LocatedInode | None) -> SnapshotFolder:
        if place is None or not self.is_snapshottable(place):
            return SnapshotFolder(place, None)
        with self._guard:
            numbers = self._past.snapshots_of(signed64(place.inode.id)).values()
            roots = [(self._past.root(number), number) for number in numbers]
        return SnapshotFolder(place, [self._place(root, number, place) for root, number in roots])

    def _child_of(self, place: LocatedInode, name: bytes) -> LocatedInode | None:
        if not place.inode.HasField("directory"):
            return None
        if place.snapshot is not None:
            held = self._names_at(place)
            return self._at(place, name, held[name]) if name in held else None
        inode_id = self._child(signed64(place.inode.id), name)
        inode = self._inode(inode_id) if inode_id else None
        return None if inode is None else self._place(inode, None, place)

    def _names_at(self, place: LocatedInode) -> dict[bytes, int]:
        assert place.snapshot is not None
        with self._guard:
            return self._past.children(signed64(place.inode.id), place.snapshot)

    def _at(self, above: LocatedInode, name: bytes, inode_id: int) -> LocatedInode | None:
        """Return a child in a snapshot, under its name of that time."""
        assert above.snapshot is not None
        inode = self._inode(inode_id)
        if inode is None:
            return None
        with self._guard:
            seen = self._past.inode(inode, above.snapshot)
        seen.name = name
        return self._place(seen, above.snapshot, above)

    def _place(self, inode: pb.INode, snapshot: int | None, above: LocatedInode | None) -> LocatedInode:
        """Return an inode with the policies that it inherits from the directory `above`."""
        policy, coding = inode.file.storagePolicyID, ""
        if inode.HasField("directory"):
            policy, own = own_policies(inode.directory, self.names)
            coding = own or (above.coding if above else "")
        elif inode.file.HasField("erasureCodingPolicyID"):
            number = inode.file.erasureCodingPolicyID
            found = self.erasure_policies.get(number)
            coding = str(number) if found is None else found.name
        return LocatedInode(inode, snapshot, policy or (above.policy if above else UNSPECIFIED_POLICY), coding)

    def _present_children(self, directory_id: int, behind: bytes) -> Iterator[pb.INode]:
        plain, referred = self._entry(directory_id)
        if not referred.size:
            for child in plain[self._first(directory_id, behind) if behind else 0 :].tolist():
                if (found := self._inode(child)) is not None:
                    yield found
            return
        inodes = [self._inode(child) for child in np.concatenate([plain, referred]).tolist()]
        found_inodes = [found for found in inodes if found is not None and name_key(found.name) > name_key(behind)]
        yield from sorted(found_inodes, key=lambda found: name_key(found.name))

    @functools.cached_property
    def _totals(self) -> Numbers:
        """`SubtreeTotals` of the descendants, by row of a directory with children."""
        arrays, place = self._index.arrays, self._image.place("INODE")
        parents = place_inodes(self._image, arrays, self._allocator)
        totals: Numbers = self._allocator.zeros((arrays.directory_ids.size, _COUNTS), np.int64)
        for first in range(0, parents.size, _BATCH):
            columns = read_inode_columns(self._index.inode_buffer, arrays.offsets.part(first, first + _BATCH), place)
            rows = parents[first : first + _BATCH]
            placed = rows >= 0
            space = self._space(columns.length, columns.replication, columns.ec_policy)
            is_directory = columns.kind == DIRECTORY
            for number, values in enumerate((~is_directory, is_directory, columns.length, space)):
                sized = values if number < 2 else np.where(columns.kind == FILE, values, 0)
                np.add.at(totals[:, number], rows[placed], sized[placed])
        chain = chain_directories(self._image, arrays, parents, self._allocator)
        add_upwards(chain.parents, chain.order, totals)
        return totals

    def _space(self, length: Numbers, replication: Numbers, coding: Numbers) -> Numbers:
        """Return the bytes of files with replicas or parity; `coding` is the id of their policy, -1 for none."""
        space = length * replication
        for number in np.unique(coding).tolist():
            if (policy := self.erasure_policies.get(number)) is not None:
                striped = coding == number
                space[striped] = raw_bytes(length[striped], policy)
        return space

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
            inode = self._inode(referred)
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

    def _inode(self, inode_id: int) -> pb.INode | None:
        slot = self._index.slot(inode_id)
        if slot < 0:
            return None
        place = self._image.place("INODE")
        record = read_record(self._index.inode_buffer.data, self._index.inode_offset(slot), place)
        return parse_message(pb.INode, record, place)
