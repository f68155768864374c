"""Check of WithName references below other WithName references: the inner name must not end before the outer name.

A NameNode that loads an image computes quota usage. Below a WithName, it uses the lastSnapshotId of this name,
and fails at an inner WithName with a lower lastSnapshotId (INodeReference.WithName.computeQuotaUsage). Successful
renames never cause this fault, but an undone rename can.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, parse_message, read_record
from image_tools.verify.diff_lists import DiffLists
from image_tools.verify.diffs import DiffCheck
from image_tools.verify.fixes import Fixes
from image_tools.verify.inodes import DIRECTORY, InodeArrays
from image_tools.verify.kernels.tree_audit import WITH_NAME

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Child:
    """A child of a directory: a plain inode or a reference.

    Attributes:
        slot: position of the inode in INODE.
        number: number of the reference, -1 for a plain inode.
    """

    slot: int
    number: int


@dataclass(frozen=True, slots=True)
class _DiffNames:
    """A diff of a directory."""

    snapshot: int
    created: frozenset[bytes]
    deleted: dict[bytes, _Child]


class NameEndCheck:
    """Check of the ends of names, which runs after all lists have been read."""

    def __init__(self, inodes: InodeArrays, lists: DiffLists, diffs: DiffCheck) -> None:
        self._inodes, self._lists, self._diffs = inodes, lists, diffs
        self._references = lists.references
        self._read: dict[int, list[_DiffNames]] = {}

    def check(self, fixes: Fixes | None) -> None:
        """Report each name that ends too early; with `fixes`, raise its last snapshot."""
        references = self._references
        names = np.flatnonzero((references.kinds == WITH_NAME) & references.kept & (references.referred >= 0))
        outer = names[self._inodes.kinds[references.referred[names]] == DIRECTORY]
        if not outer.size or names.size < 2:
            return
        items = self._ways_to(names)
        needed: dict[int, int] = {}
        for number in outer.tolist():
            self._look_below(number, items, needed)
        for number, snapshot in sorted(needed.items()):
            slot, ended = int(references.referred[number]), int(references.snapshots[number])
            text = f"reference {number} has a name up to snapshot {ended}, but a directory above it has a name up to "
            offset = int(references.offsets[number])
            references.view.add("reference-snapshot", f"{text}{snapshot}", offset, inode=self._inodes.inode_id(slot))
            if fixes is not None:
                self._raise(number, snapshot, fixes)

    def _ways_to(self, names: Ids) -> dict[int, list[_Child]]:
        """Return, by directory slot, the current and past children that are one of `names` or lead to one of them."""
        references, lists = self._references, self._lists
        by_inode: dict[int, list[int]] = {}
        for number in np.flatnonzero(references.kept & (references.referred >= 0)).tolist():
            by_inode.setdefault(int(references.referred[number]), []).append(number)
        deleters: dict[int, int] = dict(zip(lists.targets.tolist(), lists.sources.tolist(), strict=True))
        ways: dict[int, list[_Child]] = {}
        waiting = [_Child(int(references.referred[number]), number) for number in names.tolist()]
        seen = set(waiting)
        while waiting:
            item = waiting.pop()
            holder = self._holder(item, deleters)
            if holder < 0:
                continue
            first = holder not in ways
            ways.setdefault(holder, []).append(item)
            if first:
                above = [_Child(holder, -1), *(_Child(holder, number) for number in by_inode.get(holder, ()))]
                waiting += [each for each in above if each not in seen]
                seen.update(above)
        return ways

    def _holder(self, item: _Child, deleters: dict[int, int]) -> int:
        """Return the slot of an item's directory, or -1 for the root and for an unreachable item."""
        if item.number >= 0:
            owner = int(self._references.owner[item.number])
            return owner if owner >= 0 else int(self._lists.users[item.number])
        owner = int(self._lists.directories.owner[item.slot])
        if owner == item.slot:
            return -1
        return owner if owner >= 0 else deleters.get(item.slot, -1)

    def _look_below(self, outer: int, ways: dict[int, list[_Child]], needed: dict[int, int]) -> None:
        """Collect names below the reference `outer` that end before `outer`, each with the snapshot that it needs."""
        references = self._references
        snapshot = int(references.snapshots[outer])
        top = int(references.referred[outer])
        waiting, seen = [top], {top}
        while waiting:
            directory = waiting.pop()
            for item in ways.get(directory, ()):
                if not self._is_there(directory, item, snapshot):
                    continue
                named = item.number >= 0 and references.kinds[item.number] == WITH_NAME
                if named and int(references.snapshots[item.number]) < snapshot:
                    needed[item.number] = max(snapshot, needed.get(item.number, 0))
                if item.slot not in seen:
                    seen.add(item.slot)
                    waiting.append(item.slot)

    def _is_there(self, directory: int, item: _Child, snapshot: int) -> bool:
        """Return whether a directory contains an item at a snapshot (DirectoryWithSnapshotFeature.getChildrenList)."""
        name = self._name(item)
        for diff in reversed(self._diffs_of(directory)):
            if diff.snapshot < snapshot:
                continue
            if name in diff.deleted:
                return diff.deleted[name] == item
            if name in diff.created:
                return False
        if item.number >= 0:
            return int(self._references.owner[item.number]) == directory
        return int(self._lists.directories.owner[item.slot]) == directory

    def _name(self, item: _Child) -> bytes:
        return self._references.name(item.number) if item.number >= 0 else self._inodes.name(item.slot)

    def _diffs_of(self, directory: int) -> list[_DiffNames]:
        """Return a directory's diffs, newest first."""
        if directory not in self._read:
            block = self._diffs.block(self._inodes.inode_id(directory))
            found = []
            for diff, created in zip(block.diffs, block.created, strict=True) if block is not None else ():
                if not isinstance(diff, pb.DirectoryDiff):
                    continue
                items = [_Child(self._inodes.slot(inode_id), -1) for inode_id in diff.deletedINode]
                for number in diff.deletedINodeRef:
                    if number < self._references.count:
                        items.append(_Child(int(self._references.referred[number]), number))
                named = {self._name(item): item for item in items if item.slot >= 0}
                found.append(_DiffNames(diff.snapshotId, frozenset(entry.name for entry in created), named))
            self._read[directory] = found
        return self._read[directory]

    def _raise(self, number: int, snapshot: int, fixes: Fixes) -> None:
        """Raise a name's end to the lowest snapshot id, at least `snapshot`, at which no other name ends."""
        references = self._references
        slot = references.referred[number]
        others = (references.referred == slot) & (references.kinds == WITH_NAME) & references.kept
        taken = set(references.snapshots[others].tolist())
        while snapshot in taken:
            snapshot += 1
        record = read_record(references.view.data, int(references.offsets[number]), references.view.place)
        message = parse_message(pb.INodeReference, record, references.view.place)
        message.lastSnapshotId = snapshot
        references.snapshots[number] = snapshot
        fixes.replace(references.view.name, int(references.offsets[number]), record.end, encode_delimited(message))
