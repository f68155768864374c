"""Read access to a namespace: an image, or the namespace that a daemon keeps up to date.

WebHDFS and ClientProtocol build their responses from these reads. `places_along` resolves a path.
"""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.java_numbers import signed32, signed64
from hadoop_common.storage_policies import UNSPECIFIED_POLICY
from image_format.erasure_policies import ErasurePolicy, raw_bytes
from image_format.errors import RecordError
from image_format.index import Ids, ImageIndex
from image_format.kernels.scan import count_children, find_id
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message, read_record
from image_tools.dump.values import SerialNames, own_policies
from image_tools.image_diffs import ImageDiffs

DOT_SNAPSHOT = b".snapshot"
BATCH_SECONDS = 0.02
"""Duration, in seconds, of a read between two pauses (`NamespaceBrowser.pause`)."""


class SubtreeTotals(NamedTuple):
    """Sums of a subtree, including its top.

    Attributes:
        length: bytes of all files; `space`: bytes with replicas or parity.
    """

    files: int
    directories: int
    length: int
    space: int

    def plus(self, more: SubtreeTotals) -> SubtreeTotals:
        return SubtreeTotals(*(one + other for one, other in zip(self, more, strict=True)))


NO_TOTALS = SubtreeTotals(0, 0, 0, 0)


class ContentTotals(NamedTuple):
    """Sums of a subtree as a NameNode counts them.

    Attributes:
        in_snapshots: the part that exists only in snapshots.
        types: bytes by the name of a storage type, if the top has storage type quotas.
    """

    totals: SubtreeTotals
    in_snapshots: SubtreeTotals = NO_TOTALS
    types: Mapping[str, int] = MappingProxyType({})


class LocatedInode(NamedTuple):
    """An inode at a path.

    Attributes:
        inode: the inode at that path; in a snapshot, with its attributes and name at that time.
        snapshot: id of the snapshot in the path, None for the current tree.
        policy: id of the effective storage policy, set on the inode or inherited; 0 if none.
        coding: name of the effective erasure coding policy; "" if none. Files do not inherit a policy.
    """

    inode: pb.INode
    snapshot: int | None = None
    policy: int = UNSPECIFIED_POLICY
    coding: str = ""


class SnapshotFolder(NamedTuple):
    """The `.snapshot` folder of `directory`; `directory` is None if the path has no directory.

    Attributes:
        snapshots: the directory in each snapshot, under the name of the snapshot; None if the directory is not
            snapshottable.
    """

    directory: LocatedInode | None
    snapshots: list[LocatedInode] | None


Place = LocatedInode | SnapshotFolder | None


class ChildPage(NamedTuple):
    """Some consecutive children of a directory in name order, and the number of children after them."""

    entries: list[LocatedInode]
    remaining: int


Enter = Callable[[LocatedInode], None]


class ChildIds(NamedTuple):
    """Children of a directory: ids of plain children in name order, and ids of the other children by name."""

    plain: Ids
    named: dict[bytes, int]


