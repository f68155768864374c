"""Arguments for the kernels over snapshot sections and the sections that these need; see test_kernel_twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from image_format.kernels.history import DIFF_DTYPE, ENTRY_DTYPE
from image_format.kernels.history_check import Directories, Inodes, References
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.snapshot_sections import DiffScan
from image_format.varint import encode_delimited, encode_varint
from tests.image_format.kernel_values import Arguments, numbers, octets, zeros

DirectoryDiffMessage = pb.DirectoryDiff | pb.CreatedListEntry


def directory_copy(**quotas: int) -> pb.INodeDirectory:
    """Return a directory's copy of attributes; with `types`, it has a quota for SSD."""
    copied = pb.INodeDirectory(modificationTime=5, nsQuota=quotas.get("ns", (1 << 64) - 1), dsQuota=(1 << 64) - 1)
    if "types" in quotas:
        copied.typeQuotas.quotas.add(storageType=pb.SSD, quota=quotas["types"])
    return copied


def entry(inode_id: int, *messages: pb.FileDiff | pb.DirectoryDiff | pb.CreatedListEntry) -> bytes:
    """Return a DiffEntry with the messages after it."""
    diffs = [each for each in messages if not isinstance(each, pb.CreatedListEntry)]
    kind = (
        pb.DiffEntry.FILEDIFF if any(isinstance(each, pb.FileDiff) for each in messages) else pb.DiffEntry.DIRECTORYDIFF
    )
    head = pb.DiffEntry(type=kind, inodeId=inode_id, numOfDiff=len(diffs))
    return b"".join(map(encode_delimited, [head, *messages]))


FILE_DIFF = pb.FileDiff(snapshotId=4, fileSize=300, name=b"f", snapshotCopy=pb.INodeFile(replication=3))
DIFFS_BY_ENTRY = [
    entry(
        6,
        pb.DirectoryDiff(snapshotId=7, createdListSize=2, deletedINode=[3, 300], deletedINodeRef=[1, 0]),
        pb.CreatedListEntry(name=b"new"),
        pb.CreatedListEntry(name="ü".encode()),
        pb.DirectoryDiff(snapshotId=4, snapshotCopy=directory_copy(ns=9), deletedINodeRef=[2]),
    ),
    entry(2, FILE_DIFF, pb.FileDiff(snapshotId=1, fileSize=0)),
    entry(1, pb.DirectoryDiff(snapshotId=4, isSnapshotRoot=True, snapshotCopy=directory_copy(ns=9))),
    entry(4, pb.DirectoryDiff(snapshotId=4, snapshotCopy=directory_copy(ns=9, types=1))),
    entry(9),
]
DIFFS = octets(*DIFFS_BY_ENTRY)
OWNERS = numbers(6, 2, 1, 4, 9)
OFFSETS = np.cumsum([0, *map(len, DIFFS_BY_ENTRY)], dtype=np.int64)[:-1]
DIFFS_WITHOUT_END = [DIFFS[:size] for size in range(1, DIFFS.size)]
HUGE = encode_varint((1 << 64) - 1)
BROKEN = [
    octets(HUGE),
    octets(b"\x0a\x08"),
    octets(encode_delimited(pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=0, numOfDiff=0))),
    octets(encode_delimited(pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=5, numOfDiff=2)), b"\x02\x08"),
    octets(encode_delimited(pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=5, numOfDiff=1))),
    octets(b"\x04\x08\x02\x10\x80"),
    octets(entry(5, pb.DirectoryDiff(snapshotId=1, createdListSize=3)), b"\x00\x00"),
]
REFERENCE_RECORDS = [
    pb.INodeReference(referredId=3, dstSnapshotId=2147483646),
    pb.INodeReference(referredId=3, name=b"old", lastSnapshotId=4),
    pb.INodeReference(referredId=300, name=b"x", lastSnapshotId=7),
]
REFERENCES = octets(*map(encode_delimited, REFERENCE_RECORDS))
ENTRIES = octets(
    encode_delimited(pb.DirEntry(parent=1, children=[2, 6, 300], refChildren=[0])),
    encode_delimited(pb.DirEntry(parent=6, children=[4])),
    # children that are not packed, as an old writer may write them
    b"\x04\x08\x06\x10\x09",
)
BROKEN_ENTRIES = [
    ENTRIES[:-1],
    octets(encode_delimited(pb.DirEntry(parent=77, children=[2]))),
    octets(encode_delimited(pb.DirEntry(parent=1, children=[77]))),
    octets(encode_delimited(pb.DirEntry(parent=1, refChildren=[3]))),
    octets(b"\x03\x08\x01\x12"),
    octets(b"\x05\x08\x01\x12\x01\x80"),
    octets(HUGE),
]
IDS = numbers(1, 2, 3, 4, 6, 9, 300)
REFERRED = numbers(3, 3, 300)
SLOTS = np.arange(7, dtype=np.uint32)[::-1].copy()
PARENTS = numbers(-1, 0, 1, 0, 5, 4, 3)


