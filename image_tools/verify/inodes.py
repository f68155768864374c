"""Check of INODE: arrays with the position, type and faults of every record, and the resulting findings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.quantities import counted
from image_format.kernels.scan import name_span
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message, read_record
from image_tools.verify.findings import Findings
from image_tools.verify.frame import ImageFrame
from image_tools.verify.kernels import attribute_audit as bits
from image_tools.verify.kernels.inode_audit import audit_inodes
from image_tools.verify.kernels.tree_audit import slot_of_id
from image_tools.verify.namesystem import BlockMaxima
from image_tools.verify.strings import StringTableCheck
from image_tools.verify.view import SectionView

Ids = npt.NDArray[np.int64]

FILE = 1
DIRECTORY = 2
SYMLINK = 3
_SMALLEST_RECORD = 5
# HeaderFormat: twelve bits for the replication in Hadoop 2, eleven from Hadoop 3 on
_REPLICATIONS = (4095, 2047)

_MESSAGES = {
    bits.KIND: ("inode-kind", "the type and the message differ"),
    bits.RESERVED_ID: ("inode-id", "ids below 16385 are reserved"),
    bits.USER: ("inode-user", "the owner's serial is missing from the string table"),
    bits.GROUP: ("inode-group", "the group's serial is missing from the string table"),
    bits.ACL_NAME: ("inode-acl", "a serial of the ACL is missing from the string table"),
    bits.XATTR_NAME: ("inode-xattr", "the serial of an xattr's name is missing from the string table"),
    bits.REPLICATION: ("inode-replication", "the replication is above 2047; in Hadoop 2, it is 0 or above 4095"),
    bits.BOTH_REDUNDANCIES: ("inode-redundancy", "the file has a replication and an erasure coding policy"),
    bits.POLICY: ("inode-policy", "the erasure coding policy is missing from the image"),
    bits.LAYOUT: ("inode-block-type", "the file has an erasure coding policy, but its block type is not STRIPED"),
    bits.IMPOSSIBLE: ("inode-value", "a size, length, quota or storage policy is outside its range"),
    bits.NAME: ("inode-name", "the name is empty or has a slash, or the root has a name"),
}


class InodeArrays:
    """The INODE section, with a few bytes for each inode.

    Attributes:
        header: INodeSection; `records_start` is the offset after it.
        record_ids, offsets, kinds, flags: arrays by slot, in file order; kind 0 for an unknown type.
        ids, slots: ascending ids, and their slots; `slots` is empty if the ids are in slot order.
        shadowed: slots whose id also belongs to a later record.
        maxima: highest numbers of blocks.
    """

    def __init__(
        self,
        frame: ImageFrame,
        findings: Findings,
        strings: StringTableCheck,
        policies: npt.NDArray[np.uint8],
        maxima: BlockMaxima,
    ) -> None:
        self.view = SectionView(frame, "INODE", findings)
        self.buffer = np.frombuffer(self.view.data, np.uint8)
        self.header, self.records_start = self.view.header(pb.INodeSection)
        self.maxima = maxima
        self._erasure_coding = frame.erasure_coding
        rules = (maxima.legacy_limit, _REPLICATIONS[frame.erasure_coding], int(frame.erasure_coding))
        self._scan(strings, policies, np.array(rules, np.int64))
        self._sort()

    def _scan(self, strings: StringTableCheck, policies: npt.NDArray[np.uint8], rules: Ids) -> None:
        # The header's count is only a hint: a damaged count must not determine the allocated memory.
        capacity = min(self.header.numInodes, self.buffer.size // _SMALLEST_RECORD) + 16
        arrays = (
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.uint8),
            np.empty(capacity, np.uint16),
        )
        count, position = 0, self.records_start
        while True:
            count, position, cut = audit_inodes(
                self.buffer,
                position,
                *arrays,
                count,
                bits.KnownSerials(strings.users, strings.groups, strings.xattrs),
                policies,
                rules,
                self.maxima.values,
            )
            if cut or position >= self.buffer.size:
                break
            arrays = tuple(np.concatenate([array, np.empty_like(array)]) for array in arrays)  # type: ignore[assignment]
        self.record_ids, self.offsets, self.kinds, self.flags = (array[:count] for array in arrays)
        self.end = position
        if cut:
            self.view.damaged = True
            self.view.add("record-damaged", "the record is truncated", position)

    def _sort(self) -> None:
        ids = self.record_ids
        if ids.size == 0 or (ids[0] > 0 and bool((ids[1:] > ids[:-1]).all())):
            self.ids, self.slots = ids, np.zeros(0, np.int64)
            self.shadowed: Ids = np.zeros(0, np.int64)
            return
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        last = np.append(ordered[1:] != ordered[:-1], True)
        whole = ordered > 0
        self.shadowed = np.sort(order[whole & ~last])
        chosen = whole & last
        self.ids, self.slots = ordered[chosen], order[chosen]

    # ---- look-ups ------------------------------------------------------------------------------------------

    @functools.cached_property
    def columns(self) -> tuple[Packed, npt.NDArray[np.uint32], Packed]:
        """`ids`, `slots` and `offsets` in the form of `IndexArrays`."""
        return (
            Packed.of(np.asarray(self.ids, np.int64)),
            self.slots.astype(np.uint32),
            Packed.of(np.asarray(self.offsets, np.int64)),
        )

    @property
    def count(self) -> int:
        return int(self.record_ids.size)

    def slot(self, inode_id: int) -> int:
        """Return the slot of an inode, or -1 if missing."""
        return int(slot_of_id(self.ids, self.slots, inode_id)) if 0 < inode_id < 1 << 63 else -1

    def slots_of(self, inode_ids: Ids) -> Ids:
        """Return the slot of each inode, or -1 if missing."""
        if not self.ids.size:
            return np.full(inode_ids.size, -1)
        rows = np.minimum(np.searchsorted(self.ids, inode_ids), self.ids.size - 1)
        found: Ids = np.where(self.ids[rows] == inode_ids, self.slots[rows] if self.slots.size else rows, -1)
        return found

    def inode_id(self, slot: int) -> int:
        return int(self.record_ids[slot])

    def name(self, slot: int) -> bytes:
        start, size = name_span(self.buffer, self.offsets[slot])
        return bytes(self.view.data[start : start + size])

    def is_directory(self, inode_id: int) -> bool:
        slot = self.slot(inode_id)
        return slot >= 0 and self.kinds[slot] == DIRECTORY

    def span(self, slot: int) -> tuple[int, int]:
        """Return the start and end offset of a record."""
        return int(self.offsets[slot]), int(self.offsets[slot + 1]) if slot + 1 < self.count else self.end

    def message(self, slot: int) -> pb.INode:
        """Return a decoded record.

        Raises:
            RecordError: the record is not an INode.
        """
        record = read_record(self.view.data, int(self.offsets[slot]), self.view.place)
        return parse_message(pb.INode, record, self.view.place)

    # ---- findings ------------------------------------------------------------------------------------------

    def check(self, findings: Findings) -> None:
        """Report the faults in the arrays."""
        if not self.view.present:
            return
        damaged = np.flatnonzero(self.flags & bits.DAMAGED)
        self.view.damaged |= bool(damaged.size)
        self.view.add_damaged("the record is not an INode", self.offsets[damaged].astype(np.int64))
        present = int(np.bitwise_or.reduce(self.flags, initial=0))
        for bit, (code, text) in _MESSAGES.items():
            if not present & bit:
                continue
            found = np.flatnonzero((self.flags & bit != 0) & (self.flags & bits.DAMAGED == 0))
            if bit == bits.REPLICATION and self._erasure_coding:
                found = self._check_replicas(findings, found)
            self.report(findings, code, found, lambda _, text=text: text)  # type: ignore[misc]
        self.report(findings, "inode-twice", self.shadowed, lambda _: "a later record has the same id")
        if not self.view.damaged:
            self._check_root()
            self._check_header()

    def _check_replicas(self, findings: Findings, slots: Ids) -> Ids:
        """Report the files of Hadoop 3 with replication 0 or no replication; return the other slots.

        A NameNode loads these files (INodeFile.HeaderFormat.getBlockLayoutRedundancy), and then
        BlockPlacementPolicyDefault selects every replica for deletion. A NameNode keeps only 16 bits of the value.
        """
        none = np.array([not self.message(int(slot)).file.replication & 0xFFFF for slot in slots], np.bool_)
        text = "the replication is 0: a NameNode loads the file and regards every replica as excess"
        self.report(findings, "inode-no-replicas", slots[none], lambda _: text)
        return slots[~none]

    def report(self, findings: Findings, code: str, slots: Sequence[int] | Ids, text: Callable[[int], str]) -> None:
        """Add a finding for each slot; beyond the limit, only count them."""
        room = findings.room(code)
        listed = slots if room is None else slots[:room]
        for slot in listed:
            self.view.add(code, text(int(slot)), int(self.offsets[slot]), inode=self.inode_id(int(slot)))
        findings.add_unlisted(code, len(slots) - len(listed))

    def _check_root(self) -> None:
        root = self.slot(ROOT_INODE_ID)
        if root < 0:
            self.view.add("inode-root", "no record has the root's id", None, inode=ROOT_INODE_ID)
        elif self.kinds[root] != DIRECTORY:
            self.view.add("inode-root", "the root is not a directory", int(self.offsets[root]), inode=ROOT_INODE_ID)

    def _check_header(self) -> None:
        if self.header.numInodes != self.count:
            self.view.add(
                "inode-count", f"the header counts {counted(self.header.numInodes, 'inode')}, found {self.count}", 0
            )
        if self.ids.size and self.header.lastInodeId < self.ids[-1]:
            text = f"lastInodeId is {self.header.lastInodeId}, but the largest id is {int(self.ids[-1])}"
            self.view.add("inode-last-id", text, 0)