class NamespaceBrowser(ABC):
    """Read access to a namespace: its base image, and any later changes.

    Every method raises RecordError if a record is damaged.

    Attributes:
        index: index of the image.
        names: decodes owners, ACL entries and attributes.
        hadoop3: whether the namespace belongs to Hadoop 3.
        erasure_policies: erasure coding policies by id.
        past: the snapshot diffs.
    """

    index: ImageIndex
    names: SerialNames
    hadoop3: bool
    erasure_policies: Mapping[int, ErasurePolicy]
    past: ImageDiffs

    @abstractmethod
    def pause(self) -> None:
        """Let a daemon apply edits to the namespace between two parts of a read."""

    # ---- inodes --------------------------------------------------------------------------------------------

    def root(self) -> LocatedInode | None:
        """Return the root of the tree."""
        inode = self.inode(ROOT_INODE_ID)
        return None if inode is None else self._place(inode, None, None)

    def inode(self, inode_id: int) -> pb.INode | None:
        """Return an inode with its present attributes, even if it exists only in snapshots; None if missing."""
        slot = self.index.slot(inode_id)
        if slot < 0:
            return None
        place = self.index.place("INODE")
        record = read_record(self.index.inode_buffer.data, self.index.inode_offset(slot), place)
        return parse_message(pb.INode, record, place)

    def inode_at(self, inode_id: int, snapshot: int) -> pb.INode | None:
        """Return an inode with its attributes at a snapshot; see `ImageDiffs.revert`."""
        inode = self.inode(inode_id)
        if inode is not None:
            self.past.revert(inode, snapshot)
        return inode

    def chain(self, inode_id: int, *, deleted: bool = False) -> list[LocatedInode]:
        """Return the inodes from the root to an inode; an empty list if the current tree does not contain it.

        Args:
            deleted: whether to include inodes that exist only in snapshots (INode.getFullPathName).
        """
        places: list[LocatedInode] = []
        for each in self._ids_above(inode_id, deleted=deleted):
            inode = self.inode(each)
            if inode is None:
                return []
            places.append(self._place(inode, None, places[-1] if places else None))
        return places if places and signed64(places[0].inode.id) == ROOT_INODE_ID else []

    @abstractmethod
    def _ids_above(self, inode_id: int, *, deleted: bool) -> list[int]:
        """Return the ids from the topmost ancestor to the inode; without `deleted`, only if a directory contains it."""

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

    # ---- children ------------------------------------------------------------------------------------------

    def child(self, place: LocatedInode, name: bytes) -> LocatedInode | None:
        """Return a child of an inode by name, or None if it is missing."""
        if not place.inode.HasField("directory"):
            return None
        directory_id = signed64(place.inode.id)
        if place.snapshot is not None:
            changed = self.past.names_at(directory_id, place.snapshot)
            if name in changed:
                entry = changed[name]
                return None if entry is None else self._at(place, entry.inode_id, name)
        inode_id = self._child_id(directory_id, name)
        return self._at(place, inode_id, name) if inode_id else None

    def _at(self, above: LocatedInode, inode_id: int, name: bytes = b"") -> LocatedInode | None:
        """Return an inode below a place, under `name` if its present name differs; None if missing."""
        inode = self.inode(inode_id) if above.snapshot is None else self.inode_at(inode_id, above.snapshot)
        if inode is None:
            return None
        inode.name = name or inode.name
        return self._place(inode, above.snapshot, above)

    def _child_id(self, directory_id: int, name: bytes) -> int:
        """Return the id of a present child, or 0 if it is missing."""
        found = self.index.child(directory_id, name) or self._referred(directory_id).get(name, 0)
        self._forget(directory_id)
        return found

    def _forget(self, directory_id: int) -> None:
        """Release the entry of a directory."""
        self.index.forget_directory(directory_id)

    def _referred(self, directory_id: int) -> dict[bytes, int]:
        """Return the ids of the present children that are references, by name."""
        found = {}
        for number in self.index.reference_children(directory_id).tolist():
            reference = self.index.snapshot_index.reference(number)
            inode = self.inode(signed64(reference.referredId))
            if inode is not None:
                found[reference.name or inode.name] = signed64(inode.id)
        return found

    def named_children(self, directory_id: int) -> dict[bytes, int]:
        """Return the ids of the present children of a directory by name, without plain children.

        Raises:
            ReadRefusedError: the directory has too many changes to read them in time.
        """
        return self._referred(directory_id)

    def child_ids(self, directory_id: int, behind: bytes = b"") -> ChildIds:
        """Return the present children of a directory; plain children only with names after `behind`.

        Raises:
            ReadRefusedError: see `named_children`.
        """
        named = self.named_children(directory_id)
        plain = self.index.children(directory_id)
        if behind and plain.size:
            positions, found = self.index.locate(directory_id, [behind])
            plain = plain[int(positions[0]) + bool(found[0]) :]
        self._forget(directory_id)
        return ChildIds(plain, named)

    def child_ids_at(self, directory_id: int, snapshot: int, behind: bytes = b"") -> ChildIds:
        """Return the children that a directory had at a snapshot; otherwise as in `child_ids`."""
        changed = self.past.names_at(directory_id, snapshot)
        plain, named = self.child_ids(directory_id, behind)
        if changed:
            replaced = self.index.children(directory_id)
            if replaced.size:
                positions, found = self.index.locate(directory_id, sorted(changed, key=name_key))
                plain = plain[~np.isin(plain, replaced[positions[found]])]
            self._forget(directory_id)
            named = {name: each for name, each in named.items() if name not in changed}
            named |= {name: entry.inode_id for name, entry in changed.items() if entry is not None}
        return ChildIds(plain, named)

    def children(self, place: LocatedInode) -> Iterator[LocatedInode]:
        """Yield the children of a directory in name order."""
        plain, named = self._ids_below(place, b"")
        return self._in_order(place, plain, named, sorted((name_key(name), name) for name in named))

    def page(self, place: LocatedInode, behind: bytes, limit: int) -> ChildPage:
        """Return at most `limit` children of a directory with names after `behind`."""
        plain, named = self._ids_below(place, behind)
        others = [(key, name) for name in named if (key := name_key(name)) > name_key(behind)]
        found = self._in_order(place, plain[:limit], named, heapq.nsmallest(limit, others))
        entries = list(itertools.islice(found, limit))
        return ChildPage(entries, plain.size + len(others) - len(entries))

    def _ids_below(self, place: LocatedInode, behind: bytes) -> ChildIds:
        directory_id = signed64(place.inode.id)
        if place.snapshot is None:
            return self.child_ids(directory_id, behind)
        return self.child_ids_at(directory_id, place.snapshot, behind)

    def _in_order(
        self, place: LocatedInode, plain: Ids, named: dict[bytes, int], others: list[tuple[bytes, bytes]]
    ) -> Iterator[LocatedInode]:
        """Merge plain children and `others`, which are sorted (key, name) pairs, by name."""
        touched = ((key, found) for key, name in others if (found := self._at(place, named[name], name)))
        untouched = ((name_key(each.inode.name), each) for i in map(int, plain) if (each := self._at(place, i)))
        return (each for _, each in heapq.merge(untouched, touched, key=itemgetter(0)))

    def child_count(self, place: LocatedInode) -> int:
        """Return the number of children of a directory; 0 for other inodes."""
        if not place.inode.HasField("directory"):
            return 0
        inode_id = signed64(place.inode.id)
        if place.snapshot is not None and self.past.names_at(inode_id, place.snapshot):
            plain, named = self.child_ids_at(inode_id, place.snapshot)
            return plain.size + len(named)
        return self._present_count(inode_id)

    def _present_count(self, directory_id: int) -> int:
        """Return the present number of children of a directory, without decoding them."""
        row = int(find_id(self.index.directory_ids, directory_id))
        if row < 0:
            return 0
        offset = int(self.index.arrays.directory_offsets[row])
        plain, references = count_children(self.index.directory_buffer, offset)
        if plain < 0:
            place = self.index.place("INODE_DIR")
            raise place.error(RecordError, f"damaged entry of directory {directory_id}", offset)
        return int(plain + references)

    # ---- snapshots -----------------------------------------------------------------------------------------

    def is_snapshottable(self, place: LocatedInode) -> bool:
        """Return whether a directory of the current tree is snapshottable."""
        if place.snapshot is not None or not place.inode.HasField("directory"):
            return False
        return self._has_snapshots(signed64(place.inode.id))

    @abstractmethod
    def _has_snapshots(self, inode_id: int) -> bool:
        """Return whether an inode is a snapshottable directory."""

    @abstractmethod
    def snapshottable(self) -> list[int]:
        """Return the ids of the snapshottable directories."""

    def snapshot_folder(self, place: LocatedInode | None) -> SnapshotFolder:
        """Return the `.snapshot` folder of an inode in the current tree."""
        if place is None or not self.is_snapshottable(place):
            return SnapshotFolder(place, None)
        roots = self._snapshots_of(signed64(place.inode.id))
        return SnapshotFolder(place, [self._place(root, number, place) for number, root in roots])

    @abstractmethod
    def _snapshots_of(self, directory_id: int) -> Iterable[tuple[int, pb.INode]]:
        """Return the id and root of each snapshot of a directory, in name order; the root has the snapshot's name."""

    # ---- sums ----------------------------------------------------------------------------------------------

    @abstractmethod
    def content(self, place: LocatedInode, enter: Enter | None = None) -> ContentTotals:
        """Return the sums of the subtree at an inode; a symlink counts as an empty file.

        Args:
            enter: called with each directory before its children, in name order; an exception ends the walk.
        """


