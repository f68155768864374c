"""Check and repair of INODE_REFERENCE: arrays with the inode, kind and use of each record."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message, read_record
from image_tools.verify.findings import Findings
from image_tools.verify.fixes import Fixes
from image_tools.verify.frame import ImageFrame
from image_tools.verify.inodes import InodeArrays
from image_tools.verify.kernels.tree_audit import DST, WITH_NAME, audit_references
from image_tools.verify.view import SectionView

Ids = npt.NDArray[np.int64]
_DROPPED = -1


class ReferenceCheck:
    """The references by their number.

    Attributes:
        offsets, referred, kinds, snapshots: offset, slot of the inode (or -1), `DST` or `WITH_NAME`, and
            snapshot id.
        owner: slot of the directory whose entry uses the reference, or -1.
        listed: slot of the directory whose deleted list uses the reference, or -1.
        kept: False for a reference that a repair drops.
    """

    def __init__(self, frame: ImageFrame, findings: Findings, inodes: InodeArrays) -> None:
        self.view = SectionView(frame, "INODE_REFERENCE", findings)
        self._inodes = inodes
        buffer = np.frombuffer(self.view.data, np.uint8)
        kinds = (np.int64, np.int64, np.int8, np.int64)
        arrays: list[npt.NDArray[Any]] = [np.empty(max(16, buffer.size // 16), kind) for kind in kinds]
        count = position = 0
        while True:
            count, position, cut = audit_references(buffer, position, *arrays, count, inodes.ids, inodes.slots)
            if cut or position >= buffer.size:
                break
            arrays = [np.concatenate([array, np.empty_like(array)]) for array in arrays]
        self.offsets, self.referred, self.kinds, self.snapshots = (array[:count] for array in arrays)
        self._end = position
        if cut:
            self.view.damaged = True
            self.view.add("record-damaged", "the record is truncated", position)
        self.owner: Ids = np.full(count, -1, np.int64)
        self.listed: Ids = np.full(count, -1, np.int64)
        self.kept = np.ones(count, np.bool_)

    @property
    def count(self) -> int:
        return int(self.offsets.size)

    def name(self, number: int) -> bytes:
        """Return the name of a reference in its directory or deleted list."""
        if self.kinds[number] == WITH_NAME:
            return bytes(self._record(number).name)
        slot = int(self.referred[number])
        return b"" if slot < 0 else self._inodes.name(slot)

    def _record(self, number: int) -> pb.INodeReference:
        record = read_record(self.view.data, int(self.offsets[number]), self.view.place)
        return parse_message(pb.INodeReference, record, self.view.place)

    def check(self, owner: npt.NDArray[np.signedinteger[Any]]) -> None:
        """Report faults after directories and diffs have been read; set `kept`.

        Args:
            owner: by slot, the directory that lists the inode as a plain child, or -1.
        """
        in_tree = set(self.in_tree(owner))
        seen: set[tuple[int, int]] = set()
        for number in self._in_order_of_use():
            slot, kind = int(self.referred[number]), int(self.kinds[number])
            code, text = "", ""
            if kind < 0:
                code, text = "record-damaged", "the record is not an INodeReference that a NameNode writes"
            elif slot < 0:
                code, text = "reference-inode", f"reference {number} does not refer to an inode"
            elif self.owner[number] < 0 and self.listed[number] < 0:
                code, text = "reference-unused", f"reference {number} is not used"
            elif owner[slot] >= 0 and slot not in in_tree:
                code, text = "dir-child-referenced", f"reference {number} refers to a plain child of a directory"
            else:
                key = (slot, -1 if kind == DST else int(self.snapshots[number]))
                if key in seen:
                    code = "reference-dst-twice" if kind == DST else "reference-name-twice"
                    text = f"an earlier reference has the same inode and kind as reference {number}"
                seen.add(key)
            if code:
                self.kept[number] = False
                self.view.add(code, text, int(self.offsets[number]), inode=self._referred_id(number))

    def _referred_id(self, number: int) -> int | None:
        """Return the id of the inode that a reference names, or None for a damaged record."""
        if self.kinds[number] < 0:
            return None
        slot = int(self.referred[number])
        return self._inodes.inode_id(slot) if slot >= 0 else self._record(number).referredId

    def in_tree(self, owner: npt.NDArray[np.signedinteger[Any]]) -> list[int]:
        """Return the slots of inodes that are both a plain child and a reference; the reference takes precedence."""
        dst = (self.kinds == DST) & (self.owner >= 0) & (self.referred >= 0)
        slots = np.unique(self.referred[dst])
        return [int(slot) for slot in slots[owner[slots] >= 0]]

    def _in_order_of_use(self) -> list[int]:
        """Return the reference numbers, references in directory entries first, because the first duplicate is kept."""
        return [*np.flatnonzero(self.owner >= 0).tolist(), *np.flatnonzero(self.owner < 0).tolist()]

    # ---- repair --------------------------------------------------------------------------------------------

    @property
    def renumbered(self) -> bool:
        return not bool(self.kept.all())

    def numbers(self) -> Ids:
        """Return each reference's new number by its old number, or -1 for a dropped reference."""
        return np.where(self.kept, np.cumsum(self.kept) - 1, _DROPPED)

    def fix(self, fixes: Fixes) -> None:
        """Remove the dropped records."""
        ends = np.append(self.offsets[1:], self._end)
        for number in np.flatnonzero(~self.kept).tolist():
            fixes.replace(self.view.name, int(self.offsets[number]), int(ends[number]), b"")
