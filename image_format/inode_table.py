"""The inode table: decoded inodes as rows of compact arrays, rare features as objects beside them.

A row is what `fsimage.proto INode` says of one inode. Only inodes that somebody asked for have a row; a kernel
can work on `rows`, `blocks` and `names` without a Python object in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from image_format.errors import Place, RecordError
from image_format.kernels.inode import (
    BLOCK_DTYPE,
    DIRECTORY,
    DIRTY,
    DROPPED,
    FEATURES,
    FILE,
    INODE_DTYPE,
    SYMLINK,
    UNDER_CONSTRUCTION,
    UNKNOWN_FIELDS,
    decode_inode,
    encode_inodes,
    encoded_size,
)
from image_format.layout import LayoutVersion, supports
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, parse_message, read_record

__all__ = [
    "DIRECTORY",
    "FILE",
    "NO_ROW",
    "SYMLINK",
    "Block",
    "EncodedRecords",
    "Features",
    "InodeTable",
    "has_unknown_fields",
    "to_signed",
]

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]

NO_ROW = -1
_UINT64 = (1 << 64) - 1
_SIGN = 1 << 63
_MIN_BLOCK_RECORD = 6
_NOWHERE = Place("", "INODE", None)


class Block(NamedTuple):
    """One block of a file, `BlockProto`; lengths in bytes."""

    block_id: int
    num_bytes: int
    genstamp: int


class EncodedRecords(NamedTuple):
    """Records in one array; `spans` has a row of (start, end) in `data` for each."""

    data: Bytes
    spans: Rows

    def record(self, number: int) -> bytes:
        start, end = self.spans[number].tolist()
        return self.data[start:end].tobytes()


@dataclass(slots=True)
class Features:
    """What few inodes have.

    Attributes:
        acl: `AclFeatureProto.entries`, each packed with string table serials; None without the feature.
        xattrs: (`XAttrCompactProto.name` packed, value) in order; None without the feature.
        type_quotas: `StorageTypeProto` number to quota in bytes, directories only.
        target: where a symlink points to.
    """

    acl: tuple[int, ...] | None = None
    xattrs: tuple[tuple[int, bytes | None], ...] | None = None
    type_quotas: dict[int, int] = field(default_factory=dict)
    target: bytes | None = None

    def empty(self) -> bool:
        return self.acl is None and self.xattrs is None and not self.type_quotas and self.target is None


def to_signed(value: int) -> int:
    """A protobuf uint64 as the Java long it stands for."""
    return value - (1 << 64) if value & _SIGN else value


class InodeTable:
    """Rows of inodes, keyed by inode id.

    Args:
        layout_version: of the image that `encode` writes records for.
        place: of the INODE section, for errors.
    """

    def __init__(self, layout_version: int, place: Place = _NOWHERE) -> None:
        self._place = place
        self._writes_policy = supports(LayoutVersion.BLOCK_STORAGE_POLICY, layout_version)
        self._writes_block_type = supports(LayoutVersion.ERASURE_CODING, layout_version)
        self.count = 0
        self.row_of: dict[int, int] = {}
        self.features: dict[int, Features] = {}
        self._pool: list[str] = [""]
        self._pool_index: dict[str, int] = {"": 0}
        self.names: Bytes = np.zeros(1 << 16, np.uint8)
        self.names_used = 0
        self.blocks = np.zeros(1 << 10, BLOCK_DTYPE)
        self.blocks_used = 0
        self.rows = np.zeros(1 << 10, INODE_DTYPE)
        self._bind()

    def _bind(self) -> None:
        rows = self.rows
        self.id = rows["id"]
        self.parent = rows["parent"]
        self.slot = rows["slot"]
        self.mtime = rows["mtime"]
        self.atime = rows["atime"]
        self.permission = rows["permission"]
        self.block_size = rows["block_size"]
        self.ns_quota = rows["ns_quota"]
        self.ds_quota = rows["ds_quota"]
        self.block_count = rows["block_count"]
        self.replication = rows["replication"]
        self.client_name = rows["client_name"]
        self.client_machine = rows["client_machine"]
        self.ec_policy = rows["ec_policy"]
        self.kind = rows["kind"]
        self.policy = rows["policy"]
        self.block_type = rows["block_type"]
        self.flags = rows["flags"]

    # ---- room ----------------------------------------------------------------------------------------------

    def _reserve_row(self) -> int:
        if self.count == self.rows.size:
            self.rows = np.concatenate([self.rows, np.zeros(self.rows.size, INODE_DTYPE)])
            self._bind()
        self.count += 1
        return self.count - 1

    def _reserve_names(self, size: int) -> None:
        if self.names_used + size > self.names.size:
            self.names = np.concatenate([self.names, np.zeros(max(self.names.size, size), np.uint8)])

    def _reserve_blocks(self, count: int) -> None:
        if self.blocks_used + count > self.blocks.size:
            self.blocks = np.concatenate([self.blocks, np.zeros(max(self.blocks.size, count), BLOCK_DTYPE)])

    # ---- rows ----------------------------------------------------------------------------------------------

    def load(self, buf: Bytes, offset: int, slot: int) -> int:
        """Decode the delimited INode at `offset` of the INODE section into a new row.

        Raises:
            RecordError: the bytes are no inode record.
        """
        record = read_record(buf.data, offset, self._place)
        self._reserve_names(len(record.body))
        self._reserve_blocks(len(record.body) // _MIN_BLOCK_RECORD + 1)
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
        self.row_of[int(self.id[row])] = row
        return row

    def _load_features(self, row: int, inode: pb.INode) -> None:
        found = Features()
        if inode.HasField("symlink"):
            link = inode.symlink
            found.target = link.target
            self.permission[row] = link.permission
            self.mtime[row] = to_signed(link.modificationTime)
            self.atime[row] = to_signed(link.accessTime)
            if len(UnknownFieldSet(link)):
                self.flags[row] |= UNKNOWN_FIELDS
        body: pb.INodeFile | pb.INodeDirectory = inode.file if inode.HasField("file") else inode.directory
        if body.HasField("acl"):
            found.acl = tuple(body.acl.entries)
        if body.HasField("xAttrs"):
            found.xattrs = tuple((x.name, x.value if x.HasField("value") else None) for x in body.xAttrs.xAttrs)
        if isinstance(body, pb.INodeDirectory):
            found.type_quotas = {q.storageType: to_signed(q.quota) for q in body.typeQuotas.quotas}
        elif body.HasField("fileUC"):
            self.client_name[row] = self.intern(body.fileUC.clientName)
            self.client_machine[row] = self.intern(body.fileUC.clientMachine)
        if has_unknown_fields(body):
            self.flags[row] |= UNKNOWN_FIELDS
        if not found.empty():
            self.features[row] = found

    def add(self, inode_id: int, kind: int, name: bytes) -> int:
        """A new inode that the base image does not have; its row is dirty."""
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
        self.row_of[inode_id] = row
        return row

    def name(self, row: int) -> bytes:
        entry = self.rows[row]
        start = int(entry["name_offset"])
        return self.names[start : start + int(entry["name_length"])].tobytes()

    def set_name(self, row: int, name: bytes) -> None:
        self._reserve_names(len(name))
        start = self.names_used
        self.names[start : start + len(name)] = np.frombuffer(name, np.uint8)
        self.names_used += len(name)
        entry = self.rows[row]
        entry["name_offset"] = start
        entry["name_length"] = len(name)

    # ---- strings of files under construction ---------------------------------------------------------------

    def intern(self, text: str) -> int:
        """Number of `text` in the pool of client names and machines; 0 is the empty string."""
        number = self._pool_index.get(text)
        if number is None:
            number = self._pool_index[text] = len(self._pool)
            # A lone surrogate becomes '?', as in Java.
            self._pool.append(text.encode("utf-8", "replace").decode())
        return number

    def pooled(self, number: int) -> str:
        return self._pool[number]

    # ---- blocks --------------------------------------------------------------------------------------------

    def file_blocks(self, row: int) -> list[Block]:
        start = int(self.rows["blocks_offset"][row])
        return [Block(*entry) for entry in self.blocks[start : start + int(self.block_count[row])].tolist()]

    def set_block(self, row: int, index: int, num_bytes: int, genstamp: int) -> None:
        """Replace length and generation stamp of block `index`."""
        entry = self.blocks[int(self.rows["blocks_offset"][row]) + index]
        entry["num_bytes"] = num_bytes
        entry["genstamp"] = genstamp

    def set_blocks(self, row: int, blocks: Sequence[tuple[int, int, int]]) -> None:
        self.block_count[row] = 0
        self.extend_blocks(row, blocks)

    def extend_blocks(self, row: int, blocks: Sequence[tuple[int, int, int]]) -> None:
        """Append (id, bytes, genstamp) triples, moving the list to the arena's end when it has no room."""
        entry = self.rows[row]
        count = int(entry["block_count"])
        needed = count + len(blocks)
        if needed > int(entry["block_capacity"]):
            capacity = max(needed, 2 * count)
            self._reserve_blocks(capacity)
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
        self.block_count[row] = count

    # ---- features ------------------------------------------------------------------------------------------

    def feature(self, row: int) -> Features:
        """The features of `row`, for reading; an empty object where it has none."""
        return self.features.get(row) or Features()

    def set_features(self, row: int, features: Features) -> None:
        if features.empty():
            self.features.pop(row, None)
            self.flags[row] &= ~FEATURES & 0xFF
        else:
            self.features[row] = features
            self.flags[row] |= FEATURES

    def is_under_construction(self, row: int) -> bool:
        return bool(self.flags[row] & UNDER_CONSTRUCTION)

    # ---- records -------------------------------------------------------------------------------------------

    def dirty_rows(self) -> Rows:
        """Rows to write, by ascending inode id: changed or new, and not dropped."""
        flags = self.flags[: self.count]
        rows = np.flatnonzero((flags & (DIRTY | DROPPED)) == DIRTY)
        return rows[np.argsort(self.id[rows], kind="stable")]

    def encode(self, wanted: Rows) -> EncodedRecords:
        """Delimited INode records of the rows `wanted`, in that order."""
        special = (self.flags[wanted] & (FEATURES | UNDER_CONSTRUCTION)) != 0
        plain = wanted[~special]
        policies, block_types = self._writes_policy, self._writes_block_type
        size = encoded_size(self.rows, plain, self.blocks, policies, block_types)
        rare = [self._encode_special(row) for row in wanted[special].tolist()]
        data = np.empty(size + sum(map(len, rare)), np.uint8)
        starts = np.empty(plain.size + 1, np.int64)
        encode_inodes(self.rows, plain, self.names, self.blocks, policies, block_types, data, starts)
        spans = np.empty((wanted.size, 2), np.int64)
        spans[~special, 0], spans[~special, 1] = starts[:-1], starts[1:]
        if rare:
            ends = size + np.cumsum([len(record) for record in rare])
            data[size:] = np.frombuffer(b"".join(rare), np.uint8)
            spans[special, 0], spans[special, 1] = np.concatenate([[size], ends[:-1]]), ends
        return EncodedRecords(data, spans)

    def message(self, row: int) -> pb.INode:
        """The row as a protobuf message, with all it has."""
        entry = self.rows[row]
        inode = pb.INode(type=int(entry["kind"]), id=int(entry["id"]), name=self.name(row))  # type: ignore[arg-type]
        found = self.feature(row)
        if entry["kind"] == FILE:
            self._fill_file(inode.file, row, found)
        elif entry["kind"] == DIRECTORY:
            _fill_directory(inode.directory, entry, found)
        else:
            inode.symlink.permission = int(entry["permission"])
            inode.symlink.target = found.target or b""
            inode.symlink.modificationTime = int(entry["mtime"]) & _UINT64
            inode.symlink.accessTime = int(entry["atime"]) & _UINT64
        return inode

    def _fill_file(self, file: pb.INodeFile, row: int, found: Features) -> None:
        entry = self.rows[row]
        if entry["replication"] >= 0:
            file.replication = int(entry["replication"])
        file.modificationTime = int(entry["mtime"]) & _UINT64
        file.accessTime = int(entry["atime"]) & _UINT64
        file.preferredBlockSize = int(entry["block_size"]) & _UINT64
        file.permission = int(entry["permission"])
        for block_id, num_bytes, genstamp in self.file_blocks(row):
            file.blocks.add(blockId=block_id & _UINT64, genStamp=genstamp & _UINT64, numBytes=num_bytes & _UINT64)
        if self.is_under_construction(row):
            file.fileUC.clientName = self.pooled(int(entry["client_name"]))
            file.fileUC.clientMachine = self.pooled(int(entry["client_machine"]))
        _fill_features(file, found)
        if self._writes_policy:
            file.storagePolicyID = int(entry["policy"])
        if self._writes_block_type:
            file.blockType = int(entry["block_type"])  # type: ignore[assignment]
        if entry["ec_policy"] >= 0:
            file.erasureCodingPolicyID = int(entry["ec_policy"])

    def _encode_special(self, row: int) -> bytes:
        return encode_delimited(self.message(row))


