"""The compiled and uncompiled kernels of verification give the same results; damage never makes them exceed bounds."""

from __future__ import annotations

import copy
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import image_tools.verify.kernels
from image_format.kernels.jit import Kernel
from image_format.proto import fsimage_pb2 as pb
from image_format.snapshot_sections import DiffScan
from image_format.varint import encode_delimited
from image_tools.verify.kernels import diff_audit, inode_audit, tree_audit
from image_tools.verify.kernels.attribute_audit import KnownSerials
from tests.image_format.image_support import delimited
from tests.image_format.kernel_values import Arguments, numbers, octets

MODULES = [
    importlib.import_module(f"image_tools.verify.kernels.{module.name}")
    for module in pkgutil.iter_modules(image_tools.verify.kernels.__path__)
]
KERNELS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, Kernel) and value.__module__ == module.__name__
}


def zeros(size: int, kind: type = np.int64) -> np.ndarray:
    return np.zeros(size, kind)


def known(*serials: int) -> np.ndarray:
    array = zeros(1 << 24, np.uint8)
    array[list(serials)] = 1
    return array


def some_inodes() -> list[pb.INode]:
    root = pb.INode(type=pb.INode.DIRECTORY, id=16385)
    root.directory.permission, root.directory.nsQuota = 1 << 40 | 2 << 16 | 0o755, (1 << 64) - 1
    root.directory.acl.entries.extend([1 << 6 | 7, 3 << 6 | 1 << 3, 2 << 3])
    root.directory.xAttrs.xAttrs.add(name=4 << 6, value=b"v")
    root.directory.typeQuotas.quotas.add(storageType=pb.SSD, quota=3)
    file = pb.INode(type=pb.INode.FILE, id=16386, name=b"a/b")
    file.file.permission, file.file.replication, file.file.preferredBlockSize = 9 << 40, 3, 128
    file.file.blocks.add(blockId=77, genStamp=1001, numBytes=(1 << 64) - 1)
    file.file.blocks.add(blockId=1 << 63, genStamp=3)
    file.file.fileUC.clientName = "c"
    striped = pb.INode(type=pb.INode.FILE, id=16387, name=b"s")
    striped.file.erasureCodingPolicyID, striped.file.replication = 9, 1
    link = pb.INode(type=pb.INode.SYMLINK, id=5, name=b"l")
    link.symlink.permission = 5 << 16
    wrong = pb.INode(type=pb.INode.SYMLINK, id=16388, name=b"w", file=pb.INodeFile(blockType=pb.STRIPED))
    return [root, file, striped, link, wrong]


INODES = [*map(encode_delimited, some_inodes()), b"\x02\x08\x01", b"\x00"]
SECTION = octets(b"".join(INODES))
OFFSETS = np.cumsum([0, *map(len, INODES)], dtype=np.int64)[:-1]
FILE, STRIPED = some_inodes()[1].file, some_inodes()[2].file
DIRECTORY = some_inodes()[0].directory
IDS = numbers(5, 16385, 16386, 16387, 16388)
SLOTS = numbers(3, 0, 1, 2, 4)
KINDS = np.array([2, 1, 1, 3, 1, 0, 0], np.uint8)
ENTRIES = octets(
    delimited(
        [
            pb.DirEntry(parent=16385, children=[16387, 16386, 99, 16386], refChildren=[0, 0, 7]),
            pb.DirEntry(parent=16386, children=[5]),
            pb.DirEntry(parent=16385, children=[16388]),
        ]
    )
    + b"\x03\x08\x81\x80"
)
REFERENCES = octets(
    delimited(
        [
            pb.INodeReference(referredId=16387, name=b"n", lastSnapshotId=4),
            pb.INodeReference(referredId=16386, dstSnapshotId=(1 << 31) - 2),
            pb.INodeReference(referredId=12),
        ]
    )
    + b"\x01\xff"
)
DIFFS = octets(
    delimited(
        [
            pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=16385, numOfDiff=1),
            pb.DirectoryDiff(snapshotId=1, createdListSize=2, deletedINodeRef=[0, 2, 9]),
            pb.CreatedListEntry(name=b"a"),
            pb.CreatedListEntry(name=b"b"),
            pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=16386, numOfDiff=1),
            pb.FileDiff(snapshotId=1),
            pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=16386, numOfDiff=5),
        ]
    )
)


CUT_LIST = octets(
    delimited([pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=16385, numOfDiff=1)]) + b"\x04\x42\x02\x01\x80"
)


def strings() -> KnownSerials:
    return KnownSerials(known(1, 2), known(2), known())


