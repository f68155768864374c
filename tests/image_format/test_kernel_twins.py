"""Every kernel also runs uncompiled, with the same results and the same effects on its arrays."""

from __future__ import annotations

import copy
import importlib
import itertools
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import image_format.kernels
from image_format.errors import RecordError
from image_format.inode_table import InodeTable
from image_format.kernels import (
    attributes,
    compare,
    convert,
    directory_tree,
    history,
    history_check,
    index_update,
    inode,
    inode_columns,
    jit,
    kept_code,
    kept_files,
    merge,
    open_files,
    packed,
    prefetch,
    readers,
    records,
    scan,
    tables,
    tags,
    wire,
)
from image_format.name_order import name_key
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, encode_varint, read_record
from tests.image_format import kernel_cases

MODULES = [
    importlib.import_module(f"image_format.kernels.{module.name}")
    for module in pkgutil.iter_modules(image_format.kernels.__path__)
]
KERNELS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, jit.Kernel) and value.__module__ == module.__name__
}

Arguments = tuple[Any, ...]


def octets(*parts: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(parts), np.uint8)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def zeros(size: int) -> np.ndarray:
    return np.zeros(size, np.int64)


def a_file(inode_id: int, name: bytes) -> pb.INode:
    message = pb.INode(type=pb.INode.FILE, id=inode_id, name=name)
    message.file.replication, message.file.modificationTime, message.file.permission = 3, 1 << 40, (1 << 63) + 9
    message.file.blocks.add(blockId=(1 << 64) - 5, genStamp=1001, numBytes=300)
    message.file.blocks.add(blockId=7, genStamp=1002)
    message.file.storagePolicyID, message.file.blockType, message.file.erasureCodingPolicyID = 12, pb.STRIPED, 64
    return message


def a_directory(inode_id: int, name: bytes) -> pb.INode:
    message = pb.INode(type=pb.INode.DIRECTORY, id=inode_id, name=name)
    message.directory.modificationTime, message.directory.permission = 5, 0o755
    message.directory.nsQuota = (1 << 64) - 1
    message.directory.typeQuotas.quotas.add(storageType=pb.SSD, quota=3)
    return message


PLAIN_FILES = [
    encode_delimited(each)
    for each in (
        a_file(16_386, b"part-r-00000"),
        a_file(1, b""),
        a_file((1 << 35) - 1, b"n" * 127),
        a_file(1 << 35, b"n"),
        a_file(5, b"n" * 128),
        a_directory(7, b"d"),
    )
]
INODES = [a_directory(1, b""), a_file(2, "é".encode()), a_file(3, b"a"), a_file(4, b"ab"), a_directory(6, b"b" * 200)]
ENCODED = [encode_delimited(message) for message in INODES]
SECTION = octets(*ENCODED)
OFFSETS = np.cumsum([0, *map(len, ENCODED)], dtype=np.int64)[:-1]
IDS = numbers(1, 2, 3, 4, 6)
PACKED_OFFSETS, PACKED_IDS = Packed.of(OFFSETS), Packed.of(IDS)
NEAR = np.arange(0, 260, 2, dtype=np.int64)
FAR = np.concatenate([NEAR, NEAR[:70] * 5000 + 1000])
COLUMNS = Packed.of(NEAR), Packed.of(FAR)
NO_SLOTS = np.zeros(0, np.uint32)
REVERSED = np.arange(5, dtype=np.uint32)[::-1].copy()
ENTRIES = [pb.DirEntry(parent=1, children=[2, 3, 4, 6], refChildren=[0, 500]), pb.DirEntry(parent=6, refChildren=[1])]
DIRECTORIES = octets(*map(encode_delimited, ENTRIES))
SORTED_ENTRY = octets(encode_delimited(pb.DirEntry(parent=1, children=[2, 3, 4, 6])))
UNSORTED_ENTRY = octets(encode_delimited(pb.DirEntry(parent=1, children=[3, 2, 6, 4])))
LOST_CHILD = octets(encode_delimited(pb.DirEntry(parent=1, children=[2, 77])))
NAMES = octets(b"aababz\xc3\xa9")
SPANS = np.array([[0, 1], [1, 2], [3, 1], [4, 2], [6, 2]], np.int64)
LONG = octets(b"part-00001.parquet", b"part-00002.parquet", b"part-00001.parquet")
LONG_SPANS = [(0, 18), (18, 18), (36, 18), (0, 8), (36, 8), (2, 0), (38, 7), (2, 7)]
WRONG = octets(b"\x02\x08\xff")


def linked() -> tuple[np.ndarray, np.ndarray]:
    """(slots, links) of all names but the last in directory 0."""
    slots, links = zeros(16), np.zeros(len(SPANS) - 1, tables.LINK_DTYPE)
    for number, (start, size) in enumerate(SPANS[:-1].tolist()):
        links[number] = (start, 0, number, 0, size, 0)
        tables.put_link(slots, tables.hash_name(0, NAMES, start, size), number)
    return slots, links


SLOTS, LINKS = linked()
PAIRS = np.zeros((8, 2), np.int64)
for key in (3, 5, 6, 1 << 40):
    tables.put_number(PAIRS, key, key % 100)


