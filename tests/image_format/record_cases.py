"""Arguments for the kernels over delimited records, attributes and open files; see test_kernel_twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from image_format.kernels import attributes, records
from image_format.kernels.inode import INODE_DTYPE
from image_format.kernels.open_files import UNREAD_DTYPE
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from tests.image_format.kernel_values import Arguments, numbers, octets, writable, zeros
from tests.image_format.snapshot_cases import BROKEN, BROKEN_ENTRIES, DIFFS, ENTRIES, HUGE, entry

INODES = octets(*(encode_delimited(pb.INode(type=pb.INode.FILE, id=number, name=b"f" * number)) for number in range(9)))


def cut(data: np.ndarray, mode: int, step: int, room: int = 9) -> Arguments:
    return (data, 0, mode, step, zeros(2), zeros(records.DIFF_STATE), zeros(room))


RECORD_CASES: dict[str, list[Callable[[], Arguments]]] = {
    "records.last_boundary": [
        *(lambda limit=limit: (INODES, 0, limit) for limit in range(INODES.size + 1)),
        lambda: (octets(HUGE), 0, 9),
        lambda: (octets(b"\x05a"), 0, 9),
    ],
    "text.valid_utf8": [
        lambda b=b: (octets(b), 0, len(b))
        for b in (b"", b"a/b", "ü文😀".encode(), b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe6\x96")
    ],
    "records.next_in_diffs": [
        lambda b=b, state=state: (octets(b), 0, len(b), numbers(*state))
        for b in (
            pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=5, numOfDiff=2).SerializeToString(),
            pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=5, numOfDiff=1).SerializeToString(),
            pb.DirectoryDiff(snapshotId=1, createdListSize=3).SerializeToString(),
            b"\x08\x03\x18\x01",
            b"\x80",
        )
        for state in ((0, 0, 0, 0), (1, 1, 0, 5), (2, 1, 0, 5), (2, 1, 2, 5))
    ],
    "records._children": [
        lambda b=b: (octets(b), 0, len(b))
        for b in (
            pb.DirEntry(parent=1, children=[2, 300], refChildren=[0]).SerializeToString(),
            b"\x10\x09\x18\x01",
            b"\x12\x05",
            b"\x80",
            b"",
        )
    ],
    "records.cut_records": [
        *(lambda step=step: cut(INODES, records.BY_RECORD, step) for step in (1, 3, 100)),
        *(lambda step=step: cut(ENTRIES, records.BY_CHILDREN, step) for step in (1, 2, 5)),
        *(lambda step=step: cut(DIFFS, records.BY_DIFF_LIST, step) for step in (1, 2, 5)),
        lambda: cut(INODES, records.BY_RECORD, 1, room=2),
        *(lambda b=b: cut(b, records.BY_DIFF_LIST, 1) for b in (DIFFS[:-3], *BROKEN)),
        *(lambda b=b: cut(b, records.BY_CHILDREN, 1) for b in BROKEN_ENTRIES),
        lambda: cut(octets(b"\x80" * 12), records.BY_RECORD, 1),
    ],
}
USERS, GROUPS, XATTRS = numbers(0, 5, 6), numbers(0, 0, 70000), numbers(0, 9)
NO_MAP = zeros(0)
MAPS = [(USERS, GROUPS), (NO_MAP, NO_MAP), (USERS[:1], GROUPS)]
XATTR_NAME = 1 << 6 | 2 << 30
SPECIAL = [numbers(*(XATTR_NAME if at == i else -1 for i in range(4))) for at in range(5)]
ACL = pb.AclFeatureProto(entries=[1 << 6 | 7, 2 << 6 | 1 << 3 | 5, 3 << 3, 1 << 6 | 2 << 3])
XATTR = pb.XAttrCompactProto(name=XATTR_NAME, value=b"\x0e")
XATTR_LIST = pb.XAttrFeatureProto(xAttrs=[XATTR, pb.XAttrCompactProto(name=7 << 6, value=b"long")])
QUOTAS = pb.QuotaByStorageTypeFeatureProto()
for _kind in (pb.SSD, pb.PROVIDED, pb.NVDIMM):
    QUOTAS.quotas.add(storageType=_kind, quota=1)
FILE = pb.INodeFile(
    replication=3000,
    permission=1 << 40 | 2 << 16 | 0o644,
    acl=ACL,
    xAttrs=XATTR_LIST,
    storagePolicyID=1,
    blockType=pb.STRIPED,
    erasureCodingPolicyID=1,
)
DIRECTORY = pb.INodeDirectory(permission=1 << 40 | 2 << 16, acl=ACL, xAttrs=XATTR_LIST, typeQuotas=QUOTAS)
SYMLINK = pb.INodeSymlink(permission=2 << 40 | 2 << 16, target=b"t")
OWNED = [
    pb.INode(type=pb.INode.FILE, id=7, file=FILE),
    pb.INode(type=pb.INode.DIRECTORY, id=8, directory=DIRECTORY),
    pb.INode(type=pb.INode.SYMLINK, id=9, symlink=SYMLINK),
]
SNAPSHOTS = [pb.Snapshot(snapshotId=3, root=OWNED[1])]
COPIES = b"".join(
    (
        entry(7, pb.FileDiff(snapshotId=1, snapshotCopy=FILE, blocks=[pb.BlockProto(blockId=1, genStamp=1)])),
        entry(
            8,
            pb.DirectoryDiff(snapshotId=2, createdListSize=1, snapshotCopy=DIRECTORY),
            pb.CreatedListEntry(name=b"n"),
            pb.DirectoryDiff(snapshotId=1, isSnapshotRoot=True),
        ),
    )
)


def findings() -> np.ndarray:
    return np.zeros((attributes.FINDINGS, 2), np.int64)


def bodies(*messages: Any) -> list[bytes]:
    """Return each message unchanged, without its last byte, and damaged."""
    whole = [message.SerializeToString() for message in messages]
    return [*whole, *(body[:-1] for body in whole), b"\x80", b"\x12\x09", b""]


def conversion(maps: tuple[np.ndarray, ...] = MAPS[0], special: np.ndarray = SPECIAL[-1]) -> attributes.Conversion:
    return attributes.Conversion(*maps, XATTRS, special, findings())


def with_maps(body: bytes) -> list[Callable[[], Arguments]]:
    """Return arguments (buffer, start, end, rules)."""
    return [lambda maps=maps: (writable(body), 0, len(body), conversion(maps)) for maps in MAPS]


def surveyed(body: bytes, *more: int) -> list[Callable[[], Arguments]]:
    """Return arguments (buffer, start, end, rules, ...)."""
    return [
        lambda maps=maps, special=special: (writable(body), 0, len(body), conversion(maps, special), *more)
        for maps in MAPS
        for special in SPECIAL
    ]


def walked(body: bytes, *more: Callable[[], np.ndarray]) -> list[Callable[[], Arguments]]:
    """Return arguments (buffer, start, rules, ...)."""
    return [
        lambda maps=maps, special=special: (writable(body), 0, conversion(maps, special), *(make() for make in more))
        for maps in MAPS
        for special in SPECIAL
    ]


def state() -> np.ndarray:
    return zeros(records.DIFF_STATE)


def framed(*messages: Any) -> list[bytes]:
    whole = b"".join(map(encode_delimited, messages))
    return [whole, whole[:-1], HUGE, b"\x01\x80"]


ATTRIBUTE_CASES: dict[str, list[Callable[[], Arguments]]] = {
    "attributes.note": [lambda row=row: (np.array([[0, 0], [2, 5]]), row, 77) for row in (0, 1)],
    "attributes._renumber_bytes": [
        lambda serial=serial, serials=serials: (writable(bytes([0, serial, 0, 0])), 1, serials)
        for serial in range(4)
        for serials in (GROUPS, NO_MAP)
    ],
    "attributes._renumber_bits": [
        lambda serial=serial, serials=serials: (
            writable(b"\x00", ((serial << 6) + 31).to_bytes(4, "little")),
            1,
            serials,
        )
        for serial in range(4)
        for serials in (GROUPS, NO_MAP)
    ],
    "attributes._permission": [
        lambda maps=maps: (writable(b"\xed\x01\x02\x00\x00\x01\x00\x00"), 0, conversion(maps)) for maps in MAPS
    ],
    "attributes._acl": [
        case
        for body in (*bodies(ACL), b"\x15\x47\x00\x00\x00", b"\x15\x47", b"\x12\x03abc")
        for case in with_maps(body)
    ],
    "attributes._note_policy": [lambda policy=policy: (policy, 77, findings()) for policy in (0, 1, 14)],
    "attributes._note_zone": [
        lambda body=body: (octets(body), 0, len(body), 77, findings())
        for body in (b"\x08\x03\x10\x02\x1a\x01k", b"\x08\x02", b"\x08\x83", b"")
    ],
    "attributes._xattr": [
        lambda body=body, special=special: (writable(body), 0, len(body), conversion(special=special), 77)
        for body in bodies(XATTR)
        for special in SPECIAL
    ],
    "attributes._xattr_list": [
        lambda body=body, special=special: (writable(body), 0, len(body), conversion(special=special), 77)
        for body in (*bodies(XATTR_LIST), b"\x0a\x09", b"\x10\x07")
        for special in SPECIAL
    ],
    "attributes._type_quotas": [
        lambda body=body: (octets(body), 0, len(body), 77, findings())
        for body in (*bodies(QUOTAS), b"\x0a\x01\x80", b"\x0a\x09", b"\x10\x07")
    ],
    "attributes.convert_file": [case for body in bodies(FILE) for case in surveyed(body, 77)],
    "attributes.convert_directory": [case for body in bodies(DIRECTORY) for case in surveyed(body, 77)],
    "attributes._symlink": [case for body in bodies(SYMLINK) for case in with_maps(body)],
    "attributes.convert_inode": [case for body in bodies(*OWNED) for case in surveyed(body)],
    "convert.convert_inodes": [case for body in framed(*OWNED) for case in walked(body)],
    "convert.convert_snapshots": [case for body in framed(*SNAPSHOTS) for case in walked(body)],
    "convert.convert_diffs": [
        case
        for body in (COPIES, COPIES[:-1], HUGE, b"\x01\x80", b"\x04\x08\x03\x18\x01")
        for case in walked(body, state)
    ],
}
PATHS = ("/a", "/dir/größe", "/dir/part-00001", "dir/x", "/dir//x", "/dir/", "/", "")
UNDER_CONSTRUCTION = [pb.FileUnderConstructionEntry(inodeId=300 + i, fullPath=path) for i, path in enumerate(PATHS)]
OPEN_SECTIONS = [
    octets(*map(encode_delimited, UNDER_CONSTRUCTION)),
    octets(encode_delimited(UNDER_CONSTRUCTION[0]) + b"\x18\x01"),
    octets(b"\x04\x12\x02/a", b"\x00", b"\x02\x08\x05", encode_delimited(UNDER_CONSTRUCTION[2])),
    octets(b"\x05\x08\x05\x12\x02/"),
    octets(b"\x80"),
]


def open_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the root, of a directory and of files in both, and the bytes of their names."""
    names = octets(b"dir", "größe".encode(), b"part-00001")
    rows = np.zeros(4, INODE_DTYPE)
    rows["id"] = 16385, 16386, 16387, 1 << 40
    rows["parent"] = -1, 0, 1, 1
    rows["name_offset"], rows["name_length"] = (0, 0, 3, 10), (0, 3, 7, 10)
    return rows, names