def rules(*, erasure_coding: bool = True) -> np.ndarray:
    return numbers(1000, 2047, int(erasure_coding))


def maxima() -> np.ndarray:
    return numbers(0, 0, 0, -(1 << 63))


def body(message: Any) -> np.ndarray:
    return octets(message.SerializeToString())


def inode_rows(size: int) -> Arguments:
    return zeros(size), zeros(size), zeros(size, np.uint8), zeros(size, np.uint16)


def tree_rows(size: int) -> Arguments:
    return zeros(size), zeros(size), zeros(size), zeros(size, np.uint16)


def audited(buffer: np.ndarray = ENTRIES, size: int = 9) -> Arguments:
    owner = np.array([0, -1, -1, -1, -1, -1, -1], np.int32)
    entry_of = np.full(7, -1, np.int32)
    index = (SECTION, IDS, SLOTS, OFFSETS, KINDS)
    return (buffer, 0, *tree_rows(size), 0, *index, owner, entry_of, np.full(3, -1, np.int64))


def walked() -> Arguments:
    """Return the arguments of `mark_reachable` for `ENTRIES`."""
    made = audited()
    tree_audit.audit_directories(*made)
    parents_to_flags, owner_to_references = made[2:6], made[12:15]
    return (
        0,
        zeros(7, np.uint8),
        KINDS,
        zeros(4),
        ENTRIES,
        owner_to_references[1],
        *parents_to_flags[1:4],
        IDS,
        SLOTS,
        numbers(2, 1, -1),
        numbers(0, 1),
        numbers(3, 4),
    )


CASES: dict[str, list[Callable[[], Arguments]]] = {
    "attribute_audit._little_endian": [lambda n=n: (octets(b"\x01\x02\xff\x80\x00\x00\x00\xff"), 0, n) for n in (4, 8)],
    "attribute_audit._use": [lambda s=s: (known(1), s) for s in (0, 1, 2)],
    "attribute_audit.audit_permission": [
        lambda v=v: (octets(v.to_bytes(8, "little")), 0, known(1), known(2)) for v in (1 << 40 | 2 << 16, 3 << 40, 0)
    ],
    "attribute_audit.audit_acl": [
        lambda b=b: (b, 0, b.size, known(1), known(2))
        for b in (body(DIRECTORY.acl), octets(b"\x15\x40\x00\x00\x00"), octets(b"\x12\x03abc"), octets(b"\x12"))
    ],
    "attribute_audit.audit_xattrs": [
        lambda b=b: (b, 0, b.size, known())
        for b in (body(DIRECTORY.xAttrs), octets(b"\x0a\x02\x12\x00"), octets(b"\x0a\x01\x0d"), octets(b"\x0a"))
    ],
    "attribute_audit.audit_quotas": [
        lambda b=b: (b, 0, b.size)
        for b in (body(DIRECTORY.typeQuotas), octets(b"\x0a\x02\x08\x02"), octets(b"\x0a\x01\x08"))
    ],
    "attribute_audit.audit_block": [
        lambda b=b: (b, 0, b.size, np.int64(1000), maxima())
        for b in (*map(body, FILE.blocks), octets(b"\x08\x01"), octets(b"\x08"))
    ],
    "inode_audit._audit_file": [
        lambda b=b, ec=ec: (b, 0, b.size, strings(), known(1)[:256], rules(erasure_coding=ec), maxima())
        for b in (
            body(FILE),
            body(STRIPED),
            body(pb.INodeFile(blockType=pb.STRIPED)),
            octets(b"\x32\x00"),
            octets(b"\x08"),
        )
        for ec in (True, False)
    ],
    "inode_audit._audit_directory": [
        lambda b=b: (b, 0, b.size, strings())
        for b in (body(DIRECTORY), body(pb.INodeDirectory(nsQuota=(1 << 64) - 9)), octets(b"\x2a\x01\x15"))
    ],
    "inode_audit._audit_symlink": [
        lambda b=b: (b, 0, b.size, strings()) for b in (body(some_inodes()[3].symlink), octets(b"\x08"))
    ],
    "inode_audit._audit_name": [
        lambda n=n, i=i: (octets(n), 0, len(n), np.int64(i)) for n in (b"", b"ab", b"a/") for i in (16385, 16386)
    ],
    "inode_audit._audit_inode": [
        lambda b=b: (octets(b), 1, len(b), strings(), known(1)[:256], rules(), maxima()) for b in INODES
    ],
    "attribute_audit.audit_client": [lambda b=b: (octets(b), 0, len(b)) for b in (b"", b"\x0a\x01c", b"\x0a\x02c")],
    "tree_audit.slot_of_id": [lambda i=i, s=s: (IDS, s, i) for i in (4, 5, 16388, 1 << 50) for s in (SLOTS, zeros(0))],
    "diff_audit.count_references": [
        lambda b=b: (b, DiffScan(b).diffs, zeros(3)) for b in (DIFFS, DIFFS[:-3], DIFFS[:9], CUT_LIST)
    ],
    "inode_audit._audit_redundancy": [
        lambda r=r, t=t, p=p, ec=ec: (*map(np.int64, (r, t, p)), known(1)[:256], rules(erasure_coding=ec))
        for r in (-1, 0, 3, 3000)
        for t in (0, 1)
        for p in (-1, 1, 2, 300)
        for ec in (True, False)
    ],
    "inode_audit.audit_inodes": [
        lambda b=b, n=n: (b, 0, *inode_rows(n), 0, strings(), known(1)[:256], rules(), maxima())
        for b in (SECTION, SECTION[:-4], octets(b"\x05\x08"))
        for n in (9, 2)
    ],
    "tree_audit._parent": [lambda e=e: (ENTRIES, 1, e) for e in (1 + int(ENTRIES[0]), 3, 2)],
    "tree_audit.audit_directories": [
        audited,
        lambda: audited(size=1),
        lambda: audited(ENTRIES[:-5]),
        lambda: audited(octets(b"\x09\x08")),
    ],
    "tree_audit._audit_entry": [
        lambda: (ENTRIES, 1, 1 + int(ENTRIES[0]), 0, SECTION, IDS, SLOTS, OFFSETS, *audited()[12::2]),
        lambda: (octets(b"\x12\x0b" + b"\xff" * 11), 0, 13, 0, SECTION, IDS, SLOTS, OFFSETS, *audited()[12::2]),
    ],
    "tree_audit.audit_references": [
        lambda b=b, n=n: (b, 0, zeros(n), zeros(n), zeros(n, np.int8), zeros(n), 0, IDS, SLOTS)
        for b in (REFERENCES, REFERENCES[:-3])
        for n in (9, 1)
    ],
    "tree_audit._push": [lambda s=s: (s, np.array([0, 1, 0], np.uint8), KINDS, zeros(3), 1) for s in (-1, 0, 1, 2)],
    "tree_audit.mark_reachable": [walked],
}


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def marks(value: Any) -> Any:
    """Convert as `plain` does, but keep only the nonzero elements of large arrays of serials."""
    if isinstance(value, np.ndarray) and value.size > 1 << 20:
        found = np.flatnonzero(value)
        return list(zip(found.tolist(), value[found].tolist(), strict=True))
    return tuple(map(marks, value)) if isinstance(value, tuple) else plain(value)


