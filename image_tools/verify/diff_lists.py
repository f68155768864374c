"""Records of SNAPSHOT_DIFF, and the check of an inode's created and deleted lists against the tree."""

from __future__ import annotations

import itertools
from array import array
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from hadoop_common.quantities import counted
from image_format.errors import BufferOrigin
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, parse_message, read_record
from image_tools.verify.catalogue import Severity
from image_tools.verify.directories import DirectoryCheck
from image_tools.verify.inodes import SYMLINK, InodeArrays
from image_tools.verify.namesystem import BlockMaxima
from image_tools.verify.references import ReferenceCheck
from image_tools.verify.snapshots import SnapshotCheck
from image_tools.verify.strings import StringTableCheck
from image_tools.verify.view import SectionView

M = TypeVar("M", bound=Message)
Diff = pb.FileDiff | pb.DirectoryDiff


@dataclass
class DiffBlock:
    """The diffs of an inode in SNAPSHOT_DIFF.

    Attributes:
        start, end: offsets in the section.
        diffs: the diffs, newest first.
        created: the created names of each diff; empty for file diffs.
    """

    start: int
    end: int
    header: pb.DiffEntry
    diffs: list[Diff]
    created: list[list[pb.CreatedListEntry]]


class _DiffReader:
    def __init__(self, data: memoryview, start: int, place: BufferOrigin) -> None:
        self._data, self._place, self.position = data, place, start

    def read(self, kind: type[M]) -> M:
        record = read_record(self._data, self.position, self._place)
        self.position = record.end
        return parse_message(kind, record, self._place)


def read_block(data: memoryview, start: int, end: int, place: BufferOrigin) -> DiffBlock:
    """Decode the DiffEntry at `start` and its diffs, up to the next entry at `end`.

    Raises:
        RecordError: a record is not the expected message.
    """
    reader = _DiffReader(data, start, place)
    block = DiffBlock(start, end, reader.read(pb.DiffEntry), [], [])
    for _ in range(block.header.numOfDiff):
        if block.header.type == pb.DiffEntry.FILEDIFF:
            block.diffs.append(reader.read(pb.FileDiff))
            block.created.append([])
        else:
            diff = reader.read(pb.DirectoryDiff)
            block.diffs.append(diff)
            block.created.append([reader.read(pb.CreatedListEntry) for _ in range(diff.createdListSize)])
    return block


def encode_block(block: DiffBlock) -> bytes:
    """Encode the block's records with correct counts."""
    block.header.numOfDiff = len(block.diffs)
    parts = [encode_delimited(block.header)]
    for diff, created in zip(block.diffs, block.created, strict=True):
        if isinstance(diff, pb.DirectoryDiff) and (created or diff.createdListSize):
            diff.createdListSize = len(created)
        parts.append(encode_delimited(diff))
        parts += map(encode_delimited, created)
    return b"".join(parts)


Ids = npt.NDArray[np.int64]


class DiffLists:
    """The content of all deleted lists.

    Attributes:
        sources, targets: slots of the directory and of the inode, for each deleted inode, sorted by source after
            `finish`.
        deleted: whether the inode is in a deleted list, by slot.
        users: slot of the directory with the reference in a deleted list, by reference number; -1 if unused.
    """

    def __init__(self, inodes: InodeArrays, directories: DirectoryCheck, references: ReferenceCheck) -> None:
        self.inodes, self.directories, self.references = inodes, directories, references
        self.deleted = np.zeros(inodes.count, np.bool_)
        self.users: Ids = np.full(references.count, -1, np.int64)
        self.sources: Ids = np.zeros(0, np.int64)
        self.targets: Ids = np.zeros(0, np.int64)
        self._edges = (array("q"), array("q"))

    def add(self, source: int, target: int) -> None:
        self._edges[0].append(source)
        self._edges[1].append(target)

    def finish(self) -> None:
        """Sort the added inodes."""
        sources, targets = (np.array(column, np.int64) for column in self._edges)
        order = np.argsort(sources, kind="stable")
        self.sources, self.targets = sources[order], targets[order]