def open_files(*wanted: int) -> tuple[np.ndarray, ...]:
    """Return arguments of the entries' encoder: `open_rows`, a file without a row there, and the wanted rows."""
    unread = np.array([(16390, 9, 2, 4, 1)], UNREAD_DTYPE)
    return (*open_rows(), unread, octets(b"..name.."), numbers(*wanted))


OPEN_CASES: dict[str, list[Callable[[], Arguments]]] = {
    "open_files.count_entries": [lambda b=b: (b,) for b in OPEN_SECTIONS],
    "open_files.read_entries": [
        lambda b=b, n=n: (b, zeros(n), zeros(n), np.zeros((n, 2), np.int64))
        for b, n in zip(OPEN_SECTIONS[:3], (len(PATHS), 1, 4), strict=True)
    ],
    "open_files._is_plain": [lambda p=p: (octets(p.encode()), 0, len(p.encode())) for p in PATHS],
    "open_files.entry_sizes": [lambda: (*open_files(1, 2, 3, 0, ~0), zeros(5))],
    "open_files.encode_entries": [lambda: (*open_files(3, ~0, 1), numbers(15, 9, 4), np.zeros(99, np.uint8))],
    "open_files._put_before": [lambda: (np.zeros(9, np.uint8), 6, octets(b"..name.."), 2, 4)],
}
CASES = {**RECORD_CASES, **ATTRIBUTE_CASES, **OPEN_CASES}
