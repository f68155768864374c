"""Images with snapshots, references and unknown fields: edits elsewhere keep these parts, and other edits are
refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ReplayError, UnsupportedOperationError
from engine.healing import HealingMode
from engine.settings import ReplayRules
from image_format.errors import RecordError
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_varint
from journal import ops
from tests.engine.image_builder import (
    HADOOP2,
    HADOOP3,
    LAYOUTS,
    ImageBuilder,
    delimited,
    forever,
    merge_bytes,
    merged,
    messages,
    store,
)
from tests.engine.op_makers import LATER, add, close, delete, mkdir, rename, rename_old, set_permissions, times
from tests.engine.snapshot_support import CURRENT, Outcome

NEW = 20000
KEPT = ("SNAPSHOT", "SNAPSHOT_DIFF", "INODE_REFERENCE")

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def snapshots(layout: int = HADOOP2) -> ImageBuilder:
    """Return an image with a snapshot.

    /top/s is the snapshot's root; it contains s/sub/f, s/open and the deleted file `lost`. /top/r contains the
    directory c, which was renamed out of s, with c/f and the open file c/o. /top/e/empty is a second snapshot root,
    which no longer has children. /z with z/f and z/o (open) is unrelated.
    """
    image = ImageBuilder(layout)
    for path in ("/top", "/top/s", "/top/s/sub", "/top/r", "/top/e", "/top/e/empty", "/z"):
        image.directory(path)
    for path in ("/top/s/sub/f", "/z/f"):
        image.file(path, blocks=[(1, 100, 1001)])
    for path in ("/top/s/open", "/z/o"):
        image.file(path, open_by="writer")
    image.file("lost")
    image.directory("c")
    image.file("c/f")
    image.file("c/o", open_by="writer")
    ids = {path: inode.id for path, inode in image.inodes.items()}
    for path in ("c/f", "c/o"):
        image.inodes[path].name = path[2:].encode()
    children = [pb.DirEntry(parent=ids["c"], children=[ids["c/f"], ids["c/o"]])]
    image.references["/top/r"] = [0]
    image.sections["INODE_REFERENCE"] = delimited(
        [
            pb.INodeReference(referredId=ids["c"], dstSnapshotId=2147483646),
            pb.INodeReference(referredId=ids["c"], name=b"c", lastSnapshotId=1),
        ]
    )
    roots = [pb.Snapshot(snapshotId=n, root=image.inodes[path]) for n, path in ((1, "/top/s"), (2, "/top/e/empty"))]
    image.sections["SNAPSHOT"] = delimited(
        [
            pb.SnapshotSection(
                snapshotCounter=3, snapshottableDir=[ids["/top/s"], ids["/top/e/empty"]], numSnapshots=2
            ),
            *roots,
        ]
    )
    image.sections["SNAPSHOT_DIFF"] = delimited(
        [
            pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=ids["/top/s"], numOfDiff=1),
            pb.DirectoryDiff(
                snapshotId=1,
                childrenSize=3,
                isSnapshotRoot=True,
                createdListSize=1,
                deletedINode=[ids["lost"]],
                deletedINodeRef=[1],
            ),
            pb.CreatedListEntry(name=b"open"),
            pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=ids["c/f"], numOfDiff=1),
            pb.FileDiff(snapshotId=1, fileSize=0),
            pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=ids["c"], numOfDiff=1),
            pb.DirectoryDiff(snapshotId=1, childrenSize=2, name=b"c", snapshotCopy=image.inodes["c"].directory),
            pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=ids["/top/e/empty"], numOfDiff=1),
            pb.DirectoryDiff(snapshotId=2, childrenSize=0, isSnapshotRoot=True, createdListSize=0),
            pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=ids["/"], numOfDiff=0),
        ]
    )
    sections = image.all_sections()
    image.sections["INODE_DIR"] = sections["INODE_DIR"] + delimited(children)
    leased = {"/top/s/open": "/top/s/open", "/z/o": "/z/o", "c/o": "/top/r/c/o"}
    image.sections["FILES_UNDERCONSTRUCTION"] = delimited(
        pb.FileUnderConstructionEntry(inodeId=ids[key], fullPath=path) for key, path in leased.items()
    )
    return image


@layouts
def test_edits_elsewhere_leave_snapshots_unchanged(tmp_path: Path, layout: int) -> None:
    builder = snapshots(layout)
    source = builder.save(tmp_path)
    before = merged(source)
    image = merged(
        source,
        mkdir("/z/d", NEW),
        add("/z/d/f", NEW + 1),
        close("/z/d/f"),
        rename("/z/f", "/top/f"),
        set_permissions("/top", 0o700),
        set_permissions("/top/r", 0o700),
        delete("/z/o"),
        mkdir("/top/e/d", NEW + 2),
        ops.AllowSnapshotOp(snapshot_root="/top/r"),
    )
    assert [image.sections[name] for name in KEPT[1:]] == [before.sections[name] for name in KEPT[1:]]
    assert image.sections["SNAPSHOT"].endswith(before.sections["SNAPSHOT"][-60:])
    unchanged = {i.id for path, i in builder.inodes.items() if path.startswith(("/top/s", "c", "lost", "/top/e/"))}
    assert {number: image.inodes[number] for number in unchanged} == {
        number: before.inodes[number] for number in unchanged
    }
    assert image.inodes[builder.inodes["/top/r"].id].directory.permission & 0xFFFF == 0o700
    assert sorted(image.leases().values()) == ["/top/r/c/o", "/top/s/open"]
    assert len(image.inodes) == len(builder.inodes) + 3 - 1


def test_unchanged_snapshot_sections_keep_their_bytes(tmp_path: Path) -> None:
    source = snapshots().save(tmp_path)
    image = merged(source, mkdir("/z/d", NEW), delete("/z/f"))
    assert {name: image.sections[name] for name in KEPT} == {name: merged(source).sections[name] for name in KEPT}


@layouts
def test_directories_with_references_can_be_renamed(tmp_path: Path, layout: int) -> None:
    """Hadoop 2.7 finds a lease by its path, so the lease of the renamed open file moves with it."""
    builder = snapshots(layout)
    source = builder.save(tmp_path)
    image = merged(source, rename("/top/r", "/z/rr"), rename_old("/z", "/top/e"))
    entries = {entry.parent: entry for entry in messages(image.sections["INODE_DIR"], forever(pb.DirEntry))}
    assert entries[builder.inodes["/top/r"].id] == pb.DirEntry(parent=builder.inodes["/top/r"].id, refChildren=[0])
    assert sorted(image.leases().values()) == ["/top/e/z/o", "/top/e/z/rr/c/o", "/top/s/open"]
    assert image.sections["INODE_REFERENCE"] == builder.sections["INODE_REFERENCE"]


@layouts
def test_every_inode_in_snapshots_can_be_changed(tmp_path: Path, layout: int) -> None:
    builder = snapshots(layout)
    ids = {path: inode.id for path, inode in builder.inodes.items()}
    given = [
        *(set_permissions(path, 0o700) for path in ("/top/s", "/top/s/sub", "/top/s/sub/f", "/top/r/c", "/top/r/c/f")),
        *(
            add("/top/s/new", NEW),
            mkdir("/top/r/c/d", NEW + 1),
            delete("/top/s/sub/f"),
            mkdir("/top/e/empty/d", NEW + 2),
        ),
        *(close("/top/s/open"), rename("/top/r/c", "/z/c"), ops.AllowSnapshotOp(snapshot_root="/z")),
    ]
    found = Outcome(merge_bytes(builder.save(tmp_path), given), ids)
    assert (found.created("/top/s", 1), set(found.deleted("/top/s", 1))) == (["new", "open"], {"lost", "c"})
    assert found.created("/z/c", 1) == ["d"]
    assert found.deleted("/top/s/sub", 1) == {"f": ids["/top/s/sub/f"]}
    assert found.created("/top/e/empty", 2) == ["d"]
    assert found.references() == [(ids["c"], "", CURRENT), (ids["c"], "c", 1)]
    assert found.image.leases() == {ids["/z/o"]: "/z/o", ids["c/o"]: "/z/c/o", NEW: "/top/s/new"}


@pytest.mark.parametrize("path", ["/top", "/top/e", "/top/s"])
def test_deletion_above_snapshots_is_refused_below_changed_directories(tmp_path: Path, path: str) -> None:
    touch = [set_permissions(p, 0o700) for p in ("/top", "/top/e", "/top/r")]
    with pytest.raises(ReplayError, match=r"OP_DELETE at txid 104.*has snapshots"):
        merged(snapshots().save(tmp_path), *touch, delete(path))


@pytest.mark.parametrize("path", ["/top/r", "/top/r/c"])
def test_reference_without_a_diff_is_refused_unless_healed(tmp_path: Path, path: str) -> None:
    """A NameNode terminates if an inode that was renamed out of a snapshot has no diff; our healing continues."""
    builder = snapshots(HADOOP3)
    builder.sections["SNAPSHOT_DIFF"] = delimited(
        [pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=builder.inodes["/top/s"].id, numOfDiff=0)]
    )
    source = builder.save(tmp_path)
    for healing in (HealingMode.STRICT, HealingMode.AS_HADOOP):
        with pytest.raises(ReplayError, match=r"OP_DELETE at txid 101: .*has no snapshot diff"):
            merge_bytes(source, [delete(path)], rules=ReplayRules(healing=healing))
    assert path not in merged(source, delete(path))


@pytest.mark.parametrize("name", ["lost", "c", "c/f"])
def test_inode_ids_used_only_by_snapshots_or_references_are_in_use(tmp_path: Path, name: str) -> None:
    builder = snapshots()
    with pytest.raises(ReplayError, match="in use"):
        merged(builder.save(tmp_path), mkdir("/z/d", builder.inodes[name].id))


# ---- names of snapshots among the children -----------------------------------------------------------------


def misplaced(layout: int) -> ImageBuilder:
    """Return an image in which /a has the name of /z/y in snapshot 1, as Hadoop 2.7 leaves it after undoing a
    rename.
    """
    image = ImageBuilder(layout)
    for path in ("/a", "/a/k", "/z"):
        image.directory(path)
    image.directory("moved").name = b"y"
    ids = {path: inode.id for path, inode in image.inodes.items()}
    image.sections["INODE_REFERENCE"] = delimited(
        [
            pb.INodeReference(referredId=ids["moved"], name=b"x", lastSnapshotId=1),
            pb.INodeReference(referredId=ids["moved"], dstSnapshotId=CURRENT),
        ]
    )
    image.references = {"/a": [0], "/z": [1]}
    root = pb.Snapshot(snapshotId=1, root=image.inodes["/a"])
    image.sections["SNAPSHOT"] = delimited(
        [pb.SnapshotSection(snapshotCounter=2, snapshottableDir=[ids["/a"]], numSnapshots=1), root]
    )
    image.sections["SNAPSHOT_DIFF"] = delimited(
        [
            pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=ids["/a"], numOfDiff=1),
            pb.DirectoryDiff(snapshotId=1, childrenSize=2, isSnapshotRoot=True),
            pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=ids["moved"], numOfDiff=1),
            pb.DirectoryDiff(snapshotId=1, childrenSize=0, name=b"x", snapshotCopy=image.inodes["moved"].directory),
        ]
    )
    return image


@layouts
def test_misplaced_name_survives_edits_of_its_siblings(tmp_path: Path, layout: int) -> None:
    builder = misplaced(layout)
    ids = {path: inode.id for path, inode in builder.inodes.items()}
    given = [mkdir("/a/n", NEW), delete("/a/k"), set_permissions("/z/y", 0o700), mkdir("/z/y/d", NEW + 1)]
    found = Outcome(merge_bytes(builder.save(tmp_path), given), ids)
    assert found.references() == [(ids["moved"], "", CURRENT), (ids["moved"], "x", 1)]
    assert set(found.reader.kept[ids["/a"]]) == {b"x", b"n"}
    assert (found.created("/a", 1), list(found.deleted("/a", 1))) == (["n"], ["k"])


@layouts
@pytest.mark.parametrize(
    "op",
    [
        set_permissions("/a/x", 0o700),
        delete("/a/x"),
        mkdir("/a/x", NEW),
        mkdir("/a/x/d", NEW),
        rename("/a/k", "/a/x"),
        rename("/a/x", "/z/x"),
        rename_old("/a/x", "/z/x"),
    ],
    ids=lambda op: op.name,
)
def test_a_path_through_a_misplaced_name_is_refused(tmp_path: Path, layout: int, op: ops.EditOp) -> None:
    with pytest.raises(UnsupportedOperationError, match=f"{op.name} at txid 101.*/a/x .*belongs to a snapshot"):
        merged(misplaced(layout).save(tmp_path), op)


# ---- unknown fields ----------------------------------------------------------------------------------------

UNKNOWN = encode_varint(99 << 3 | 2) + b"\x05later"


def with_unknown_fields(records: dict[int, bytes], section: bytes) -> bytes:
    """Return `section` with bytes appended to the messages of the given numbers."""
    out, position, number = bytearray(), 0, 0
    while position < len(section):
        size, start = section[position], position + 1
        if size >= 0x80:
            size, start = size & 0x7F | section[start] << 7, start + 1
        body = section[start : start + size] + records.get(number, b"")
        out += encode_varint(len(body)) + body
        position, number = start + size, number + 1
    return bytes(out)


def unknown_image(layout: int = HADOOP2) -> ImageBuilder:
    """Return an image with unknown fields and an unknown section.

    The unknown fields are in the INode and DirEntry of /d, in the INode of /f, and in the headers.
    """
    builder = ImageBuilder(layout)
    builder.directory("/d")
    builder.file("/d/g")
    builder.file("/f")
    builder.directory("/z")
    builder.file("/z/k")
    sections = builder.all_sections()
    builder.sections["INODE"] = with_unknown_fields({0: UNKNOWN * 9, 2: UNKNOWN, 4: UNKNOWN}, sections["INODE"])
    builder.sections["INODE_DIR"] = with_unknown_fields({1: UNKNOWN}, sections["INODE_DIR"])
    builder.sections["NS_INFO"] = with_unknown_fields({0: UNKNOWN}, sections["NS_INFO"])
    builder.sections["FUTURE"] = b"anything \x00\xff"
    return builder


@layouts
def test_unknown_fields_and_sections_survive_edits_elsewhere(tmp_path: Path, layout: int) -> None:
    builder = unknown_image(layout)
    first = store(tmp_path / "1", merge_bytes(builder.save(tmp_path), [mkdir("/z/n", NEW), delete("/z/k")]), 102)
    image = merged(first, set_permissions("/d/g", 0o600), add("/h", NEW + 1), rename("/f", "/z/f"))
    assert image.sections["FUTURE"] == b"anything \x00\xff"
    assert image.sections["INODE"].count(UNKNOWN) == 11
    assert image.sections["INODE_DIR"].count(UNKNOWN) == 1
    assert image.sections["NS_INFO"].count(UNKNOWN) == 1
    assert image.inodes[builder.inodes["/d"].id].SerializeToString().endswith(UNKNOWN)
    assert "/z/f" in image


@pytest.mark.parametrize(
    ("op", "what"),
    [
        (set_permissions("/f", 0o1), r"inode 16388 \(/f; .*section INODE, offset \d+\)"),
        (rename("/f", "/z/other"), "inode 16388"),
        (mkdir("/d/n", NEW), "entry of directory /d .*INODE_DIR"),
        (mkdir("/d/n", NEW, 1), "entry of directory /d .*INODE_DIR"),
        (delete("/d/g", 1), "entry of directory /d .*INODE_DIR"),
        (times("/d", mtime=1), "inode 16386"),
    ],
)
def test_edits_of_records_with_unknown_fields_are_refused(tmp_path: Path, op: ops.EditOp, what: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=f"{op.name} at txid 101.*{what}"):
        merged(unknown_image().save(tmp_path), op)


def test_records_with_unknown_fields_can_be_deleted(tmp_path: Path) -> None:
    image = merged(unknown_image().save(tmp_path), delete("/d", LATER), delete("/f", LATER))
    assert set(image.paths) == {"/", "/z", "/z/k"}


# By number of the record: the record's owner, and an operation that needs the record.
DIFF_RECORDS: dict[int, tuple[str, ops.EditOp]] = {
    0: ("DiffEntry of s", set_permissions("/top/s", 0o1)),
    1: ("DirectoryDiff of s", set_permissions("/top/s", 0o1)),
    3: ("DiffEntry of f", set_permissions("/top/r/c/f", 0o1)),
    4: ("FileDiff of f", set_permissions("/top/r/c/f", 0o1)),
    5: ("DiffEntry of c", mkdir("/top/r/c/d", NEW)),
    6: ("DirectoryDiff of c", mkdir("/top/r/c/d", NEW)),
}


@layouts
@pytest.mark.parametrize("number", DIFF_RECORDS, ids=lambda number: DIFF_RECORDS[number][0])
def test_unknown_fields_of_diffs_are_kept_or_refused(tmp_path: Path, layout: int, number: int) -> None:
    builder = snapshots(layout)
    builder.sections["SNAPSHOT_DIFF"] = with_unknown_fields({number: UNKNOWN}, builder.sections["SNAPSHOT_DIFF"])
    source = builder.save(tmp_path)
    image = merged(source, set_permissions("/z", 0o700), mkdir("/top/e/empty/n", NEW))
    assert image.sections["SNAPSHOT_DIFF"].count(UNKNOWN) == 1
    op = DIFF_RECORDS[number][1]
    with pytest.raises(UnsupportedOperationError, match=rf"{op.name} at txid 101.*SNAPSHOT_DIFF, offset \d+"):
        merged(source, op)


@layouts
def test_unknown_fields_of_snapshots_are_kept_or_refused(tmp_path: Path, layout: int) -> None:
    builder = snapshots(layout)
    builder.sections["SNAPSHOT"] = with_unknown_fields({0: UNKNOWN, 1: UNKNOWN}, builder.sections["SNAPSHOT"])
    source = builder.save(tmp_path)
    image = merged(source, ops.AllowSnapshotOp(snapshot_root="/z"), set_permissions("/top/s", 0o1))
    assert image.sections["SNAPSHOT"].count(UNKNOWN) == 2
    op = ops.RenameSnapshotOp(snapshot_root="/top/s", snapshot_old_name="s", snapshot_new_name="n")
    what = r"OP_RENAME_SNAPSHOT at txid 101.*snapshot 1 .*section SNAPSHOT\)"
    with pytest.raises(UnsupportedOperationError, match=what):
        merged(source, op)


@layouts
def test_snapshot_of_a_directory_with_unknown_fields_is_refused(tmp_path: Path, layout: int) -> None:
    """Without the refusal, the snapshot's copy would lack the unknown fields."""
    source = unknown_image(layout).save(tmp_path)
    create = ops.CreateSnapshotOp(snapshot_root="/d", snapshot_name="n")
    with pytest.raises(UnsupportedOperationError, match="OP_CREATE_SNAPSHOT at txid 102"):
        merged(source, ops.AllowSnapshotOp(snapshot_root="/d"), create)