class DiffListCheck:
    """Check of the diffs of all inodes, one inode at a time.

    Args:
        repair: whether to correct the diffs, including serials and reference numbers.
    """

    def __init__(
        self,
        view: SectionView,
        lists: DiffLists,
        snapshots: SnapshotCheck,
        strings: StringTableCheck,
        maxima: BlockMaxima,
        *,
        repair: bool,
    ) -> None:
        self._view, self._lists, self._snapshots = view, lists, snapshots
        self._strings, self._maxima, self._repair = strings, maxima, repair
        self._numbers = lists.references.numbers()
        self._inode = 0
        self._offset = 0
        self._changed = False
        self._never_left: set[bytes] = set()

    def check(self, block: DiffBlock) -> bool:
        """Report the faults of a `DiffBlock` and correct them; return whether the block changed."""
        self._inode, self._offset, self._changed = int(block.header.inodeId), block.start, False
        self._check_order(block)
        for diff in block.diffs:
            self._check_snapshot(diff)
            self._check_copy(diff)
        if block.header.type == pb.DiffEntry.DIRECTORYDIFF:
            self._check_directory(block)
        return self._changed

    def _add(self, code: str, message: str, inode: int | None = None, severity: Severity | None = None) -> None:
        chosen = self._inode if inode is None else inode
        self._view.add(code, message, self._offset, inode=chosen, severity=severity)

    # ---- the list ------------------------------------------------------------------------------------------

    def _check_order(self, block: DiffBlock) -> None:
        numbers = [diff.snapshotId for diff in block.diffs]
        if any(a < b for a, b in itertools.pairwise(numbers)):
            self._add("diff-order", f"the diffs of inode {self._inode} are not newest first")
            order = sorted(range(len(numbers)), key=lambda index: -numbers[index])
            block.diffs = [block.diffs[index] for index in order]
            block.created = [block.created[index] for index in order]
            self._changed = True
        kept = [
            index
            for index, diff in enumerate(block.diffs)
            if index == 0 or diff.snapshotId != block.diffs[index - 1].snapshotId
        ]
        if len(kept) < len(block.diffs):
            self._add("diff-snapshot-twice", f"two diffs of inode {self._inode} belong to the same snapshot")
            block.diffs = [block.diffs[index] for index in kept]
            block.created = [block.created[index] for index in kept]
            self._changed = True

    def _check_snapshot(self, diff: pb.FileDiff | pb.DirectoryDiff) -> None:
        root = self._snapshots.roots.get(diff.snapshotId)
        is_root = isinstance(diff, pb.DirectoryDiff) and diff.isSnapshotRoot
        if root is None and isinstance(diff, pb.DirectoryDiff) and is_root:
            text = f"inode {self._inode} has the root diff of snapshot {diff.snapshotId}, which does not exist"
            self._add("diff-root", text)
            diff.isSnapshotRoot = False
            self._changed = True
        elif root is None:
            self._add("diff-snapshot", f"no snapshot has the id {diff.snapshotId}")
        elif is_root and root != self._inode:
            text = f"inode {self._inode} has a root diff of snapshot {diff.snapshotId}, which belongs to inode {root}"
            self._add("diff-root-other", text)

    def _check_copy(self, diff: pb.FileDiff | pb.DirectoryDiff) -> None:
        if isinstance(diff, pb.FileDiff):
            self._maxima.take(diff.blocks)
        if not diff.HasField("snapshotCopy"):
            return
        for code, serial in self._strings.missing(diff.snapshotCopy):
            self._add(code, f"a copy uses serial {serial}, which is missing from the string table")
        if self._repair and self._strings.move(diff.snapshotCopy):
            self._changed = True

    # ---- created and deleted lists -------------------------------------------------------------------------

    def _check_directory(self, block: DiffBlock) -> None:
        slot = self._lists.inodes.slot(self._inode)
        wanted = [entry.name for created in block.created for entry in created]
        known = self._lists.directories.present(slot, wanted) if wanted else set()
        size = self._lists.directories.size(slot) if block.diffs else 0
        for index, diff in enumerate(block.diffs):
            assert isinstance(diff, pb.DirectoryDiff)
            size += len(diff.deletedINode) + len(diff.deletedINodeRef) - len(block.created[index])
            if diff.childrenSize != size:
                text = f"childrenSize of snapshot {diff.snapshotId} is {diff.childrenSize}, but the lists have {size}"
                self._add("diff-size", text)
            created = self._check_created(block.created[index], known)
            known |= self._check_deleted(slot, diff)
            block.created[index] = [entry for entry in created if entry.name not in self._never_left]

    def _check_created(self, created: list[pb.CreatedListEntry], known: set[bytes]) -> list[pb.CreatedListEntry]:
        by_name: dict[bytes, pb.CreatedListEntry] = {}
        keys = [name_key(entry.name) for entry in created]
        if any(a >= b for a, b in itertools.pairwise(keys)):
            text = f"created names of directory {self._inode} are out of order, or a name is listed twice"
            self._add("diff-created-order", text)
            self._changed = True
        for entry in created:
            if entry.name in known:
                by_name.setdefault(entry.name, entry)
                continue
            shown = entry.name.decode("utf-8", "backslashreplace")
            text = f"created name {shown!r} of directory {self._inode} is neither a child nor deleted later"
            self._add("diff-created", text)
            self._changed = True
        return sorted(by_name.values(), key=lambda entry: name_key(entry.name))

    def _check_deleted(self, slot: int, diff: pb.DirectoryDiff) -> set[bytes]:
        """Correct both deleted lists; return their names."""
        self._never_left = set()
        named: dict[bytes, int] = {}
        inodes = self._deleted_inodes(slot, diff, named)
        names = set(named)
        references = self._deleted_references(slot, diff, names)
        if inodes != list(diff.deletedINode):
            del diff.deletedINode[:]
            diff.deletedINode.extend(inodes)
            self._changed = True
        if references != list(diff.deletedINodeRef):
            self._changed = True
            del diff.deletedINodeRef[:]
            diff.deletedINodeRef.extend(references)
        return names

    def _deleted_inodes(self, slot: int, diff: pb.DirectoryDiff, named: dict[bytes, int]) -> list[int]:
        keys: list[bytes] = []
        lists = self._lists
        for inode_id in diff.deletedINode:
            at = lists.inodes.slot(inode_id)
            if at < 0:
                text = f"deleted inode {inode_id} of directory {self._inode} is not in the image"
                self._add("diff-deleted", text, inode_id)
                continue
            if lists.directories.owner[at] >= 0 or lists.deleted[at]:
                text = f"deleted inode {inode_id} of directory {self._inode} is also in another list"
                if lists.inodes.kinds[at] != SYMLINK:
                    self._add("diff-deleted-twice", text, inode_id)
                    if lists.directories.owner[at] == slot:
                        # The child is also in the created list; both entries are removed, so that the snapshot keeps
                        # the child.
                        self._never_left.add(lists.inodes.name(at))
                    continue
                # A copy of a symlink shares its record, and a NameNode loads it.
                self._add("diff-deleted-twice", text, inode_id, Severity.INFO)
            name = lists.inodes.name(at)
            if name in named:
                text = f"two deleted inodes of directory {self._inode} have the name of inode {inode_id}"
                self._add("diff-deleted-name", text, inode_id)
                continue
            lists.deleted[at] = True
            lists.add(slot, at)
            named[name] = inode_id
            keys.append(name_key(name))
        if keys != sorted(keys):
            self._add("diff-deleted-order", f"deleted inodes of directory {self._inode} are not in name order")
        return [named[name] for name in sorted(named, key=name_key)]

    def _deleted_references(self, slot: int, diff: pb.DirectoryDiff, names: set[bytes]) -> list[int]:
        lists, references = self._lists, self._lists.references
        kept: list[tuple[bytes, int]] = []
        for number in diff.deletedINodeRef:
            if number >= references.count:
                present = counted(references.count, "reference")
                text = f"directory {self._inode} uses reference {number}, but the image has only {present}"
                self._add("diff-reference-range", text)
                continue
            if references.owner[number] >= 0 or lists.users[number] >= 0:
                self._add("diff-reference-twice", f"reference {number} is already used")
                continue
            lists.users[number] = slot
            if not references.kept[number]:
                continue
            name = references.name(number)
            if name in names:
                self._add("diff-deleted-name", f"reference {number} has the name of another deleted inode")
                continue
            names.add(name)
            lists.add(slot, int(references.referred[number]))
            kept.append((name_key(name), number))
        if kept != sorted(kept):
            self._add("diff-deleted-order", f"deleted references of directory {self._inode} are not in name order")
            kept.sort()
        return [int(self._numbers[number]) if self._repair else number for _, number in kept]