def open_records() -> list[bytes]:
    plain, written = (pb.INode(type=pb.INode.FILE, id=number, name=b"f") for number in (7, 8))
    plain.file.replication = 3
    plain.file.acl.entries.append(7)
    written.file.CopyFrom(plain.file)
    written.file.fileUC.clientName = "c"
    other = pb.INode(type=pb.INode.DIRECTORY, id=9, directory=directory_copy())
    return [*map(encode_delimited, (plain, written, other)), b"\x02\x22\x09", b"\x02\x22\x80", b"\x04\x22\x02\x3a\x09"]


# An entry with diffs after its newest diff, and kinds of diffs that are not plain.
LINK_ID, FILE_ID, DIRECTORY_ID = 2, 3, 4
INODES_OF_KINDS = [
    encode_delimited(pb.INode(type=kind, id=number, name=b"n"))
    for number, kind in ((LINK_ID, pb.INode.SYMLINK), (FILE_ID, pb.INode.FILE), (DIRECTORY_ID, pb.INode.DIRECTORY))
]
KIND_OFFSETS = np.cumsum([0, *map(len, INODES_OF_KINDS)], dtype=np.int64)[:-1]
BY_ID = Packed.of(numbers(LINK_ID, FILE_ID, DIRECTORY_ID)), np.zeros(0, np.uint32), Packed.of(KIND_OFFSETS)
SNAPSHOT_IDS = numbers(1, 4, 7)


def older(**fields: Any) -> pb.DirectoryDiff:
    return pb.DirectoryDiff(**{"snapshotId": 4, "childrenSize": 2, "name": b"d", **fields})


NEWEST = [pb.DirectoryDiff(snapshotId=7, createdListSize=1), pb.CreatedListEntry(name=b"new")]
PLAIN_OLDER: dict[str, tuple[DirectoryDiffMessage, ...]] = {
    "one": (older(createdListSize=1, deletedINode=[FILE_ID, DIRECTORY_ID]), pb.CreatedListEntry(name=b"old")),
    "two": (older(snapshotCopy=directory_copy(ns=9, types=1)), older(snapshotId=1)),
    "a root": (older(isSnapshotRoot=True, snapshotCopy=directory_copy(ns=9)),),
}
OTHER_OLDER: dict[str, tuple[DirectoryDiffMessage, ...]] = {
    "none": (),
    "not older": (older(snapshotId=7),),
    "no descent": (older(snapshotId=1), older()),
    "a quota": (older(snapshotCopy=directory_copy(ns=9)),),
    "a root of no snapshot": (older(snapshotId=3, isSnapshotRoot=True),),
    "a link": (older(deletedINode=[LINK_ID]),),
    "no inode": (older(deletedINode=[FILE_ID, 99]),),
    "a reference": (older(deletedINodeRef=[0]),),
    "a field of another version": (pb.DirectoryDiff.FromString(older().SerializeToString() + b"\xf8\x07\x01"),),
    "a copy with a field of another version": (older(snapshotCopy=pb.INodeDirectory.FromString(b"\xf8\x07\x01")),),
    "a name with more": (older(createdListSize=1), pb.CreatedListEntry.FromString(b"\x0a\x01n\xf8\x07\x01")),
    "no name": (older(createdListSize=1), pb.CreatedListEntry.FromString(b"\xf8\x07\x01")),
}