def test_every_kernel_has_a_test_case() -> None:
    assert set(CASES) == set(KERNELS)


@pytest.mark.parametrize("name", CASES)
def test_compiled_and_uncompiled_kernels_agree(name: str) -> None:
    kernel = KERNELS[name]
    for make in CASES[name]:
        compiled, interpreted = make(), copy.deepcopy(make())
        # shifts of 64-bit scalars give a warning in Python, and wrap around silently in machine code
        with np.errstate(over="ignore"):
            assert plain(kernel(*compiled)) == plain(kernel.plainly(*interpreted))
        assert marks(compiled) == marks(interpreted)


# ---- any bytes ---------------------------------------------------------------------------------------------


def walks(data: bytes) -> Iterator[tuple[int, int, bool]]:
    buffer = octets(data)
    yield inode_audit.audit_inodes(buffer, 0, *inode_rows(64), 0, STRINGS, STRINGS.users[:256], rules(), maxima())
    yield tree_audit.audit_directories(*audited(buffer, 64))
    yield tree_audit.audit_references(buffer, 0, zeros(64), zeros(64), zeros(64, np.int8), zeros(64), 0, IDS, SLOTS)


STRINGS = strings()


@given(
    st.one_of(st.binary(max_size=60), st.lists(st.sampled_from([*INODES, bytes(ENTRIES), bytes(DIFFS)])).map(b"".join))
)
def test_walks_never_exceed_their_buffer(data: bytes) -> None:
    for count, position, damaged in walks(data):
        assert 0 <= count <= 64
        assert 0 <= position <= len(data)
        assert damaged or count == 64 or position == len(data)
    scan = DiffScan(octets(data))
    assert -1 <= diff_audit.count_references(octets(data), scan.diffs, zeros(3)) < scan.diffs.size
    assert 0 <= scan.end <= len(data)
    assert scan.end == len(data) or scan.damaged_at is not None
