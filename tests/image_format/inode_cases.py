"""Arguments for the kernels over INODE and INODE_DIR; see test_kernel_twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from image_format.inode_table import InodeTable
from image_format.kernels import inode, inode_columns, readers
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, encode_varint
from tests.image_format.kernel_values import Arguments, numbers, octets, zeros


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
NO_SLOTS = np.zeros(0, np.uint32)
REVERSED = np.arange(5, dtype=np.uint32)[::-1].copy()
ENTRIES = [pb.DirEntry(parent=1, children=[2, 3, 4, 6], refChildren=[0, 500]), pb.DirEntry(parent=6, refChildren=[1])]
DIRECTORIES = octets(*map(encode_delimited, ENTRIES))
SORTED_ENTRY = octets(encode_delimited(pb.DirEntry(parent=1, children=[2, 3, 4, 6])))
UNSORTED_ENTRY = octets(encode_delimited(pb.DirEntry(parent=1, children=[3, 2, 6, 4])))
LOST_CHILD = octets(encode_delimited(pb.DirEntry(parent=1, children=[2, 77])))
NAMES = octets(b"aababz\xc3\xa9")
SPANS = np.array([[0, 1], [1, 2], [3, 1], [4, 2], [6, 2]], np.int64)
WRONG = octets(b"\x02\x08\xff")


def table() -> InodeTable:
    """Return rows of plain inodes, one of them new."""
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
    """Return a message with every number and every string."""
    message = of()
    for number, field in enumerate(of.DESCRIPTOR.fields, 1):
        if field.message_type is None and not field.is_repeated:
            kinds = {field.TYPE_STRING: "name", field.TYPE_BYTES: b"name", field.TYPE_BOOL: True, field.TYPE_ENUM: 1}
            setattr(message, field.name, kinds.get(field.type, 300 + number))
    return message


def new_rows(count: int) -> np.ndarray:
    return np.zeros(count, inode.INODE_DTYPE)


def new_blocks(count: int) -> np.ndarray:
    return np.zeros(count, inode.BLOCK_DTYPE)


def decoding(buffer: np.ndarray, offset: int) -> Arguments:
    return (buffer, offset, new_rows(1), 0, np.zeros(300, np.uint8), 0, new_blocks(60), 0)


def owned(user: int, *features: str) -> list[bytes]:
    """Return a file, a directory and a symlink of a user, with the given features."""
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
    """Return cases for the kernels that fill a row of columns from the body of an inode."""
    return [lambda b=b: (octets(b), 0, len(b), columns(1), 0) for b in bodies]  # type: ignore[misc]


def reader_cases() -> dict[str, list[Callable[[], Arguments]]]:
    """Return cases of every generated reader: all fields, each truncation, a field twice, and an unknown field."""
    made: dict[str, list[Callable[[], Arguments]]] = {}
    for name, of in READ.items():
        whole = filled(of).SerializeToString()
        encoded = [*(whole[:size] for size in range(len(whole) + 1)), whole + whole[:4], whole + b"\xf8\x07\x01"]
        made[f"readers.{name}"] = [lambda b=b: (octets(b), 0, len(b)) for b in encoded]  # type: ignore[misc]
    return made


# Each entry makes fresh arguments, because kernels write into them; some contain damaged bytes.
INODE_CASES: dict[str, list[Callable[[], Arguments]]] = {
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