@layouts
def test_unknown_fields_of_references_are_kept_or_refused(tmp_path: Path, layout: int) -> None:
    builder = snapshots(layout)
    builder.sections["INODE_REFERENCE"] = with_unknown_fields(
        {0: UNKNOWN, 1: UNKNOWN}, builder.sections["INODE_REFERENCE"]
    )
    source = builder.save(tmp_path)
    given = [set_permissions("/top/r/c", 0o700), rename("/top/s/sub/f", "/z/g"), delete("/z/f")]
    assert merged(source, *given).sections["INODE_REFERENCE"].count(UNKNOWN) == 2
    with pytest.raises(UnsupportedOperationError, match=r"OP_RENAME at txid \d+.*reference 0 to inode .* has fields"):
        merged(source, rename("/top/r/c", "/z/c"))


UNLISTED = "snapshot 0 belongs to inode {}, which is not snapshottable"


@layouts
@pytest.mark.parametrize(
    ("listed", "roots", "what"),
    [
        ([77777], [], "inode 77777 is snapshottable, but not a directory"),
        (["/f"], [], "inode {} is snapshottable, but not a directory"),
        (["/d"], ["/d"], ""),
        ([], ["/"], ""),
        ([], ["/d"], UNLISTED),
        (["/d"], ["/f"], UNLISTED),
        (["/d"], [0], UNLISTED),
    ],
)
def test_unloadable_snapshots_are_refused(
    tmp_path: Path, layout: int, listed: list[int | str], roots: list[int | str], what: str
) -> None:
    builder = ImageBuilder(layout)
    builder.directory("/d")
    builder.file("/f")
    inodes = [[builder.inodes[each].id if isinstance(each, str) else each for each in ids] for ids in (listed, roots)]
    header = pb.SnapshotSection(snapshotCounter=3, snapshottableDir=inodes[0], numSnapshots=len(roots))
    made = [pb.Snapshot(root=pb.INode(type=pb.INode.DIRECTORY, id=root, name=b"s")) for root in inodes[1]]
    builder.sections["SNAPSHOT"] = delimited([header, *made])
    source = builder.save(tmp_path)
    if what:
        with pytest.raises(RecordError, match=what.format((inodes[1] or inodes[0])[0])):
            merge_bytes(source, [mkdir("/new", NEW)])
    else:
        merge_bytes(source, [mkdir("/new", NEW)])


@pytest.mark.parametrize(("field", "value"), [(10, 300), (11, 2), (12, 700), (1, 1 << 31)])
def test_values_too_large_for_a_row_are_copied_but_not_changed(tmp_path: Path, field: int, value: int) -> None:
    builder = ImageBuilder(-67)
    builder.file("/f")
    inode = builder.inodes["/f"]
    body = inode.file.SerializeToString() + encode_varint(field << 3) + encode_varint(value)
    inode.ClearField("file")
    record = inode.SerializeToString() + b"\x22" + encode_varint(len(body)) + body
    header, root = (builder.inodes["/"], pb.INodeSection(lastInodeId=17000, numInodes=2))
    builder.sections["INODE"] = delimited([root, header]) + encode_varint(len(record)) + record
    builder.inodes["/f"].file.permission = 0
    source = builder.save(tmp_path)
    assert body in merged(source, mkdir("/d", NEW)).sections["INODE"]
    with pytest.raises(UnsupportedOperationError, match="inode 16386"):
        merged(source, set_permissions("/f", 0o1))