def _fill_features(body: pb.INodeFile | pb.INodeDirectory, found: Features) -> None:
    if found.acl is not None:
        body.acl.SetInParent()
        body.acl.entries.extend(found.acl)
    if found.xattrs is not None:
        body.xAttrs.SetInParent()
        for name, value in found.xattrs:
            body.xAttrs.xAttrs.add(name=name, value=value)


def _fill_directory(directory: pb.INodeDirectory, entry: np.void, found: Features) -> None:
    directory.modificationTime = int(entry["mtime"]) & _UINT64
    directory.nsQuota = int(entry["ns_quota"]) & _UINT64
    directory.dsQuota = int(entry["ds_quota"]) & _UINT64
    directory.permission = int(entry["permission"])
    _fill_features(directory, found)
    for storage_type, quota in found.type_quotas.items():
        directory.typeQuotas.quotas.add(storageType=storage_type, quota=quota & _UINT64)


def has_unknown_fields(message: Message) -> bool:
    """Whether `message` or a message inside it holds fields this version does not know."""
    if len(UnknownFieldSet(message)):
        return True
    nested: Iterable[Message] = (
        item
        for descriptor, value in message.ListFields()
        if descriptor.message_type
        for item in (value if descriptor.is_repeated else [value])
    )
    return any(has_unknown_fields(item) for item in nested)