def space_consumed(policies: Mapping[int, ErasurePolicy], length: Ids, replication: Ids, coding: Ids) -> Ids:
    """Return the bytes of files with replicas or parity; `coding` is the id of their policy, or -1."""
    space = length * replication
    for number in np.unique(coding).tolist():
        if (policy := policies.get(number)) is not None:
            striped = coding == number
            space[striped] = raw_bytes(length[striped], policy)
    return space


def leaf_totals(inode: pb.INode, policies: Mapping[int, ErasurePolicy]) -> SubtreeTotals:
    """Return the sums of a file or symlink; the last block of an open file counts with its full size on disk."""
    file = inode.file
    length = sum(signed64(block.numBytes) for block in file.blocks)
    stored = length
    if file.HasField("fileUC") and file.blocks:
        stored += signed64(file.preferredBlockSize) - signed64(file.blocks[-1].numBytes)
    coding = file.erasureCodingPolicyID if file.HasField("erasureCodingPolicyID") else -1
    columns = [np.array([each], np.int64) for each in (stored, signed32(file.replication), coding)]
    return SubtreeTotals(1, 0, length, int(space_consumed(policies, *columns)[0]))


def places_along(browser: NamespaceBrowser, start: LocatedInode | None, names: Iterable[bytes]) -> list[Place]:
    """Return the places of a path relative to `start`, which is the first place; empty names are ignored.

    Each component has a place; None represents a missing inode.
    """
    places: list[Place] = [start]
    for name in filter(None, names):
        place = places[-1]
        if isinstance(place, SnapshotFolder):
            place = next((each for each in place.snapshots or () if each.inode.name == name), None)
        elif name == DOT_SNAPSHOT and (place is None or place.snapshot is None):
            place = browser.snapshot_folder(place)
        elif place is not None:
            place = browser.child(place, name)
        places.append(place)
    return places
