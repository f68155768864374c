"""The interface of a namespace that can be read: an image, or the namespace that a daemon keeps up to date.

WebHDFS and ClientProtocol answer from it. `places_along` resolves a path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import UNSPECIFIED_POLICY
from image_format.policies import ErasurePolicy, raw_bytes
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import SerialNames, own_policies, signed32, signed64

DOT_SNAPSHOT = b".snapshot"
BATCH_SECONDS = 0.02
"""Time of a read between two pauses (`NamespaceBrowser.pause`)."""

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

    def plus(self, more: SubtreeTotals) -> SubtreeTotals:
        return SubtreeTotals(*(one + other for one, other in zip(self, more, strict=True)))


NO_TOTALS = SubtreeTotals(0, 0, 0, 0)


class ContentTotals(NamedTuple):
    """Sums of a subtree as a NameNode counts them; `in_snapshots` is the part that only snapshots have."""

    totals: SubtreeTotals
    in_snapshots: SubtreeTotals = NO_TOTALS


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


Place = LocatedInode | SnapshotFolder | None


class ChildPage(NamedTuple):
    """Some children of a directory in name order, and the number of children after them."""

    entries: list[LocatedInode]
    remaining: int


Enter = Callable[[LocatedInode], None]


class NamespaceBrowser(Protocol):
    """Read access to a namespace. Every method raises RecordError if a record is damaged."""

    @property
    def names(self) -> SerialNames:
        """Decoder of owners, ACL entries and attributes."""

    @property
    def hadoop3(self) -> bool:
        """Whether it is a namespace of Hadoop 3."""

    @property
    def erasure_policies(self) -> Mapping[int, ErasurePolicy]:
        """Erasure coding policies by id."""

    def root(self) -> LocatedInode | None:
        """Return the root of the tree."""

    def pause(self) -> None:
        """Let a namespace that is kept up to date change, between two parts of a read."""

    def inode(self, inode_id: int) -> pb.INode | None:
        """Return an inode, also one that only snapshots have; None if it is missing."""

    def chain(self, inode_id: int, *, deleted: bool = False) -> Sequence[LocatedInode]:
        """Return the inodes from the root to an inode; none if the current tree does not contain it.

        Args:
            deleted: return those of an inode that only snapshots have, too (INode.getFullPathName).
        """

    def child(self, place: LocatedInode, name: bytes) -> LocatedInode | None:
        """Return a child of an inode by name, None if it is missing."""

    def snapshot_folder(self, place: LocatedInode | None) -> SnapshotFolder:
        """Return `.snapshot` of an inode of the current tree."""

    def is_snapshottable(self, place: LocatedInode) -> bool:
        """Return whether a directory of the current tree is snapshottable."""

    def snapshottable(self) -> Sequence[int]:
        """Return the ids of the snapshottable directories."""

    def child_count(self, place: LocatedInode) -> int:
        """Return the number of children of a directory; 0 for other inodes."""

    def page(self, place: LocatedInode, behind: bytes, limit: int) -> ChildPage:
        """Return at most `limit` children of a directory with names after `behind`."""

    def content(self, place: LocatedInode, enter: Enter | None = None) -> ContentTotals:
        """Return the sums of the subtree at an inode; a symlink counts as an empty file.

        Args:
            enter: called with each directory before its children, in name order; what it raises ends the walk.
        """


def space_consumed(
    policies: Mapping[int, ErasurePolicy], length: Numbers, replication: Numbers, coding: Numbers
) -> Numbers:
    """Return the bytes of files with replicas or parity; `coding` is the id of their policy, -1 for none."""
    space = length * replication
    for number in np.unique(coding).tolist():
        if (policy := policies.get(number)) is not None:
            striped = coding == number
            space[striped] = raw_bytes(length[striped], policy)
    return space


def leaf_totals(inode: pb.INode, policies: Mapping[int, ErasurePolicy]) -> SubtreeTotals:
    """Return the sums of a file or symlink; the last block of an open file takes its full size of disk."""
    file = inode.file
    length = sum(signed64(block.numBytes) for block in file.blocks)
    stored = length
    if file.HasField("fileUC") and file.blocks:
        stored += signed64(file.preferredBlockSize) - signed64(file.blocks[-1].numBytes)
    coding = file.erasureCodingPolicyID if file.HasField("erasureCodingPolicyID") else -1
    columns = [np.array([each], np.int64) for each in (stored, signed32(file.replication), coding)]
    return SubtreeTotals(1, 0, length, int(space_consumed(policies, *columns)[0]))


def placed(
    inode: pb.INode,
    snapshot: int | None,
    above: LocatedInode | None,
    names: SerialNames,
    policies: Mapping[int, ErasurePolicy],
) -> LocatedInode:
    """Return an inode with the policies that it inherits from the directory `above`."""
    policy, coding = inode.file.storagePolicyID, ""
    if inode.HasField("directory"):
        policy, own = own_policies(inode.directory, names)
        coding = own or (above.coding if above else "")
    elif inode.file.HasField("erasureCodingPolicyID"):
        number = inode.file.erasureCodingPolicyID
        found = policies.get(number)
        coding = str(number) if found is None else found.name
    return LocatedInode(inode, snapshot, policy or (above.policy if above else UNSPECIFIED_POLICY), coding)


def places_along(browser: NamespaceBrowser, start: LocatedInode | None, names: Iterable[bytes]) -> list[Place]:
    """Return the places of a path relative to `start`, which is the first; empty names are ignored.

    Each place has its component, and None stands for a missing inode.
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