def table() -> InodeTable:
    """Rows of plain inodes, one of them new."""
    made = InodeTable(-67)
    for slot, offset in enumerate(OFFSETS.tolist()):
        made.load(SECTION, offset, slot)
    made.add(9, inode.DIRECTORY, b"new")
    made.add(10, inode.FILE, b"empty")
    opened = made.add(11, inode.FILE, b"open")
    made.flags[opened] |= inode.UNDER_CONSTRUCTION
    made.client_name[opened], made.client_machine[opened] = made.intern("client"), made.intern("machine")
    return made


TABLE = table()
PLAIN = numbers(1, 2, 3, 5, 6, TABLE.count - 1)
ARRAYS = TABLE.names, TABLE.blocks, TABLE.pool.items
SIZE = int(inode.encoded_size(TABLE.rows, PLAIN, *ARRAYS, True, True))
FILE_BODY = INODES[1].file.SerializeToString()
DIRECTORY_BODY = INODES[4].directory.SerializeToString()
BLOCK = INODES[1].file.blocks[0].SerializeToString()


READ = {
    name: getattr(pb, reader.py_func.__name__.removeprefix("read_"))
    for name, reader in vars(readers).items()
    if name.startswith("read_")
}


def filled(of: Any) -> Any:
    """A message with every number and every string."""
    message = of()
    for number, field in enumerate(of.DESCRIPTOR.fields, 1):
        if field.message_type is None and not field.is_repeated:
            kinds = {field.TYPE_STRING: "name", field.TYPE_BYTES: b"name", field.TYPE_BOOL: True, field.TYPE_ENUM: 1}
            setattr(message, field.name, kinds.get(field.type, 300 + number))
    return message


def row_of(made: InodeTable, row: int) -> Any:
    return made.rows[row]


def new_rows(count: int) -> np.ndarray:
    return np.zeros(count, inode.INODE_DTYPE)


def new_blocks(count: int) -> np.ndarray:
    return np.zeros(count, inode.BLOCK_DTYPE)


def decoding(buffer: np.ndarray, offset: int) -> Arguments:
    return (buffer, offset, new_rows(1), 0, np.zeros(300, np.uint8), 0, new_blocks(60), 0)


def owned(user: int, *features: str) -> list[bytes]:
    """A file, a directory and a symlink of a user, with the given features."""
    inodes = [a_file(2, b"f"), a_directory(3, b"d"), pb.INode(type=pb.INode.SYMLINK, id=4, name=b"l")]
    inodes[2].symlink.target = b"/f"
    for message, body in zip(inodes, (inodes[0].file, inodes[1].directory, inodes[2].symlink), strict=True):
        body.permission = user << 40 | 2 << 16 | 0o755
        for feature in features if message.id < 4 else ():
            getattr(body, feature).SetInParent()
    return [*map(encode_delimited, inodes), encode_delimited(pb.INode(type=pb.INode.FILE, id=5))]


OWNED_RECORDS = [*owned(69000), *owned(69000, "acl"), *owned(69000, "xAttrs")]
OWNED = octets(*OWNED_RECORDS)
RENUMBERED = octets(*owned(69001), *owned(69001, "acl"), *owned(69001, "xAttrs"))
_ENDS = np.cumsum([0, *map(len, OWNED_RECORDS)], dtype=np.int64)
OWNED_BOUNDS = np.column_stack([_ENDS[:-1], _ENDS[1:]])
OWNED_BODY = INODES[1].file.SerializeToString() + b"\x42\x00"
SYMLINK_BODY = pb.INodeSymlink(permission=77, target=b"/t", modificationTime=1 << 40, accessTime=9).SerializeToString()
ENTRY_OFFSETS = numbers(0, len(encode_delimited(ENTRIES[0])))
PERMISSION_TAGS = [(41, 66, 74), (41, 74, 74), (9, 0, 0), (33, 74, 74)]


def columns(rows: int) -> np.ndarray:
    return np.zeros((inode_columns.COLUMNS, rows), np.int64)


def body_cases(*bodies: bytes) -> list[Callable[[], Arguments]]:
    """For the kernels that fill a row of columns from the body of an inode."""
    return [lambda b=b: (octets(b), 0, len(b), columns(1), 0) for b in bodies]  # type: ignore[misc]


def reader_cases() -> dict[str, list[Callable[[], Arguments]]]:
    """Every generated reader: a message with all fields, each cut of it, one field twice, and one that is unknown."""
    made: dict[str, list[Callable[[], Arguments]]] = {}
    for name, of in READ.items():
        whole = filled(of).SerializeToString()
        encoded = [*(whole[:size] for size in range(len(whole) + 1)), whole + whole[:4], whole + b"\xf8\x07\x01"]
        made[f"readers.{name}"] = [lambda b=b: (octets(b), 0, len(b)) for b in encoded]  # type: ignore[misc]
    return made


