"""Inode table: decoded inodes as rows of compact arrays, with objects for rare features.

A row contains the fields of an INode message. Only inodes that were read or created have a row. Kernels use `rows`,
`blocks` and `names` without Python objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from google.protobuf.unknown_fields import UnknownFieldSet

from hadoop_common.block import Block
from hadoop_common.java_numbers import signed64, unsigned64
from image_format.array_allocator import ArrayAllocator, GrowableArray, pieces
from image_format.errors import BufferOrigin, RecordError
from image_format.inode_features import Features, RowCopy, fill_directory, fill_lists, has_unknown_fields, read_lists
from image_format.kernels.changes import count_dirty, list_dirty
from image_format.kernels.inode import (
    BLOCK_DTYPE,
    DIRECTORY,
    DIRTY,
    FEATURES,
    FILE,
    INODE_DTYPE,
    NO_ACL,
    SPECIAL,
    UNDER_CONSTRUCTION,
    UNKNOWN_FIELDS,
    decode_inode,
    decode_inodes,
    encode_inodes,
    encoded_size,
    record_bytes,
)
from image_format.key_tables import BytesTable, IdTable
from image_format.layout import LayoutVersion, supports
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, parse_message, read_record

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]

NO_ROW = -1
_MIN_BLOCK_RECORD = 6
_NOWHERE = BufferOrigin("", "INODE", None)
_NO_ROWS = np.zeros(0, INODE_DTYPE)
_NO_FEATURES = Features()
_NO_BLOCKS = np.zeros(0, BLOCK_DTYPE)
_NO_BYTES: Bytes = np.zeros(0, np.uint8)
_NO_CHANGES: npt.NDArray[np.int32] = np.zeros(0, np.int32)


class EncodedRecords(NamedTuple):
    """Records in one array; for each record, `spans` contains a row of (start, end) in `data`."""

    data: Bytes
    spans: Rows

    def record(self, number: int) -> bytes:
        start, end = self.spans[number].tolist()
        return self.data[start:end].tobytes()


class DirtyRows(NamedTuple):
    """Rows of inodes to write: changed inodes of the base image by ascending slot, and new inodes by ascending id."""

    old: Rows
    new: Rows


class InodeTable:
    """Rows of inodes, keyed by inode id.

    Args:
        layout_version: layout version of the records that `encode` writes.
        place: the INODE section, for errors.
        allocator: allocator of the arrays; None if unlimited.

    Attributes:
        changed: rows whose place, size or `SPECIAL` mark changed since `changes` was 0, in order and possibly repeated.
            The array contains only the first changes, and is empty if the rows are not needed.
        changes: number of these changes, including changes that did not fit into `changed`.
    """

    def __init__(
        self, layout_version: int, place: BufferOrigin = _NOWHERE, allocator: ArrayAllocator | None = None
    ) -> None:
        self.allocator = ArrayAllocator() if allocator is None else allocator
        self._place = place
        self._writes_policy = supports(LayoutVersion.BLOCK_STORAGE_POLICY, layout_version)
        self._writes_block_type = supports(LayoutVersion.ERASURE_CODING, layout_version)
        self.count = 0
        self.changed = _NO_CHANGES
        self.changes = 0
        self.row_of = IdTable(self.allocator)
        self.features: dict[int, Features] = {}
        self.pool = BytesTable(self.allocator)
        self.pool.add(b"")
        self._names = GrowableArray(self.allocator, np.uint8, 1 << 16)
        self.names: Bytes = self._names.array
        self.names_used = 0
        self._blocks = GrowableArray(self.allocator, BLOCK_DTYPE, 1 << 10)
        self.blocks = self._blocks.array
        self.blocks_used = 0
        self._rows = GrowableArray(self.allocator, INODE_DTYPE, 1 << 10)
        self._bind(self._rows.array)

    def _bind(self, rows: npt.NDArray[Any]) -> None:
        self.rows = rows
        self.id = rows["id"]
        self.parent = rows["parent"]
        self._name_offsets = rows["name_offset"]
        self._name_lengths = rows["name_length"]
        self.slot = rows["slot"]
        self.mtime = rows["mtime"]
        self.atime = rows["atime"]
        self.permission = rows["permission"]
        self.block_size = rows["block_size"]
        self.ns_quota = rows["ns_quota"]
        self.ds_quota = rows["ds_quota"]
        self.block_count = rows["block_count"]
        self.replication = rows["replication"]
        self.newest = rows["newest"]
        self.born = rows["born"]
        self.base_parent = rows["base_parent"]
        self.client_name = rows["client_name"]
        self.client_machine = rows["client_machine"]
        self.ec_policy = rows["ec_policy"]
        self.kind = rows["kind"]
        self.policy = rows["policy"]
        self.block_type = rows["block_type"]
        self.flags = rows["flags"]
        self.marks = rows["marks"]

    # ---- growth --------------------------------------------------------------------------------------------

    def reserve_rows(self, more: int) -> None:
        if self.count + more > self.rows.size:
            self._bind(_NO_ROWS)
            try:
                self._rows.grow(self.count, self.count + more)
            finally:
                self._bind(self._rows.array)
        self.row_of.reserve(more)

    def _reserve_row(self) -> int:
        if self.count == self.rows.size:
            self.reserve_rows(1)
        self.count += 1
        return self.count - 1

    def reserve_names(self, size: int) -> None:
        if self.names_used + size > self.names.size:
            self.names = _NO_BYTES
            try:
                self._names.grow(self.names_used, self.names_used + size)
            finally:
                self.names = self._names.array

    def reserve_blocks(self, count: int) -> None:
        if self.blocks_used + count > self.blocks.size:
            self.blocks = _NO_BLOCKS
            try:
                self._blocks.grow(self.blocks_used, self.blocks_used + count)
            finally:
                self.blocks = self._blocks.array

    # ---- rows ----------------------------------------------------------------------------------------------

    def load(self, buf: Bytes, offset: int, slot: int) -> int:
        """Decode the delimited INode at `offset` of the INODE section into a new row.

        Raises:
            RecordError: the bytes are not an inode record.
        """
        record = read_record(buf.data, offset, self._place)
        self.reserve_names(len(record.body))
        self.reserve_blocks(len(record.body) // _MIN_BLOCK_RECORD + 1)
        row = self._reserve_row()
        names_used, blocks_used, flags = decode_inode(
            buf, offset, self.rows, row, self.names, self.names_used, self.blocks, self.blocks_used
        )
        if flags < 0:
            self.count -= 1
            raise self._place.error(RecordError, "no inode record", offset)
        self.names_used = int(names_used)
        self.blocks_used = int(blocks_used)
        self.slot[row] = slot
        if flags & (FEATURES | UNDER_CONSTRUCTION):
            self._load_features(row, parse_message(pb.INode, record, self._place))
        self.row_of.add(int(self.id[row]), row)
        return row

    def load_all(self, buf: Bytes, offsets: Rows, slots: Rows) -> None:
        """Load several records in this order; the table must not contain their inodes yet.

        Raises:
            RecordError: see `load`.
        """
        first, size = self.count, int(record_bytes(buf, offsets))
        self.reserve_names(size)
        self.reserve_blocks(size // _MIN_BLOCK_RECORD + offsets.size)
        self.reserve_rows(offsets.size)
        decoded, names_used, blocks_used = decode_inodes(
            *(buf, offsets, slots, self.rows, first),
            *(self.names, self.names_used, self.blocks, self.blocks_used, self.row_of.slots),
        )
        self.count += int(decoded)
        self.row_of.count += int(decoded)
        self.names_used, self.blocks_used = int(names_used), int(blocks_used)
        more = np.flatnonzero(self.flags[first : self.count] & (FEATURES | UNDER_CONSTRUCTION))
        for number in more.tolist():
            record = read_record(buf.data, int(offsets[number]), self._place)
            self._load_features(first + number, parse_message(pb.INode, record, self._place))
        if decoded < offsets.size:
            raise self._place.error(RecordError, "no inode record", int(offsets[decoded]))

    def _load_features(self, row: int, inode: pb.INode) -> None:
        found = Features()
        if inode.HasField("symlink"):
            link = inode.symlink
            found.target = link.target
            self.permission[row] = link.permission
            self.mtime[row] = signed64(link.modificationTime)
            self.atime[row] = signed64(link.accessTime)
            if len(UnknownFieldSet(link)):
                self.flags[row] |= UNKNOWN_FIELDS
        body: pb.INodeFile | pb.INodeDirectory = inode.file if inode.HasField("file") else inode.directory
        read_lists(found, body)
        if isinstance(body, pb.INodeDirectory):
            found.type_quotas = {q.storageType: signed64(q.quota) for q in body.typeQuotas.quotas}
        elif body.HasField("fileUC"):
            self.client_name[row] = self.intern(body.fileUC.clientName)
            self.client_machine[row] = self.intern(body.fileUC.clientMachine)
        if has_unknown_fields(body):
            self.flags[row] |= UNKNOWN_FIELDS
        if not found.empty():
            self.features[row] = found
            self._mark_acl(row, found)

    def read_features(self, row: int, buf: Bytes, offset: int) -> None:
        """Read the ACL and the xattrs of a row that a kernel decoded from `offset`; see `features_mark`."""
        inode = parse_message(pb.INode, read_record(buf.data, offset, self._place), self._place)
        self.features[row] = Features()
        read_lists(self.features[row], inode.file if inode.HasField("file") else inode.directory)

    def _mark_acl(self, row: int, found: Features) -> None:
        self.marks[row] = self.marks[row] & (0xFF ^ NO_ACL) | (NO_ACL if found.acl is None else 0)

    def add(self, inode_id: int, kind: int, name: bytes) -> int:
        """Add a dirty row for a new inode; return the row."""
        row = self._reserve_row()
        self.id[row] = inode_id
        self.kind[row] = kind
        self.slot[row] = -1
        self.parent[row] = NO_ROW
        self.replication[row] = -1
        self.ec_policy[row] = -1
        self.ns_quota[row] = -1
        self.ds_quota[row] = -1
        self.flags[row] = DIRTY
        self.set_name(row, name)
        self.row_of.add(inode_id, row)
        return row

    def name(self, row: int) -> bytes:
        start = self._name_offsets.item(row)
        return self.names[start : start + self._name_lengths.item(row)].tobytes()

    def name_of(self, kept: RowCopy) -> bytes:
        """Return the name of an inode at the time of its copy."""
        entry = kept.entry
        start = int(entry["name_offset"])
        return self.names[start : start + int(entry["name_length"])].tobytes()

    def name_offset(self, row: int) -> int:
        """Return the offset of the name of `row` in `names`."""
        return int(self.rows["name_offset"][row])

    def set_name(self, row: int, name: bytes) -> None:
        entry = self.rows[row]
        entry["name_offset"] = self.keep_name(name)
        entry["name_length"] = len(name)

    def keep_name(self, name: bytes) -> int:
        """Append a name to `names` and return its start; appended names never change."""
        self.reserve_names(len(name))
        start = self.names_used
        self.names[start : start + len(name)] = np.frombuffer(name, np.uint8)
        self.names_used += len(name)
        return start

    # ---- changes -------------------------------------------------------------------------------------------

    def note_change(self, row: int) -> None:
        """Record a change of an inode's place or size."""
        if self.changes < self.changed.size:
            self.changed[self.changes] = row
        self.changes += 1

    def mark_special(self, row: int) -> None:
        """Mark a row as `SPECIAL`."""
        self.marks[row] |= SPECIAL
        self.note_change(row)

    # ---- strings of files under construction ---------------------------------------------------------------

    def intern(self, text: str) -> int:
        """Return the number of `text` in the pool of client names and machines; 0 is the empty string."""
        # A lone surrogate becomes '?', as in Java.
        key = text.encode("utf-8", "replace")
        number = self.pool.find(key)
        return self.pool.add(key) if number < 0 else number

    def pooled(self, number: int) -> str:
        return self.pool.key(number).decode()

    # ---- blocks --------------------------------------------------------------------------------------------

    def file_blocks(self, row: int) -> list[Block]:
        start = int(self.rows["blocks_offset"][row])
        return [Block(*entry) for entry in self.blocks[start : start + int(self.block_count[row])].tolist()]

    def set_block(self, row: int, index: int, num_bytes: int, genstamp: int) -> None:
        """Replace the length and the generation stamp of block `index`."""
        self.note_change(row)
        entry = self.blocks[int(self.rows["blocks_offset"][row]) + index]
        entry["num_bytes"] = num_bytes
        entry["genstamp"] = genstamp

    def extend_blocks(self, row: int, blocks: Sequence[tuple[int, int, int]]) -> None:
        """Append (id, bytes, genstamp) triples; a list without spare capacity moves to the end of the arena."""
        self.note_change(row)
        entry = self.rows[row]
        count = int(entry["block_count"])
        needed = count + len(blocks)
        if needed > int(entry["block_capacity"]):
            capacity = max(needed, 2 * count)
            self.reserve_blocks(capacity)
            start, old = self.blocks_used, int(entry["blocks_offset"])
            self.blocks[start : start + count] = self.blocks[old : old + count]
            entry["blocks_offset"] = start
            entry["block_capacity"] = capacity
            self.blocks_used += capacity
        start = int(entry["blocks_offset"]) + count
        for i, block in enumerate(blocks):
            self.blocks[start + i] = tuple(block)
        entry["block_count"] = needed

    def truncate_blocks(self, row: int, count: int) -> None:
        self.note_change(row)
        self.block_count[row] = count

    # ---- features ------------------------------------------------------------------------------------------

    def feature(self, row: int) -> Features:
        """Return the features of `row`; the caller must not modify them."""
        return self.features.get(row) or Features()

    def set_features(self, row: int, features: Features) -> None:
        if features.empty():
            self.features.pop(row, None)
            self.flags[row] &= ~FEATURES & 0xFF
        else:
            self.features[row] = features
            self.flags[row] |= FEATURES
            self._mark_acl(row, features)

    def is_under_construction(self, row: int) -> bool:
        return bool(self.flags.item(row) & UNDER_CONSTRUCTION)

    # ---- records -------------------------------------------------------------------------------------------

    def dirty_rows(self) -> DirtyRows:
        """Return the rows to write: the changed and new rows that were not dropped."""
        old, new = (self.allocator.zeros(count, np.int64) for count in count_dirty(self.rows, self.count))
        old_ascend, new_ascend = list_dirty(self.rows, self.count, old, new)
        if not old_ascend:
            self._sort_by_slot(old)
        return DirtyRows(old, new if new_ascend else new[np.argsort(self.id[new], kind="stable")])

    def _sort_by_slot(self, rows: Rows) -> None:
        """Sort rows of base inodes in place, because they may not fit into memory; slots and rows have 32 bits."""
        keys = rows.view(np.uint64)
        for piece in pieces(rows.size):
            keys[piece] |= self.slot[rows[piece]].astype(np.uint64) << np.uint64(32)
        keys.sort()
        keys &= np.uint64(0xFFFFFFFF)

    def encode(self, wanted: Rows) -> EncodedRecords:
        """Return delimited INode records for the rows `wanted`, in this order."""
        special = self._with_features(wanted)
        plain = self._without(wanted, special) if special.any() else wanted
        files, layout = (self.names, self.blocks, self.pool.items), (self._writes_policy, self._writes_block_type)
        size = encoded_size(self.rows, plain, *files, *layout)
        rare = [encode_delimited(self.message(row)) for row in wanted[special].tolist()]
        data: Bytes = self.allocator.zeros(size + sum(map(len, rare)), np.uint8)
        starts: Rows = self.allocator.zeros(plain.size + 1, np.int64)
        encode_inodes(self.rows, plain, *files, self.pool.arena, *layout, data, starts)
        spans: Rows = self.allocator.zeros((wanted.size, 2), np.int64)
        used = 0
        for piece in pieces(wanted.size):
            chosen = np.flatnonzero(~special[piece])
            bounds = starts[used : used + chosen.size + 1]
            spans[piece][chosen, 0], spans[piece][chosen, 1] = bounds[:-1], bounds[1:]
            used += chosen.size
        if rare:
            ends = size + np.cumsum([len(record) for record in rare])
            data[size:] = np.frombuffer(b"".join(rare), np.uint8)
            spans[special, 0], spans[special, 1] = np.concatenate([[size], ends[:-1]]), ends
        return EncodedRecords(data, spans)

    def _with_features(self, wanted: Rows) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.allocator.zeros(wanted.size, np.bool_)
        for piece in pieces(wanted.size):
            found[piece] = self.flags[wanted[piece]] & FEATURES != 0
        return found

    def _without(self, rows: Rows, marks: npt.NDArray[np.bool_]) -> Rows:
        """Return the rows that are not marked."""
        found: Rows = self.allocator.zeros(rows.size - int(np.count_nonzero(marks)), np.int64)
        used = 0
        for piece in pieces(rows.size):
            left = rows[piece][~marks[piece]]
            found[used : used + left.size] = left
            used += left.size
        return found

    def message(self, row: int) -> pb.INode:
        """Return a row as a complete protobuf message."""
        entry = self.rows[row]
        inode = pb.INode(type=int(entry["kind"]), id=int(entry["id"]), name=self.name(row))  # type: ignore[arg-type]
        found = self.feature(row)
        if entry["kind"] == FILE:
            self._fill_file(inode.file, entry, found)
            for block_id, num_bytes, genstamp in self.file_blocks(row):
                inode.file.blocks.add(
                    blockId=unsigned64(block_id), genStamp=unsigned64(genstamp), numBytes=unsigned64(num_bytes)
                )
            if self.is_under_construction(row):
                inode.file.fileUC.clientName = self.pooled(int(entry["client_name"]))
                inode.file.fileUC.clientMachine = self.pooled(int(entry["client_machine"]))
        elif entry["kind"] == DIRECTORY:
            fill_directory(inode.directory, entry, found)
        else:
            inode.symlink.permission = int(entry["permission"])
            inode.symlink.target = found.target or b""
            inode.symlink.modificationTime = unsigned64(int(entry["mtime"]))
            inode.symlink.accessTime = unsigned64(int(entry["atime"]))
        return inode

    def copy_row(self, row: int, entry: np.void) -> RowCopy:
        """Copy an inode for a snapshot: its present features, and `entry`, its present or former row."""
        found = self.features.get(row)
        return RowCopy(entry.tobytes(), _NO_FEATURES if found is None else found.copy())

    def fill_file(self, file: pb.INodeFile, kept: RowCopy) -> None:
        """Fill `file` with the attributes of a copy, without blocks."""
        self._fill_file(file, kept.entry, kept.features)

    @staticmethod
    def fill_directory(directory: pb.INodeDirectory, kept: RowCopy) -> None:
        """Fill `directory` with the attributes of a copy."""
        fill_directory(directory, kept.entry, kept.features)

    def _fill_file(self, file: pb.INodeFile, entry: np.void, found: Features) -> None:
        if entry["replication"] >= 0:
            file.replication = int(entry["replication"])
        file.modificationTime = unsigned64(int(entry["mtime"]))
        file.accessTime = unsigned64(int(entry["atime"]))
        file.preferredBlockSize = unsigned64(int(entry["block_size"]))
        file.permission = int(entry["permission"])
        fill_lists(file, found)
        if self._writes_policy:
            file.storagePolicyID = int(entry["policy"])
        if self._writes_block_type:
            file.blockType = int(entry["block_type"])  # type: ignore[assignment]
        if entry["ec_policy"] >= 0:
            file.erasureCodingPolicyID = int(entry["ec_policy"])