def diff_rows(entries: int, diffs: int, count: int = 0, used: int = 0) -> Arguments:
    """Return empty results for `history.scan_diffs`."""
    return np.zeros(entries, ENTRY_DTYPE), count, np.zeros(diffs, DIFF_DTYPE), used


def scanned(section: np.ndarray) -> np.ndarray:
    return DiffScan(section).diffs


SCANNED = scanned(DIFFS)
CUT_LIST = octets(entry(5, pb.DirectoryDiff.FromString(b"\x08\x01")).replace(b"\x02\x08\x01", b"\x04\x3a\x02\x03\x80"))
SCANNED_CUT = scanned(CUT_LIST)


def older_diffs(entry_bytes: bytes, end: int | None = None) -> Arguments:
    """Return the arguments of `history.older_diffs` for an entry that begins the section."""
    end = len(entry_bytes) if end is None else end
    return octets(entry_bytes), 0, end, *BY_ID, octets(*INODES_OF_KINDS), SNAPSHOT_IDS


OPEN_RECORDS = open_records()
OPEN_OFFSETS = np.cumsum([0, *map(len, OPEN_RECORDS)], dtype=np.int64)[:-1]
WRITTEN = octets(b"\x08\x03\x3a\x00")
SNAPSHOT_CASES: dict[str, list[Callable[[], Arguments]]] = {
    "history.scan_diffs": [
        lambda: (DIFFS, 0, *diff_rows(9, 9)),
        lambda: (DIFFS, 0, *diff_rows(2, 9)),
        lambda: (DIFFS, 0, *diff_rows(9, 1)),
        lambda: (DIFFS, int(OFFSETS[2]), *diff_rows(9, 9, 2, 4)),
        *(lambda b=b: (b, 0, *diff_rows(9, 9)) for b in (*DIFFS_WITHOUT_END, *BROKEN)),
    ],
    "history.scan_references": [
        lambda: (REFERENCES, 0, zeros(9), zeros(9), 0),
        lambda: (REFERENCES, 0, zeros(1), zeros(1), 0),
        lambda: (REFERENCES[:-1], 0, zeros(9), zeros(9), 0),
        lambda: (octets(b"\x02\x08\x80"), 0, zeros(9), zeros(9), 0),
    ],
    "history.collect_parents": [
        lambda b=b, slots=slots: (b, Packed.of(IDS), slots, REFERRED, np.full(IDS.size, -1, np.int64))
        for b in (ENTRIES, *BROKEN_ENTRIES)
        for slots in (np.zeros(0, np.uint32), SLOTS)
    ],
    "history.mark_upwards": [
        lambda starts=starts: (PARENTS, numbers(*starts), np.zeros(PARENTS.size, np.bool_))
        for starts in ((), (2,), (6, 1), (4,), (0,))
    ],
    "history.mark_below": [lambda top=top: (PARENTS, top) for top in range(PARENTS.size)],
    "history._has_quota_only": [
        lambda b=b: (octets(b), 0, len(b))
        for b in (
            pb.DirectoryDiff(snapshotId=4, snapshotCopy=directory_copy(ns=9)).SerializeToString(),
            pb.DirectoryDiff(snapshotId=4, snapshotCopy=directory_copy()).SerializeToString(),
            pb.DirectoryDiff(snapshotId=4, snapshotCopy=directory_copy(ns=9, types=1)).SerializeToString(),
            b"\x08\x04",
            b"\x2a\x09",
            b"\x2a\x01\x80",
            b"\x80",
            b"",
        )
    ],
    "history.copies_with_quota": [lambda: (DIFFS, SCANNED), lambda: (DIFFS, SCANNED[:0])],
    "history._is_link": [
        lambda o=o: (octets(*INODES_OF_KINDS, b"\x02\x08\x80"), o) for o in (*KIND_OFFSETS.tolist(), 27)
    ],
    "history._has_only_known": [
        lambda b=b: (octets(b), 0, len(b), *BY_ID, octets(*INODES_OF_KINDS))
        for b in (
            *(each[0].SerializeToString() for each in (*PLAIN_OLDER.values(), *OTHER_OLDER.values()) if each),
            b"\x3a\x02\x03\x80",
            b"\x2a\x02\x08\x80",
            b"\x80",
            b"\x19abcdefgh",
        )
    ],
    "history._is_known_copy": [
        lambda b=b: (octets(b), 0, len(b))
        for b in (directory_copy(ns=9, types=1).SerializeToString(), b"\x08\x05\xf8\x07\x01", b"\x08", b"\x80", b"")
    ],
    "history.older_diffs": [
        *(
            lambda each=each: older_diffs(entry(5, *NEWEST, *each))  # type: ignore[misc]
            for each in (*PLAIN_OLDER.values(), *OTHER_OLDER.values())
        ),
        lambda: older_diffs(entry(5)),
        lambda: older_diffs(entry(5, *NEWEST, *PLAIN_OLDER["two"]) + b"\x00"),
        *(lambda b=b: older_diffs(b) for b in (HUGE, b"\x80")),  # type: ignore[misc]
    ],
    "history.directory_holders": [lambda b=b: (b, zeros(3)) for b in (ENTRIES, *BROKEN_ENTRIES)],
    "history.diff_holders": [
        lambda: (DIFFS, SCANNED, zeros(3), zeros(3)),
        lambda: (DIFFS, SCANNED, zeros(1), zeros(1)),
        lambda: (CUT_LIST, SCANNED_CUT, zeros(3), zeros(3)),
    ],
    "history.deleted_by": [
        lambda: (DIFFS, SCANNED, Packed.of(numbers(1, 3, 300)), zeros(3)),
        lambda: (DIFFS, SCANNED, Packed.of(zeros(0)), zeros(0)),
        lambda: (CUT_LIST, SCANNED_CUT, Packed.of(numbers(3)), zeros(1)),
    ],
    "history._has_uc": [
        lambda b=b: (b, 0, b.size) for b in (WRITTEN, WRITTEN[:2], WRITTEN[:3], octets(b"\x80"), octets(b"\x0a\x05"))
    ],
    "history.is_open_file": [lambda o=o: (octets(*OPEN_RECORDS), o) for o in OPEN_OFFSETS.tolist()],
    "history.open_files": [lambda o=o: (octets(*OPEN_RECORDS), Packed.of(o)) for o in (OPEN_OFFSETS, zeros(0))],
}
PRESENT_RECORDS = [
    encode_delimited(pb.INode(type=pb.INode.FILE if name else pb.INode.DIRECTORY, id=number, name=name))
    for number, name in ((1, b""), (2, b"a"), (3, b"b"), (4, b"new"), (6, b"c"))
]
PRESENT_OFFSETS = Packed.of(np.cumsum([0, *map(len, PRESENT_RECORDS)], dtype=np.int64)[:-1])
PRESENT_IDS = Packed.of(numbers(1, 2, 3, 4, 6))
NAMED = [
    pb.INodeReference(referredId=4, dstSnapshotId=2147483646),
    pb.INodeReference(referredId=6, name=b"old", lastSnapshotId=4),
    pb.INodeReference(referredId=300, name=b"x", lastSnapshotId=7),
    pb.INodeReference(referredId=6, lastSnapshotId=4),
    pb.INodeReference(referredId=4, name=b"y", dstSnapshotId=1),
]
NAMED_RECORDS = [encode_delimited(record) for record in NAMED]
NAMED_STARTS = np.cumsum([0, *map(len, NAMED_RECORDS)], dtype=np.int64)[:-1]
NAMED_BYTES, NAMED_IDS = octets(*NAMED_RECORDS), numbers(4, 6, 300, 6, 4)
NAMED_REFERENCES = References(NAMED_BYTES, NAMED_STARTS, NAMED_IDS)
PRESENT = Inodes(octets(*PRESENT_RECORDS), PRESENT_IDS, np.zeros(0, np.uint32), PRESENT_OFFSETS)
CHILDREN = octets(encode_delimited(pb.DirEntry(parent=1, children=[2, 3], refChildren=[0])))