# Each entry makes fresh arguments, because kernels write into them; damaged bytes are among them.
CASES: dict[str, list[Callable[[], Arguments]]] = {
    **kernel_cases.CASES,
    **reader_cases(),
    "wire.read_varint": [
        lambda: (octets(encode_varint((1 << 64) - 2)), 0, 10),
        lambda: (octets(b"\x96\x01"), 0, 2),
        lambda: (octets(b"\x96"), 0, 1),
        lambda: (octets(b"\xff" * 11), 0, 11),
    ],
    "wire.varint_size": [lambda v=v: (np.int64(v),) for v in (0, 127, 128, 1 << 40, -1)],
    "wire.put_varint": [
        lambda v=v: (np.zeros(12, np.uint8), 1, np.int64(v)) for v in (0, 127, 128, 1 << 62, -1, -(1 << 63))
    ],
    "scan._has_type_quotas": [lambda b=b: (octets(b), 0, len(b)) for b in (DIRECTORY_BODY, b"\x08\x01", b"\x3a")],
    "scan._plain_file": [
        *(lambda r=r: (octets(r, bytes(16)), 0, len(r) + 16) for r in PLAIN_FILES),
        *(lambda n=n: (octets(PLAIN_FILES[0]), 0, n) for n in range(len(PLAIN_FILES[0]) + 1)),
    ],
    "scan.scan_inodes": [
        lambda: (octets(*PLAIN_FILES), 0, sum(map(len, PLAIN_FILES)), zeros(9), zeros(9), 0, zeros(9), 0),
        lambda: (SECTION, 0, SECTION.size, zeros(9), zeros(9), 0, zeros(9), 0),
        lambda: (SECTION, 0, 1, zeros(9), zeros(9), 0, zeros(9), 0),
        lambda: (SECTION, 0, SECTION.size, zeros(2), zeros(2), 0, zeros(9), 0),
        lambda: (SECTION, 0, SECTION.size, zeros(9), zeros(9), 0, zeros(1), 0),
        lambda: (SECTION[:-1], 0, SECTION.size - 1, zeros(9), zeros(9), 0, zeros(9), 0),
        lambda: (octets(b"\x04\x08\x01\x10\x00"), 0, 5, zeros(9), zeros(9), 0, zeros(9), 0),
    ],
    "scan.find_record": [
        *(lambda n=n: (SECTION, n, SECTION.size) for n in range(SECTION.size + 1)),
        *(lambda n=n: (SECTION[:-1], n, n + 2) for n in range(SECTION.size - 3)),
    ],
    "tables._spread": [lambda n=n: (n,) for n in (0, 1, 1 << 62)],
    "tables.place_of_number": [lambda n=n: (PAIRS, n) for n in (0, 1, 9, 1 << 62)],
    "tables.find_numbers": [lambda: (np.array([[0, 0], [0, 0], [5, 7], [0, 0]]), numbers(5, 6))],
    "tables.find_number": [lambda n=n: (PAIRS, n) for n in range(8)],
    "tables.put_number": [lambda n=n: (PAIRS.copy(), n, 5) for n in (3, 4, 7)],
    "tables.move_numbers": [lambda: (PAIRS, np.zeros((16, 2), np.int64))],
    "tables.hash_bytes": [lambda s=s: (np.uint64(7), LONG, *s) for s in LONG_SPANS],
    "tables.same_bytes": [
        lambda s=s, t=t: (LONG, s[0], LONG, t[0], min(s[1], t[1])) for s in LONG_SPANS for t in LONG_SPANS
    ],
    "tables.hash_name": [lambda s=s, d=d: (d, NAMES, *s) for s in SPANS.tolist() for d in (0, 1, 1 << 30)],
    "tables.find_link": [
        lambda s=s, d=d: (SLOTS, LINKS, NAMES, tables.hash_name(d, NAMES, *s), d, NAMES, *s)
        for s in SPANS.tolist()
        for d in (0, 1)
    ],
    "tables.find_name": [
        lambda s=s, d=d: (SLOTS, LINKS, NAMES, d, NAMES[s[0] : s[0] + s[1]]) for s in SPANS.tolist() for d in (0, 1)
    ],
    "tables.put_link": [lambda: (SLOTS.copy(), tables.hash_name(5, NAMES, 0, 1), 5)],
    "tables.put_items": [
        lambda: (zeros(16), LINKS, NAMES, 0, LINKS.size),
        lambda: (zeros(16), LINKS, NAMES, 2, 3),
        lambda: (zeros(16), LINKS, NAMES, 1, 1),
    ],
    "tables.move_links": [lambda: (SLOTS, zeros(32))],
    "scan.scan_directories": [
        lambda: (DIRECTORIES, 0, zeros(4), zeros(4), 0),
        lambda: (DIRECTORIES, 0, zeros(1), zeros(1), 0),
        lambda: (WRONG, 0, zeros(4), zeros(4), 0),
    ],
    "scan.strictly_increasing": [lambda a=a: (numbers(*a),) for a in ((), (1,), (1, 2, 9), (1, 1), (3, 2))],
    "scan.find_id": [lambda i=i: (IDS, i) for i in range(8)] + [lambda: (zeros(0), 1), lambda: (numbers(5, 900), 6)],
    "scan.find_ids": [lambda: (IDS, np.arange(8, dtype=np.int64))],
    "scan.place_slots": [lambda: (SECTION, PACKED_OFFSETS, PACKED_IDS, np.zeros(IDS.size, np.uint32))],
    "scan.count_children": [lambda: (DIRECTORIES, 0), lambda: (WRONG, 0), lambda: (octets(b"\x04\x08\x01\x10\x07"), 0)],
    "scan.collect_children": [
        lambda: (DIRECTORIES, 0, zeros(4), zeros(2)),
        lambda: (octets(b"\x06\x08\x01\x10\x07\x38\x01"), 0, zeros(1), zeros(0)),
    ],
    "scan.name_span": [lambda i=i: (SECTION, int(OFFSETS[i])) for i in range(5)],
    "scan._any_name": [lambda i=i: (SECTION, int(OFFSETS[i])) for i in range(5)],
    "scan._plain_name": [
        *(lambda r=r: (octets(r, bytes(16)), 0) for r in PLAIN_FILES),
        *(lambda r=r, n=n: (octets(r[:n]), 0) for r in PLAIN_FILES[:1] for n in range(len(r) + 1)),
    ],
    "scan.compare_names": [
        lambda i=i, j=j: (NAMES, *SPANS[i].tolist(), NAMES, *SPANS[j].tolist()) for i in range(5) for j in range(5)
    ],
    "packed.packed_at": [lambda c=c, i=i: (c, i) for c in COLUMNS for i in (0, 63, 64, c.size - 1)],
    "packed._first_of": [lambda c=c: (c, c.size - 1 >> 6) for c in COLUMNS],
    "packed.find_packed": [
        *(
            lambda c=c, i=i, more=more: (c, c.item(i) + more)
            for c in COLUMNS
            for i in (0, 63, 64, c.size - 1)
            for more in (-1, 0, 1)
        ),
        lambda: (Packed.of(zeros(0)), 1),
    ],
    "packed.find_packed_all": [lambda c=c: (c, numbers(0, c.item(70), c.item(9), 1 << 50)) for c in COLUMNS],
    "packed.find_slot": [
        *(lambda i=i, slots=slots: (PACKED_IDS, slots, i) for i in range(8) for slots in (NO_SLOTS, REVERSED))
    ],
    "packed.is_in_slot": [
        lambda at=at, slots=slots: (PACKED_IDS, slots, 6, at) for at in (-1, 3, 4, 5) for slots in (NO_SLOTS, REVERSED)
    ],
    "packed.find_slot_near": [
        lambda i=i, slots=slots: (PACKED_IDS, slots, i, 2) for i in (3, 4, 5) for slots in (NO_SLOTS, REVERSED)
    ],
    "packed.pack_blocks": [
        lambda v=v: (
            v,
            np.zeros(v.size, np.uint16),
            zeros(-(-v.size // packed.BLOCK)),
            zeros(-(-v.size // packed.BLOCK) * packed.BLOCK),
        )
        for v in (zeros(0), NEAR, FAR, FAR[::-1].copy(), FAR[:65])
    ],
    "packed.unpack": [lambda c=c: (c, 60, zeros(20)) for c in COLUMNS],
    "packed.unpack_at": [lambda c=c: (c, numbers(70, 0, 64)) for c in COLUMNS],
    "scan.locate_name": [
        *(lambda s=s: (IDS[1:], PACKED_IDS, NO_SLOTS, PACKED_OFFSETS, SECTION, NAMES, *s) for s in SPANS.tolist()),
        lambda: (numbers(77), PACKED_IDS, NO_SLOTS, PACKED_OFFSETS, SECTION, NAMES, 0, 1),
        lambda: (IDS[1:], PACKED_IDS, REVERSED, PACKED_OFFSETS, SECTION, NAMES, 1, 2),
    ],
    "scan.locate_names": [
        lambda: (
            IDS[1:],
            PACKED_IDS,
            NO_SLOTS,
            PACKED_OFFSETS,
            SECTION,
            NAMES,
            SPANS[:, 0].copy(),
            SPANS[:, 1].copy(),
            zeros(5),
            np.zeros(5, np.bool_),
        ),
        lambda: (
            numbers(77),
            PACKED_IDS,
            NO_SLOTS,
            PACKED_OFFSETS,
            SECTION,
            NAMES,
            zeros(1),
            zeros(1),
            zeros(1),
            np.zeros(1, np.bool_),
        ),
    ],
    "scan.children_in_order": [
        lambda c=c: (numbers(*c), PACKED_IDS, NO_SLOTS, PACKED_OFFSETS, SECTION)
        for c in ((), (2, 3, 4, 6), (3, 2), (3, 3), (2, 77))
    ],
    "index_update.shift_offsets": [
        lambda cut=cut, cuts=cuts, spans=spans: (
            numbers(2, 10, 15, 30, 44),
            np.array(cuts).reshape(-1, 2),
            np.array(spans).reshape(-1, 2),
            cut,
            3,
            np.zeros(5, np.bool_),
            zeros(5),
        )
        for cut, cuts, spans in (
            (0, (), ()),
            (0, ((2, 10), (15, 44)), ((0, 3), (3, 3))),
            (0, ((2, 10), (10, 15), (44, 50)), ((5, 5), (0, 30), (7, 8))),
            (1, ((0, 2), (10, 15)), ((0, 3), (3, 3))),
        )
    ],
    "merge.splice": [
        lambda size=size: (
            SECTION,
            np.array([[3, 9], [9, 9], [20, 40]]),
            NAMES,
            np.array([[0, 4], [4, 8], [2, 2]]),
            numbers(0, 1, 0),
            np.zeros(size, np.uint8),
        )
        for size in (5, 12, 1000)
    ],
    "merge.sort_names": [
        lambda: (NAMES, SPANS, 0, np.zeros((2, 5), np.int64)),
        lambda: (NAMES, SPANS, 3, np.zeros((2, 2), np.int64)),
        lambda: (NAMES, SPANS, 0, np.zeros((2, 0), np.int64)),
    ],
    "merge.measure_entries": [
        lambda: (DIRECTORIES, numbers(0, -1, ENTRY_OFFSETS[1]), numbers(0, 2, 2, 9)),
        lambda: (WRONG, zeros(1), numbers(0, 3)),
        lambda: (WRONG, zeros(0), zeros(1)),
    ],
    "merge._locate_children": [
        lambda c=c, slots=slots: (*(numbers(*c), len(c), PACKED_IDS, slots, PACKED_OFFSETS, SECTION, zeros(5)),)
        for c in ((), (2, 3, 4, 6), (3, 2), (2, 77))
        for slots in (NO_SLOTS, REVERSED)
    ],
    "merge._merge_children": [
        lambda c=c, order=order: (
            *(numbers(*c), OFFSETS[np.searchsorted(IDS, c)], len(c), SECTION),
            *(NAMES, SPANS, numbers(0, 40, 41, 42, 43), numbers(*order), zeros(9)),
        )
        for c in ((), (2, 3, 4, 6), (3, 2), (3, 3))
        for order in ((), (4, 0, 1, 2, 3), (3,))
    ],
    "merge._put_entry": [
        lambda c=c: (np.zeros(99, np.uint8), 3, 1 << 20, numbers(*c), len(c)) for c in ((), (2, 300, 1 << 40))
    ],
    "merge.merge_directories": [
        lambda done=done, given=given, section=section, starts=starts, slots=slots: (
            *(numbers(1, 6, 9), section, numbers(*starts), numbers(2, 0, 1)),
            *(NAMES, SPANS, numbers(0, 40, 41, 42, 43), numbers(0, 3, 4, 5)),
            *(PACKED_IDS, slots, PACKED_OFFSETS, SECTION, done, numbers(*given)),
            *(np.zeros((3, 9), np.int64), np.zeros((2, 3), np.int64), np.zeros(300, np.uint8)),
            np.zeros((3, 2), np.int64),
        )
        for done, given, section, starts, slots in (
            (0, (), SORTED_ENTRY, (0, -1, -1), NO_SLOTS),
            (1, (), SORTED_ENTRY, (0, -1, -1), REVERSED),
            # in no order, and told in which
            (0, (), UNSORTED_ENTRY, (0, -1, -1), NO_SLOTS),
            (1, (2, 3, 4, 6), UNSORTED_ENTRY, (0, -1, -1), NO_SLOTS),
            (0, (), DIRECTORIES, (0, ENTRY_OFFSETS[1], -1), NO_SLOTS),
            # a child that is no inode, and a damaged entry
            (0, (), LOST_CHILD, (0, -1, -1), NO_SLOTS),
            (0, (), WRONG, (0, -1, -1), NO_SLOTS),
        )
    ],
    "wire.copy_bytes": [lambda n=n: (np.zeros(9, np.uint8), 2, octets(b"abcdefg"), 1, n) for n in (0, 1, 6)],
    "wire.next_field": [
        *(lambda w=w: (octets(bytes([8 + w]), b"\x03abcdefgh"), 0, 10) for w in range(8)),
        lambda: (octets(b"\x0a\x09abc"), 0, 5),
        *(lambda b=b: (octets(b), 0, len(b)) for b in (b"\x02\x00", b"\xf8\x07\x01", b"\xff" * 5 + b"\x01", b"\x80")),
    ],
    "wire.record_span": [
        lambda b=b: (octets(b), 0) for b in (b"\x01a", b"\x02a", encode_varint((1 << 64) - 1), b"\x80", b"")
    ],
    "scan._after_inode": [lambda n=n: (SECTION, n) for n in range(SECTION.size)],
    "wire.octet": [lambda: (octets(b"\x01\xff"), 1)],
    "wire.fixed64": [lambda: (octets(b"\x01\xff\x02\xff\x03\xff\x04\xff"), 0)],
    "inode._clear": [lambda: (TABLE.rows[1:2].copy()[0],)],
    "inode._decode_file": [
        lambda b=b: (octets(b), 0, len(b), new_rows(1)[0], new_blocks(9), 2)
        for b in (FILE_BODY, FILE_BODY[:-1], FILE_BODY + b"\xf8\x07\x01", b"\x32\x00", b"\x58\x02", b"\x3a\x00\x42\x00")
    ],
    "inode._decode_directory": [
        lambda b=b: (octets(b), 0, len(b), new_rows(1)[0])
        for b in (DIRECTORY_BODY, DIRECTORY_BODY[:-1], b"\xf8\x07\x01")
    ],
    "inode.decode_inode": [
        *(lambda offset=offset: decoding(SECTION, offset) for offset in OFFSETS.tolist()),
        lambda: decoding(WRONG, 0),
        lambda: decoding(octets(b"\x04\x08\x01\x10\x05"), 0),
        lambda: decoding(octets(b"\x06\x08\x03\x10\x05\x32\x00"), 0),
    ],
    "inode.record_bytes": [lambda: (SECTION, OFFSETS), lambda: (WRONG, zeros(1))],
    "inode.decode_inodes": [
        lambda section=section, offsets=offsets: (
            *(section, offsets, np.arange(offsets.size), new_rows(9), 2),
            *(np.zeros(300, np.uint8), 3, new_blocks(20), 1, np.zeros((32, 2), np.int64)),
        )
        for section, offsets in ((SECTION, OFFSETS), (SECTION, OFFSETS[:0]), (WRONG, zeros(1)))
    ],
    "inode._block_size": [lambda i=i: (TABLE.blocks[i],) for i in range(2)],
    "inode._client_size": [lambda: (TABLE.rows[TABLE.count - 1], TABLE.pool.items)],
    "inode._body_size": [
        lambda r=r: (TABLE.rows[r], TABLE.blocks, TABLE.pool.items, r % 2 == 0, r % 3 == 0) for r in PLAIN.tolist()
    ],
    "inode._prefetch_rows": [lambda: (TABLE.rows, np.tile(PLAIN, 9), 0, TABLE.names, TABLE.blocks)],
    "inode.encoded_size": [
        lambda: (TABLE.rows, PLAIN, *ARRAYS, True, True),
        lambda: (TABLE.rows, np.tile(PLAIN, 9), *ARRAYS, True, True),
        lambda: (TABLE.rows, PLAIN[:0], *ARRAYS, False, False),
    ],
    "compare._permission_in": [lambda t=t: (octets(OWNED_BODY), 0, len(OWNED_BODY), *t) for t in PERMISSION_TAGS],
    "compare._permission_offset": [lambda p=p: (OWNED, p) for p in (*OWNED_BOUNDS[:, 0].tolist(), 1)],
    "compare._serial": [lambda: (octets(b"\x00\x01\x02\xff"), 1)],
    "compare._same_string": [
        lambda a=a, b=b: (numbers(0, 1, -1), a, numbers(0, 2, 1, -1), b) for a in range(4) for b in range(5)
    ],
    "compare._same_bytes": [lambda n=n: (octets(b"abc"), 0, octets(b"zabd"), 1, n) for n in range(4)],
    "compare.same_records": [
        lambda renumbered=renumbered, groups=groups: (
            *(OWNED, OWNED_BOUNDS, np.arange(70000), np.arange(70000)),
            *(RENUMBERED, OWNED_BOUNDS, np.arange(70000) - 1, groups, renumbered, np.ones(len(OWNED_BOUNDS), np.bool_)),
        )
        for renumbered in (False, True)
        for groups in (np.arange(70000), np.arange(2))
    ],
    "directory_tree.place_children": [
        *(
            lambda field=field, referred=referred: (
                *(DIRECTORIES, numbers(7, 8), ENTRY_OFFSETS, field),
                *(PACKED_IDS, NO_SLOTS, referred, zeros(5)),
            )
            for field, referred in (
                (tags.DirEntry.children, zeros(0)),
                (tags.DirEntry.refChildren, np.full(501, 4)),
                (tags.DirEntry.refChildren, numbers(2, 3)),
            )
        ),
        lambda: (WRONG, numbers(7), zeros(1), tags.DirEntry.children, PACKED_IDS, NO_SLOTS, zeros(0), zeros(5)),
        lambda: (
            *(DIRECTORIES[:-1], numbers(7, 8), ENTRY_OFFSETS, tags.DirEntry.refChildren),
            *(PACKED_IDS, NO_SLOTS, np.full(501, 4), zeros(5)),
        ),
    ],
    "directory_tree.directory_lengths": [
        lambda parents=parents, root=root: (numbers(*parents), numbers(0, 1, 2, 3), root, zeros(4), zeros(4))
        for parents, root in (((-1, 0, 1, 1), 0), ((-1, 3, 1, 2), 0), ((-1, -1, 1, 0), 0), ((-1, 0, 1, 1), -1))
    ],
    "directory_tree.add_upwards": [
        lambda: (numbers(-1, 0, 1), numbers(0, 1, 2), np.arange(6).reshape(3, 2)),
        lambda: (numbers(1, -1, -1), numbers(1, 2, 0), np.arange(6).reshape(3, 2)),
    ],
    "directory_tree.fill_directory_paths": [
        lambda: (
            *(NAMES, numbers(-1, 0, 1, -1), numbers(0, 0, 1, 4), numbers(0, 1, 2, 1)),
            *(0, numbers(0, 1, 2, 3), numbers(0, 0, 2, 7, 7), np.zeros(7, np.uint8)),
        )
    ],
    "directory_tree.fill_paths": [
        lambda: (
            *(NAMES, numbers(-1, 1, 2), numbers(0, 0, 2, 7), octets(b"/a/a/ab")),
            *(numbers(0, 1, 3), numbers(0, 2, 1), zeros(4), np.zeros(13, np.uint8)),
        )
    ],
    "directory_tree.fill_names": [lambda: (NAMES, numbers(0, 1, 3), numbers(0, 2, 1), zeros(4), np.zeros(3, np.uint8))],
    "inode_columns._signed32": [lambda v=v: (np.int64(v),) for v in (0, 5, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, -1)],
    "inode_columns._file": body_cases(FILE_BODY, FILE_BODY[:-1], b"", b"\x32\x02\x18\xff", b"\xf8\x07\x01"),
    "inode_columns._directory": body_cases(DIRECTORY_BODY, DIRECTORY_BODY[:-1], b"\x32\x00", b"\xf8\x07\x01"),
    "inode_columns._symlink": body_cases(SYMLINK_BODY, SYMLINK_BODY[:-1], b"\xf8\x07\x01"),
    "inode_columns.decode_record": body_cases(
        *(message.SerializeToString() for message in INODES),
        INODES[1].SerializeToString()[:-1],
        pb.INode(type=pb.INode.SYMLINK, id=7, symlink=pb.INodeSymlink.FromString(SYMLINK_BODY)).SerializeToString(),
        pb.INode(type=pb.INode.FILE, id=7).SerializeToString(),
        b"\x1a\x7f",
    ),
    "inode_columns.decode_columns": [
        lambda: (SECTION, OFFSETS, columns(5)),
        lambda: (SECTION[:-1], OFFSETS, columns(5)),
        lambda: (WRONG, zeros(1), columns(1)),
    ],
    "inode._put_fixed64": [lambda: (np.zeros(9, np.uint8), 1, np.uint64((1 << 63) + 77))],
    "inode._put_string": [lambda: (np.zeros(20, np.uint8), 1, TABLE.pool.items, TABLE.pool.arena, 2)],
    "inode._put_file": [
        lambda r=r, p=p: (np.zeros(90, np.uint8), 1, TABLE.rows[r], *ARRAYS[1:], TABLE.pool.arena, p, p)
        for r, p in ((1, True), (1, False), (TABLE.count - 1, True))
    ],
    "inode._put_directory": [lambda: (np.zeros(90, np.uint8), 1, TABLE.rows[5])],
    "inode.encode_inodes": [
        lambda: (TABLE.rows, PLAIN, *ARRAYS, TABLE.pool.arena, True, True, np.zeros(SIZE, np.uint8), zeros(7))
    ],
}


def plain(value: Any) -> Any:
    """Convert a result or an argument to a value that `==` compares."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def test_every_kernel_has_a_twin() -> None:
    assert {name for name in KERNELS if name not in CASES} == set()
    assert set(CASES) <= set(KERNELS)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_does_the_same_uncompiled(name: str) -> None:
    kernel = KERNELS[name]
    for make in CASES[name]:
        compiled, interpreted = make(), copy.deepcopy(make())
        assert plain(kernel(*compiled)) == plain(kernel.plainly(*interpreted))
        assert plain(compiled) == plain(interpreted)


# ---- damaged records must not lead a kernel out of its arrays ----------------------------------------------


def test_blocks_without_their_fields_are_damage() -> None:
    """The largest number of empty blocks in a record would exceed the table."""
    body = b"\x32\x00" * 5000
    record = b"\x08\x01\x10\x05\x22" + encode_varint(len(body)) + body
    with pytest.raises(RecordError, match="no inode record"):
        InodeTable(-63).load(octets(encode_varint(len(record)), record), 0, 0)


@pytest.mark.parametrize("tag", [0x11, 0x15, 0x19, 0x1D])
def test_children_of_another_wire_type_are_unknown_fields(tag: int) -> None:
    body = b"\x08\x01" + bytes([tag]) + b"\x01" * (8 if tag & 7 == 1 else 4)
    buffer = octets(bytes([len(body)]), body)
    assert scan.count_children(buffer, 0) == (0, 0)
    guard = zeros(16)
    assert scan.collect_children(buffer, 0, guard[:0], guard[:0]) == (1, False)
    assert guard.tolist() == [0] * 16


@pytest.mark.parametrize("value", [0, (1 << 64) - 5])
def test_inode_ids_are_positive(value: int) -> None:
    for message in (a_directory(1, b"d"), a_file(1, b"f")):
        message.id = value
        data = octets(encode_delimited(message), PLAIN_FILES[0])
        assert scan.scan_inodes(data, 0, data.size, zeros(4), zeros(4), 0, zeros(4), 0) == (0, 0, 0, True)
        with pytest.raises(RecordError):
            InodeTable(-63).load(data, 0, 0)
    entry = octets(encode_delimited(pb.DirEntry(parent=value)))
    assert scan.scan_directories(entry, 0, zeros(4), zeros(4), 0)[3]


@pytest.mark.parametrize("record", PLAIN_FILES[:3], ids=["usual", "smallest", "largest"])
def test_a_plain_file_is_read_in_one_step_and_is_left_where_it_is_damaged(record: bytes) -> None:
    inode = pb.INode.FromString(_body(record))
    assert scan._plain_file(octets(record), 0, len(record)) == (inode.id, len(record))
    for cut in range(len(record)):
        assert scan._plain_file(octets(record), 0, cut) == (0, 0)
    longer = encode_delimited(pb.INode.FromString(_body(record) + b"\xf8\x07\x01"))
    assert scan._plain_file(octets(longer), 0, len(longer)) == (0, 0)


@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=40), st.data())
def test_a_scan_is_the_same_with_and_without_plain_files(ids: list[int], data: st.DataObject) -> None:
    """An unknown field makes the slow path read the same record."""
    names = [data.draw(st.binary(max_size=140)) for _ in ids]
    short = [encode_delimited(a_file(i, name)) for i, name in zip(ids, names, strict=True)]
    long = [encode_delimited(pb.INode.FromString(_body(record) + b"\xf8\x07\x01")) for record in short]
    found = []
    for chosen in (short, long):
        buffer, slots, offsets = octets(*chosen), zeros(50), zeros(50)
        walked = scan.scan_inodes(buffer, 0, buffer.size, slots, offsets, 0, zeros(9), 0)
        assert walked == (len(ids), 0, buffer.size, False)
        assert offsets[: len(ids)].tolist() == [0, *itertools.accumulate(map(len, chosen[:-1]))]
        found.append(slots[: len(ids)].tolist())
    assert found == [ids, ids]


@given(st.binary(max_size=140), st.integers(1, 1 << 62), st.data())
def test_a_name_is_found_in_one_step_or_the_long_way(name: bytes, inode_id: int, data: st.DataObject) -> None:
    """An unknown field, or a name in another place, makes the slow path read the same record."""
    body = _body(encode_delimited(data.draw(st.sampled_from([a_file, a_directory]))(inode_id, name)))
    again = b"\x1a" + encode_varint(19) + b"the last one counts"
    bodies = {body: name, body + b"\xf8\x07\x01": name, body + again: b"the last one counts"}
    for each, expected in bodies.items():
        record = octets(encode_varint(len(each)), each, data.draw(st.binary(max_size=20)))
        start, size = scan.name_span(record, 0)
        assert record[start : start + size].tobytes() == expected
        short = scan._plain_name(record, 0)
        assert short in ((start, size), (0, -1))
        if each != body:
            assert short == (0, -1)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_names_are_in_the_order_of_signed_bytes(common: bytes, a: bytes, b: bytes) -> None:
    a, b = common + a, common + b
    found = scan.compare_names(octets(b"x", a), 1, len(a), octets(b), 0, len(b))
    assert np.sign(found) == (name_key(a) > name_key(b)) - (name_key(a) < name_key(b))


def _body(record: bytes) -> bytes:
    return bytes(read_record(memoryview(record)).body)


@given(st.integers(0, 9000), st.data())
def test_ids_increase_strictly(size: int, data: st.DataObject) -> None:
    ids = np.arange(1, size + 1)
    assert scan.strictly_increasing(ids)
    if size > 1:
        at = data.draw(st.integers(1, size - 1))
        ids[at] = ids[at - 1]
        assert not scan.strictly_increasing(ids)


def test_modules_are_the_ones_that_are_tested() -> None:
    # `jit`, `kept_code`, `kept_files` and `tags` have no kernels of their own, and `prefetch` changes nothing.
    tested = (
        *(attributes, compare, convert, directory_tree, history, history_check, index_update, inode),
        *(
            inode_columns,
            jit,
            kept_code,
            kept_files,
            merge,
            open_files,
            packed,
            prefetch,
            readers,
            records,
            scan,
            tables,
            tags,
            wire,
        ),
    )
    assert {module.__name__ for module in MODULES} == {module.__name__ for module in tested}


@jit.kernel
def _asked_for(array, row):
    prefetch.prefetch(array, row)
    return row


@pytest.mark.parametrize("row", [0, 2, 3, 1 << 20, -1, (1 << 62) + 5, -(1 << 63)])
def test_any_row_may_be_asked_for(row: int) -> None:
    for array in (octets(b"abc"), numbers(1, 2, 3), np.zeros((3, 2), np.int64), np.zeros(3, inode.INODE_DTYPE)):
        before = array.copy()
        assert _asked_for(array, row) == _asked_for.plainly(array, row) == row
        assert (array == before).all()


@pytest.mark.parametrize("size", range(7, 27))
def test_numbered_names_have_hashes_of_their_own(size: int) -> None:
    """Also in the bits that are a place in a small table, whatever the numbers are followed by."""
    count = 5000
    for form in ("{:0{size}d}", "{:0{size}d}_0"):
        names = [form.format(number, size=size - len(form.format(0, size=1)) + 1).encode() for number in range(count)]
        assert {len(name) for name in names} == {size}
        hashes = {int(tables.hash_name(5, np.frombuffer(name, np.uint8), 0, size)) for name in names}
        assert len(hashes) > 0.99 * count
        assert len({value >> 32 & 0x1FFF for value in hashes}) > 0.9 * 0x2000 * (1 - np.exp(-count / 0x2000))
