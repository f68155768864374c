"""Check and repair of INODE_DIR: the children of each directory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.quantities import counted
from image_format.errors import RecordError
from image_format.kernels.scan import collect_children, count_children, locate_names
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, parse_message, read_record
from image_tools.verify.findings import Findings
from image_tools.verify.fixes import Fixes
from image_tools.verify.frame import ImageFrame
from image_tools.verify.inodes import InodeArrays
from image_tools.verify.kernels import tree_audit as bits
from image_tools.verify.kernels.tree_audit import audit_directories
from image_tools.verify.references import ReferenceCheck
from image_tools.verify.view import SectionView

Ids = npt.NDArray[np.int64]
_RESERVED = b".reserved"
_FAULTS = ~bits.HAS_REFERENCES & 0xFFFF


class DirectoryContents(NamedTuple):
    """A directory's children (inode ids, in name order) and references (numbers)."""

    children: list[int]
    references: list[int]


class DirectoryCheck:
    """The entries of INODE_DIR.

    Attributes:
        parents, offsets, following, flags: arrays by entry; see `audit_directories`.
        owner: by slot, the slot of the first directory that lists the inode as a plain child, or -1.
        entry_of: by slot, the number of the directory's first entry, or -1.
    """

    def __init__(self, frame: ImageFrame, findings: Findings, inodes: InodeArrays, references: ReferenceCheck) -> None:
        self.view = SectionView(frame, "INODE_DIR", findings)
        self.buffer = np.frombuffer(self.view.data, np.uint8)
        self._inodes, self._references = inodes, references
        # four bytes for each inode, unless the image has more than 2^31 inodes
        small = np.int32 if inodes.count < 1 << 31 else np.int64
        self.owner: npt.NDArray[np.signedinteger[Any]] = np.full(inodes.count, -1, small)
        self.entry_of: npt.NDArray[np.signedinteger[Any]] = np.full(inodes.count, -1, small)
        self._referenced: set[int] = set()
        root = inodes.slot(ROOT_INODE_ID)
        if root >= 0:
            self.owner[root] = root
        self._scan()

    def _scan(self) -> None:
        kinds = (np.int64, np.int64, np.int64, np.uint16)
        arrays: list[npt.NDArray[Any]] = [np.empty(1024, kind) for kind in kinds]
        count = position = 0
        inodes = self._inodes
        while True:
            count, position, cut = audit_directories(
                self.buffer,
                position,
                *arrays,
                count,
                inodes.buffer,
                inodes.ids,
                inodes.slots,
                inodes.offsets,
                inodes.kinds,
                self.owner,
                self.entry_of,
                self._references.owner,
            )
            if cut or position >= self.buffer.size:
                break
            arrays = [np.concatenate([array, np.empty_like(array)]) for array in arrays]
        self.parents, self.offsets, self.following, self.flags = (array[:count].copy() for array in arrays)
        self.end = position
        if cut:
            self.view.damaged = True
            self.view.add("record-damaged", "the record is truncated", position)

    # ---- look-ups ------------------------------------------------------------------------------------------

    def entries(self, slot: int) -> list[int]:
        """Return the entries of a directory in file order; more than one is a fault."""
        found = []
        entry = int(self.entry_of[slot])
        while entry >= 0:
            found.append(entry)
            entry = int(self.following[entry])
        return sorted(found)

    def message(self, entry: int) -> pb.DirEntry:
        """Return a decoded entry.

        Raises:
            RecordError: the record is not a DirEntry.
        """
        record = read_record(self.view.data, int(self.offsets[entry]), self.view.place)
        return parse_message(pb.DirEntry, record, self.view.place)

    def arrays(self, entry: int) -> tuple[Ids, Ids]:
        """Return the stored children and references of an entry; empty if it is damaged."""
        offset = self.offsets[entry]
        plain, numbers = count_children(self.buffer, offset)
        children, references = np.empty(max(plain, 0), np.int64), np.empty(max(numbers, 0), np.int64)
        if plain >= 0:
            collect_children(self.buffer, offset, children, references)
        return children, references

    def size(self, slot: int) -> int:
        """Return the number of children and references of a directory."""
        return sum(part.size for entry in self.entries(slot) for part in self.arrays(entry))

    def present(self, slot: int, names: list[bytes]) -> set[bytes]:
        """Return the names among `names` that the directory currently contains, including references."""
        found: set[bytes] = set()
        for entry in self.entries(slot):
            children, numbers = self.arrays(entry)
            found |= {self._references.name(n) for n in numbers.tolist() if 0 <= n < self._references.count}
            if self.flags[entry] & (bits.UNSORTED | bits.CHILD_MISSING):
                found |= {self._inodes.name(s) for c in children.tolist() if (s := self._inodes.slot(c)) >= 0}
            elif children.size:
                found |= self._located(children, sorted(set(names), key=name_key))
        return found.intersection(names)

    def _located(self, children: Ids, names: list[bytes]) -> set[bytes]:
        """Find names among sorted children by binary search."""
        sizes = np.fromiter(map(len, names), np.int64, len(names))
        starts = np.cumsum(sizes) - sizes
        positions, found = np.empty(len(names), np.int64), np.zeros(len(names), np.bool_)
        inodes = self._inodes
        locate_names(
            children,
            *inodes.columns,
            inodes.buffer,
            np.frombuffer(b"".join(names), np.uint8),
            starts,
            sizes,
            positions,
            found,
        )
        return {name for name, hit in zip(names, found.tolist(), strict=True) if hit}

    # ---- findings ------------------------------------------------------------------------------------------

    def check(self, fixes: Fixes | None) -> None:
        """Report faults; with `fixes`, correct the entries."""
        damaged = self.flags & bits.ENTRY_DAMAGED != 0
        self.view.add_damaged("the record is not a DirEntry", self.offsets[damaged])
        for entry in np.flatnonzero(self.flags & bits.PARENT).tolist():
            offset = int(self.offsets[entry])
            try:
                parent = self.message(entry).parent
            except RecordError as error:
                self.view.report_damage(error)
                continue
            self.view.add("dir-parent", f"parent {parent} is not a directory of the image", offset, inode=parent)
            if fixes is not None:
                fixes.replace(self.view.name, *self.span(entry), b"")
        self._referenced = set(self._references.in_tree(self.owner))
        renumbered = self._references.renumbered
        for slot in self._suspects():
            contents, faulty = self._inspect(slot)
            if fixes is not None and (faulty or (renumbered and contents.references)):
                self._fix(slot, contents, fixes)
        # The parent of a referenced inode is the parent of the reference.
        self.owner[list(self._referenced)] = -1

    def _suspects(self) -> Iterator[int]:
        """Yield the slots of directories with flags, or with references, whose names the kernel does not check."""
        wanted = (self.flags & (bits.ENTRY_DAMAGED | bits.PARENT) == 0) & (self.flags != 0)
        listing = {int(self.owner[slot]) for slot in self._referenced}
        root = self._inodes.slot(ROOT_INODE_ID)
        if root >= 0 and self.present(root, [_RESERVED]):
            listing.add(root)
        yield from sorted(listing.union(np.unique(self.parents[wanted]).tolist()))

    def _inspect(self, slot: int) -> tuple[DirectoryContents, bool]:
        """Return the correct contents of a directory, and whether the stored contents are faulty."""
        entries = self.entries(slot)
        listing = {int(self.owner[child]) for child in self._referenced}
        plain = slot not in listing and all(not self.flags[entry] & _FAULTS for entry in entries)
        is_reserving = self._inodes.inode_id(slot) == ROOT_INODE_ID and self.present(slot, [_RESERVED])
        if plain and not is_reserving and not self._name_clash(entries[0]):
            children, numbers = self.arrays(entries[0])
            return DirectoryContents(children.tolist(), numbers.tolist()), False
        parent = self._inodes.inode_id(slot)
        if len(entries) > 1:
            offset = int(self.offsets[entries[1]])
            self.view.add("dir-parent-twice", f"directory {parent} has entries: {len(entries)}", offset, inode=parent)
        named: list[tuple[bytes, int, bool]] = []
        seen: set[int] = set()
        for entry in entries:
            if not self.flags[entry] & bits.ENTRY_DAMAGED:
                self._inspect_children(slot, entry, seen, named)
                self._inspect_references(slot, entry, named)
        return self._in_order(parent, int(self.offsets[entries[0]]), named, joined=len(entries) > 1), True

    def _name_clash(self, entry: int) -> bool:
        """Return whether a reference has the same name as a plain child or another reference.

        The children must be sorted by name.
        """
        children, numbers = self.arrays(entry)
        names = [self._references.name(number) for number in numbers.tolist()]
        return len(set(names)) < len(names) or bool(
            children.size and names and self._located(children, sorted(names, key=name_key))
        )

    def _inspect_children(self, slot: int, entry: int, seen: set[int], named: list[tuple[bytes, int, bool]]) -> None:
        offset, parent = int(self.offsets[entry]), self._inodes.inode_id(slot)
        children = self.arrays(entry)[0]
        at = self._inodes.slots_of(children)
        missing = at < 0
        referenced = ~missing & np.isin(at, list(self._referenced))
        again = np.ones(at.size, np.bool_)
        again[np.unique(at, return_index=True)[1]] = False
        again |= (self.owner[at] != slot) | (at == slot) | np.isin(at, list(seen))
        again &= ~missing & ~referenced
        lists = f"directory {parent} lists inode {{}}, which is"
        for code, mask, text in (
            ("dir-child-missing", missing, f"child {{}} of directory {parent} is not an inode"),
            ("dir-child-referenced", referenced, f"{lists} referenced from a directory"),
            ("dir-child-twice", again, f"{lists} already listed"),
        ):
            self.view.add_all(code, text, offset, children[mask])
        good = ~(missing | referenced | again)
        seen.update(at[good].tolist())
        named.extend(
            (self._inodes.name(where), child, False)
            for where, child in zip(at[good].tolist(), children[good].tolist(), strict=True)
        )

    def _inspect_references(self, slot: int, entry: int, named: list[tuple[bytes, int, bool]]) -> None:
        offset, parent = int(self.offsets[entry]), self._inodes.inode_id(slot)
        used = {number for _, number, reference in named if reference}
        for number in self.arrays(entry)[1].tolist():
            if not 0 <= number < self._references.count:
                present = counted(self._references.count, "reference")
                text = f"directory {parent} uses reference {number}, but the image has only {present}"
                self.view.add("dir-reference-range", text, offset, inode=parent)
            elif self._references.owner[number] != slot or number in used:
                text = f"directory {parent} uses reference {number}, which is already used"
                self.view.add("dir-reference-twice", text, offset, inode=parent)
            else:
                used.add(number)
                named.append((self._references.name(number), number, True))

    def _in_order(
        self, parent: int, offset: int, named: list[tuple[bytes, int, bool]], *, joined: bool
    ) -> DirectoryContents:
        """Sort children by name, each name once: references take precedence, then earlier children.

        Names that the root must not contain are omitted (FSImageFormatPBINode.Loader.addToParent).
        """
        plain = [name_key(name) for name, _, reference in named if not reference]
        if not joined and any(a > b for a, b in itertools.pairwise(plain)):
            text = f"the children of directory {parent} are not in name order"
            self.view.add("dir-child-order", text, offset, inode=parent)
        contents = DirectoryContents([], [])
        taken: set[bytes] = set()
        for name, number, reference in sorted(named, key=lambda item: (name_key(item[0]), not item[2])):
            # A reference to a lost inode has no name and is dropped.
            lost = reference and self._references.referred[number] < 0
            if name in taken and not lost:
                shown = name.decode("utf-8", "backslashreplace")
                what = f"reference {number}" if reference else f"inode {number}"
                text = f"{what} has the name {shown!r} of another child of directory {parent}"
                self.view.add("dir-child-name", text, offset, inode=None if reference else number)
                continue
            if name == _RESERVED and parent == ROOT_INODE_ID and not lost:
                text = "the root has a child '.reserved', a name that NameNodes reserve"
                self.view.add("dir-child-reserved", text, offset, inode=None if reference else number)
                continue
            taken.add(name)
            (contents.references if reference else contents.children).append(number)
        return contents

    # ---- repair --------------------------------------------------------------------------------------------

    def span(self, entry: int) -> tuple[int, int]:
        """Return the start and end offset of an entry."""
        end = int(self.offsets[entry + 1]) if entry + 1 < self.offsets.size else self.end
        return int(self.offsets[entry]), end

    def _fix(self, slot: int, contents: DirectoryContents, fixes: Fixes) -> None:
        first, *others = self.entries(slot)
        fixes.replace(self.view.name, *self.span(first), self._encoded(first, contents))
        for entry in others:
            fixes.replace(self.view.name, *self.span(entry), b"")

    def _encoded(self, entry: int, contents: DirectoryContents) -> bytes:
        """Encode an entry with other contents and its unknown fields; b"" for an empty directory."""
        numbers = self._references.numbers()
        references = [int(numbers[old]) for old in contents.references if numbers[old] >= 0]
        if not contents.children and not references:
            return b""
        message = self.message(entry)
        del message.children[:], message.refChildren[:]
        message.children.extend(contents.children)
        message.refChildren.extend(references)
        return encode_delimited(message)