def diffs_of(*created: bytes, deleted: tuple[int, ...] = (), references: tuple[int, ...] = ()) -> np.ndarray:
    """Return SNAPSHOT_DIFF with two diffs of the root: the earlier diff may create names that the later diff
    deletes.
    """
    earlier = [pb.DirectoryDiff(snapshotId=4, createdListSize=1), pb.CreatedListEntry(name=b"c")]
    later = pb.DirectoryDiff(
        snapshotId=7, createdListSize=len(created), deletedINode=deleted, deletedINodeRef=references
    )
    return octets(entry(1, later, *(pb.CreatedListEntry(name=name) for name in created), *earlier))


CHECKED = [
    diffs_of(b"a", b"new", deleted=(6,)),
    diffs_of(b"a", deleted=(3, 6)),
    diffs_of(b"a", b"a", deleted=(6,)),
    diffs_of(b"new", b"a", deleted=(6,)),
    diffs_of(b"nowhere", deleted=(6,)),
    diffs_of(deleted=(6, 3)),
    diffs_of(deleted=(6, 77)),
    diffs_of(deleted=(6,), references=(1,)),
    diffs_of(deleted=(6,), references=(2,)),
    diffs_of(deleted=(6,), references=(3,)),
    diffs_of(),
    octets(entry(2, FILE_DIFF)),
    octets(entry(1)),
]
TABLES = (zeros(8), numbers(0, 0, 300, 301, 0, 0, 0, 256 + 128))
CHECK_CASES: dict[str, list[Callable[[], Arguments]]] = {
    "history_check._hashed": [lambda size=size: (octets(b"part-00001"), 1, size) for size in (0, 1, 9)],
    "history_check._put": [lambda t=t, value=value: (t.copy(), value) for t in TABLES for value in (300, 384, 1023)],
    "history_check._has": [lambda t=t, value=value: (t, value) for t in TABLES for value in (300, 384, 1023)],
    "history_check._put_reference": [
        lambda number=number: (zeros(8), number, NAMED_REFERENCES, PRESENT) for number in range(-1, 6)
    ],
    "history_check._deleted_count": [
        lambda b=b, offset=offset: (b, offset)
        for b in (DIFFS, DIFFS[:20], CUT_LIST)
        for offset in (0, int(DIFFS_BY_ENTRY[0][0]) + 1)
    ],
    "history_check._created_fit": [
        lambda b=b, row=row, table=table: (b, row, table.copy(), numbers(2, 3), PRESENT)
        for b in CHECKED[:6]
        for row in scanned(b)
        for table in TABLES
    ],
    "history_check._deleted_fit": [
        lambda b=b, row=row, room=room: (b, row, zeros(32), NAMED_REFERENCES, PRESENT, zeros(room), 0)
        for b in CHECKED[:10]
        for row in scanned(b)
        for room in (0, 4)
    ],
    "history_check.first_misfit": [
        lambda b=b, there=there, room=room: (
            *(b, scanned(b), Directories(there, numbers(1)[: there.size], numbers(0))),
            *(NAMED_REFERENCES, PRESENT, zeros(room)),
        )
        for b in (*CHECKED, CUT_LIST, *(CHECKED[0][:size] for size in range(8, CHECKED[0].size, 3)))
        for there in (CHILDREN, CHILDREN[:0])
        for room in (0, 4)
    ],
    "history_check.reference_keys": [lambda: (NAMED_BYTES, NAMED_STARTS, zeros(5))],
}
