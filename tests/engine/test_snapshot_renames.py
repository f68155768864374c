"""Renames out of, into and within snapshots, and their references (docs/snapshots.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ReplayError
from engine.healing import HealingMode
from engine.namespace.diffs import FileDiff
from engine.settings import ReplayRules
from image_format.proto import fsimage_pb2 as pb
from journal import ops
from journal.ops import Block, EditOp
from tests.engine.image_builder import BASE_TXID, HADOOP2, HADOOP3, LAYOUTS, ImageBuilder, delimited, merge_bytes
from tests.engine.op_makers import LATER, add, close, delete, mkdir, rename, set_permissions
from tests.engine.snapshot_support import BLOCKS, CURRENT, HEAL, NEW, WHOLE, Outcome, Setting, allow, create, remove

layouts = pytest.mark.parametrize("layout", LAYOUTS)
SNAPSHOT = [allow(), create("s0")]
NO_ACK = (1 << 63) - 1
INSIDE = {"/", "/d", "/d/f", "/d/e", "/d/e/g", "/f"}


def blocks_of(diff: pb.FileDiff) -> list[tuple[int, int, int]]:
    return [(block.blockId, block.numBytes, block.genStamp) for block in diff.blocks]


# ---- out, into, within -------------------------------------------------------------------------------------


@layouts
def test_file_renamed_out_of_a_snapshot(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, rename("/s/d/f", "/z/g", 9000))
    file = found.ids["/s/d/f"]
    assert found.references() == [(file, "", CURRENT), (file, "f", 0)]
    assert found.deleted("/s/d", 0) == {"f": pb.INodeReference(referredId=file, name=b"f", lastSnapshotId=0)}
    assert found.image.inodes[file].name == b"g"
    assert found.present()["/z/g"] == file
    assert found.at("s0") == {"/": found.ids["/s"], **{path: found.ids["/s" + path] for path in INSIDE - {"/"}}}
    diff = found.file_diff("/z/g", 0)
    assert (diff.fileSize, diff.name, diff.HasField("snapshotCopy")) == (WHOLE, b"f", True)
    assert blocks_of(diff) == (BLOCKS if layout == HADOOP3 else [])
    assert (found.image.inodes[found.ids["/s/d"]].directory.modificationTime, found.image.mtime("/z")) == (9000, 9000)


def test_truncate_in_place_copies_a_block_of_the_snapshot(tmp_path: Path) -> None:
    """Upgrades replay edits of Hadoop 2.7 with such a truncate. Renames before Hadoop 3.3 leave no block list in the
    diff; renames of newer releases leave a block list.
    """
    cut = ops.TruncateOp(
        src="/z/g",
        client_name="c",
        client_machine="m",
        new_length=140,
        timestamp=LATER,
        truncate_block=Block(2, 50, 1002),
    )
    moved = [*SNAPSHOT, rename("/s/d/f", "/z/g"), cut]
    closed = close("/z/g", blocks=(Block(*BLOCKS[0]), Block(2, 12, 1003)))
    for more, blocks in (
        ([], [BLOCKS[0], (2, 12, 1002)]),
        ([closed], [BLOCKS[0], (2, 12, 1003)]),
        ([closed, delete("/z/g")], BLOCKS[:1]),
    ):
        found = Setting(tmp_path, HADOOP3).merged(*moved, *more)
        file = found.image.inodes[found.ids["/s/d/f"]].file
        assert [(block.blockId, block.numBytes, block.genStamp) for block in file.blocks] == blocks
        assert blocks_of(found.file_diff("/s/d/f", 0)) == BLOCKS


def test_renames_before_hadoop_3_3_leave_no_block_list(tmp_path: Path) -> None:
    """Without a block list, the NameNode logs a truncate in place, and the last block stays unchanged until the file is
    closed.
    """
    cut = ops.TruncateOp(
        src="/z/g",
        client_name="c",
        client_machine="m",
        new_length=140,
        timestamp=LATER,
        truncate_block=Block(2, 50, 1002),
    )
    found = Setting(tmp_path, -65).merged(*SNAPSHOT, rename("/s/d/f", "/z/g"), cut)
    file = found.image.inodes[found.ids["/s/d/f"]].file
    assert [(block.blockId, block.numBytes, block.genStamp) for block in file.blocks] == BLOCKS
    assert blocks_of(found.file_diff("/z/g", 0)) == []


@pytest.mark.parametrize("length", [0, 128])
def test_truncated_blocks_keep_their_lengths_in_the_snapshot(tmp_path: Path, length: int) -> None:
    """No snapshot contains the path of the file, so Hadoop marks blocks as deleted (NO_ACK) although the diff still has
    them.
    """
    cut = ops.TruncateOp(
        src="/z/g", client_name="c", client_machine="m", new_length=length, timestamp=LATER, truncate_block=None
    )
    found = Setting(tmp_path, HADOOP3).merged(*SNAPSHOT, rename("/s/d/f", "/z/g"), cut)
    assert blocks_of(found.file_diff("/z/g", 0)) == BLOCKS
    assert len(found.image.inodes[found.ids["/s/d/f"]].file.blocks) == length // 128


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        # lengths are summed as in Java, where the sum may overflow
        ((NO_ACK, 50), 1),
        ((100, NO_ACK, 28), 3),
        ((100, NO_ACK, NO_ACK, 1), 4),
        ((128, NO_ACK), 2),
        ((100, 78, NO_ACK), 2),
    ],
)
def test_lengths_of_deleted_blocks_are_summed_as_in_hadoop(lengths: tuple[int, ...], kept: int) -> None:
    blocks = [Block(number, length, 1001) for number, length in enumerate(lengths)]
    diff = FileDiff(snapshot_id=0, file_size=WHOLE)
    diff.set_blocks(blocks)
    assert diff.blocks == blocks[:kept]


@layouts
def test_directory_renamed_out_of_a_snapshot(tmp_path: Path, layout: int) -> None:
    """Later changes below the directory belong to the snapshot of its old location."""
    changes = [mkdir("/z/d/n", NEW), delete("/z/d/f"), set_permissions("/z/d/e/g", 0o600)]
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, rename("/s/d", "/z/d"), *changes)
    directory = found.ids["/s/d"]
    assert found.references() == [(directory, "", CURRENT), (directory, "d", 0)]
    assert (found.created("/z/d", 0), list(found.deleted("/z/d", 0))) == (["n"], ["f"])
    assert found.directory_diff("/z/d", 0).name == b"d"
    assert found.diff_ids("/z/d/e/g") == [0]
    assert set(found.at("s0")) == INSIDE


@layouts
def test_file_renamed_into_a_snapshot_is_like_a_new_file(tmp_path: Path, layout: int) -> None:
    setting = Setting(tmp_path, layout)
    setting.builder.file("/z/k", blocks=BLOCKS)
    found = setting.merged(*SNAPSHOT, rename("/z/k", "/s/d/k"), set_permissions("/s/d/k", 0o600))
    assert found.references() == []
    assert (found.created("/s/d", 0), found.deleted("/s/d", 0), found.diffs("/s/d/k")) == (["k"], {}, [])


@layouts
def test_file_renamed_within_a_snapshot(tmp_path: Path, layout: int) -> None:
    """The new place of the directory is newer than s0, so a change there does not belong to s0."""
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, rename("/s/d/f", "/s/g"), set_permissions("/s/g", 0o600))
    file = found.ids["/s/d/f"]
    assert found.references() == [(file, "", 0), (file, "f", 0)]
    assert (found.created("/s", 0), list(found.deleted("/s/d", 0))) == (["g"], ["f"])
    assert found.diff_ids("/s/g") == [0]
    assert found.file_diff("/s/g", 0).snapshotCopy.permission & 0o777 == 0o755


@layouts
def test_rename_within_the_same_directory(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, rename("/s/f", "/s/ü"), create("s1"))
    assert (found.created("/s", 0), list(found.deleted("/s", 0))) == (["ü"], ["f"])
    assert (found.at("s0")["/f"], found.at("s1")["/ü"]) == (found.ids["/s/f"], found.ids["/s/f"])


@layouts
def test_rename_from_one_snapshottable_directory_to_another(tmp_path: Path, layout: int) -> None:
    """The snapshot z0 is older than the move, so changes below the moved directory belong to s1. The snapshot z2 is
    newer, so the changes belong to z2, whose diffs s1 also reads.
    """
    moved = [allow(), allow("/z"), create("z0", "/z"), create("s1"), rename("/s/d", "/z/d")]
    found = Setting(tmp_path, layout).merged(*moved, set_permissions("/z/d/f", 0o600), mkdir("/z/d/n", NEW))
    assert found.references() == [(found.ids["/s/d"], "", 0), (found.ids["/s/d"], "d", 1)]
    assert (found.diff_ids("/z/d"), found.diff_ids("/z/d/f")) == ([1], [1])
    found = Setting(tmp_path, layout).merged(
        *moved, create("z2", "/z"), set_permissions("/z/d/f", 0o600), mkdir("/z/d/n", NEW)
    )
    assert (found.diff_ids("/z/d"), found.diff_ids("/z/d/f")) == ([1, 2], [2])
    assert (found.created("/z/d", 2), found.created("/z/d", 1)) == (["n"], [])
    assert set(found.at("z2", "/z")) == {"/", "/d", "/d/f", "/d/e", "/d/e/g"}
    assert set(found.at("s1")) == INSIDE


# ---- twice, and back ---------------------------------------------------------------------------------------


@layouts
def test_second_rename_outside_snapshots_changes_only_the_location(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, rename("/s/f", "/z/a"), rename("/z/a", "/z/b"))
    assert found.references() == [(found.ids["/s/f"], "", CURRENT), (found.ids["/s/f"], "f", 0)]
    assert set(found.present()) & {"/z/a", "/z/b"} == {"/z/b"}


@layouts
def test_second_rename_out_of_a_snapshot_leaves_a_second_name(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(
        *(*SNAPSHOT, allow("/z"), rename("/s/f", "/z/a"), create("z1", "/z"), rename("/z/a", "/b"))
    )
    file = found.ids["/s/f"]
    assert found.references() == [(file, "", CURRENT), (file, "a", 1), (file, "f", 0)]
    assert (found.at("s0")["/f"], found.at("z1", "/z")["/a"], found.present()["/b"]) == (file, file, file)
    assert found.diff_ids("/b") == [0, 1]


@layouts
def test_file_renamed_back_to_its_old_path(tmp_path: Path, layout: int) -> None:
    """The name in the snapshot stays, and the restored name is a created name; both belong to the same inode."""
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, rename("/s/f", "/z/a"), rename("/z/a", "/s/f"))
    file = found.ids["/s/f"]
    assert found.references() == [(file, "", 0), (file, "f", 0)]
    assert (found.created("/s", 0), list(found.deleted("/s", 0))) == (["f"], ["f"])
    assert found.at("s0")["/f"] == found.present()["/s/f"] == file


@layouts
def test_created_name_is_removed_when_its_inode_is_renamed_again(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, rename("/s/d/f", "/s/g"), rename("/s/g", "/z/h"))
    file = found.ids["/s/d/f"]
    assert found.references() == [(file, "", CURRENT), (file, "f", 0)]
    assert (found.created("/s", 0), found.deleted("/s", 0)) == ([], {})


@layouts
def test_created_name_belongs_to_the_next_snapshot(tmp_path: Path, layout: int) -> None:
    """g was added after s0 and is in s1; the reference that replaces it is also the created entry in the diff of s0."""
    found = Setting(tmp_path, layout).merged(
        *SNAPSHOT, add("/s/g", NEW), close("/s/g"), create("s1"), rename("/s/g", "/z/h")
    )
    assert (found.created("/s", 0), list(found.deleted("/s", 1))) == (["g"], ["g"])
    assert ("/g" in found.at("s0"), "/g" in found.at("s1")) == (False, True)
    gone = Setting(tmp_path, layout).merged(
        *(*SNAPSHOT, add("/s/g", NEW), close("/s/g"), create("s1"), rename("/s/g", "/z/h"), remove("s1"))
    )
    assert (gone.created("/s", 0), gone.deleted("/s", 0)) == ([], {})
    # A renamed inode keeps its reference even without any name in a snapshot.
    assert gone.references() == [(NEW, "", CURRENT)]


# ---- deletion ----------------------------------------------------------------------------------------------


@layouts
def test_deletion_of_a_moved_file(tmp_path: Path, layout: int) -> None:
    longer = [
        ops.AppendOp(path="/z/g", client_name="c", client_machine="m", new_block=True),
        ops.AddBlockOp(path="/z/g", blocks=(Block(2, 50, 1001), Block(3, 0, 1002))),
        close("/z/g", blocks=(Block(1, 128, 1001), Block(2, 50, 1001), Block(3, 60, 1002))),
    ]
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, rename("/s/f", "/z/g"), *longer, delete("/z/g"))
    file = found.ids["/s/f"]
    assert found.references() == [(file, "f", 0)]
    assert found.at("s0")["/f"] == file
    # Hadoop 2.7 does not change the block list; Hadoop 3 drops blocks that no snapshot needs.
    kept = [block.blockId for block in found.image.inodes[file].file.blocks]
    assert kept == ([1, 2] if layout == HADOOP3 else [1, 2, 3])


@layouts
def test_deletion_of_a_moved_directory(tmp_path: Path, layout: int) -> None:
    changes = [rename("/s/d", "/z/d"), mkdir("/z/d/n", NEW), add("/z/d/e/o", NEW + 1)]
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, *changes, delete("/z/d"))
    assert found.references() == [(found.ids["/s/d"], "d", 0)]
    assert set(found.at("s0")) == INSIDE
    assert found.image.leases() == {}
    new = {NEW, NEW + 1} & set(found.image.inodes)
    assert new == (set() if layout == HADOOP3 else {NEW, NEW + 1})


@layouts
@pytest.mark.parametrize("order", [("s0", "delete"), ("delete", "s0")])
def test_moved_inode_is_removed_with_its_last_name(tmp_path: Path, layout: int, order: tuple[str, ...]) -> None:
    steps = {"s0": remove("s0"), "delete": delete("/z/d")}
    setting = Setting(tmp_path, layout)
    found = setting.merged(*SNAPSHOT, rename("/s/d", "/z/d"), *(steps[name] for name in order))
    gone = {setting.ids[path] for path in ("/s/d", "/s/d/f", "/s/d/e", "/s/d/e/g")}
    assert not gone & set(found.image.inodes)
    assert found.references() == []


@layouts
def test_second_name_is_removed_with_its_snapshot(tmp_path: Path, layout: int) -> None:
    moves = [*SNAPSHOT, allow("/z"), rename("/s/f", "/z/a"), create("z1", "/z"), rename("/z/a", "/b")]
    file = Setting(tmp_path, layout).ids["/s/f"]
    found = Setting(tmp_path, layout).merged(*moves, set_permissions("/b", 0o600), remove("z1", "/z"))
    assert found.references() == [(file, "", CURRENT), (file, "f", 0)]
    assert found.diff_ids("/b") == [0]
    found = Setting(tmp_path, layout).merged(*moves, remove("s0"))
    assert found.references() == [(file, "", CURRENT), (file, "a", 1)]
    assert found.diff_ids("/b") == [1]
    found = Setting(tmp_path, layout).merged(*moves, delete("/b"), remove("s0"))
    assert found.references() == [(file, "a", 1)]
    found = Setting(tmp_path, layout).merged(*moves, delete("/b"), remove("s0"), remove("z1", "/z"))
    assert file not in found.image.inodes


@layouts
def test_rename_over_a_reference(tmp_path: Path, layout: int) -> None:
    """s0 contains the moved file only under its old name."""
    setting = Setting(tmp_path, layout)
    setting.builder.file("/z/k")
    found = setting.merged(*SNAPSHOT, rename("/s/f", "/z/g"), rename("/z/k", "/z/g", overwrite=True))
    assert found.references() == [(found.ids["/s/f"], "f", 0)]
    assert found.present()["/z/g"] == found.ids["/z/k"]
    assert found.at("s0")["/f"] == found.ids["/s/f"]


@layouts
def test_rename_over_a_file_that_a_snapshot_contains(tmp_path: Path, layout: int) -> None:
    setting = Setting(tmp_path, layout)
    setting.builder.file("/z/k")
    found = setting.merged(*SNAPSHOT, rename("/z/k", "/s/f", overwrite=True))
    assert (found.created("/s", 0), found.deleted("/s", 0)) == (["f"], {"f": found.ids["/s/f"]})
    again = setting.merged(*SNAPSHOT, rename("/s/f", "/s/d/f", overwrite=True))
    assert list(again.deleted("/s/d", 0)) == ["f"]
    assert again.at("s0")["/d/f"] == again.ids["/s/d/f"]
    assert again.present()["/s/d/f"] == again.ids["/s/f"]


@layouts
def test_a_moved_open_file_keeps_its_lease(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(allow(), add("/s/d/o", NEW), create("s0"), rename("/s/d", "/z/d"))
    assert found.image.leases() == {NEW: "/z/d/o"}
    gone = Setting(tmp_path, layout).merged(
        allow(), add("/s/d/o", NEW), create("s0"), rename("/s/d", "/z/d"), delete("/z/d/o")
    )
    assert gone.image.leases() == {}
    assert gone.at("s0")["/d/o"] == NEW


@layouts
def test_rename_old_creates_references(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, ops.RenameOldOp(src="/s/d/f", dst="/z", timestamp=LATER))
    assert found.references() == [(found.ids["/s/d/f"], "", CURRENT), (found.ids["/s/d/f"], "f", 0)]
    assert found.present()["/z/f"] == found.ids["/s/d/f"]


@layouts
def test_moved_symlink_has_no_diffs(tmp_path: Path, layout: int) -> None:
    setting = Setting(tmp_path, layout)
    link = setting.builder.symlink("/s/l", "t").id
    found = setting.merged(*SNAPSHOT, rename("/s/l", "/z/l"))
    assert found.present()["/z/l"] == link
    assert link not in found.reader.diffs
    gone = setting.merged(*SNAPSHOT, rename("/s/l", "/z/l"), delete("/z/l"), remove("s0"))
    assert link not in gone.image.inodes


# ---- numbers of references ---------------------------------------------------------------------------------


@layouts
def test_reference_records_are_renumbered_without_gaps(tmp_path: Path, layout: int) -> None:
    """Of six records, the first two are removed; the last records receive their numbers, even if their holders are
    unchanged.
    """
    setting = Setting(tmp_path, layout)
    first = setting.merged(
        *(*SNAPSHOT, mkdir("/y", NEW), rename("/s/f", "/z/a"), rename("/s/d/f", "/y/b"), rename("/s/d/e", "/y/c"))
    )
    assert len(first.references()) == 6
    second = first.again(tmp_path / "2", delete("/z/a"))
    file = first.ids["/s/f"]
    assert [each for each in second.references() if each[0] == file] == [(file, "f", 0)]
    assert len(second.references()) == 5
    third = second.again(tmp_path / "3", rename("/y/c", "/y/d"), mkdir("/y/n", NEW + 1), rename("/y/b", "/s/d/f"))
    assert len(third.references()) == 5
    assert set(third.at("s0")) == INSIDE
    last = third.again(tmp_path / "4", remove("s0"))
    assert all(name == "" for _, name, _ in last.references())


# ---- more than one snapshottable directory above -----------------------------------------------------------


@layouts
def test_nested_snapshottable_directories(tmp_path: Path, layout: int) -> None:
    """Running NameNodes refuse nested directories by default; the newest snapshot above counts."""
    nested = [allow(), allow("/s/d"), create("s0"), create("d1", "/s/d")]
    found = Setting(tmp_path, layout).merged(
        *nested, delete("/s/d/f"), set_permissions("/s/d/e", 0o700), delete("/s/f")
    )
    assert (found.diff_ids("/s/d"), list(found.deleted("/s/d", 1))) == ([1], ["f"])
    assert (found.diff_ids("/s/d/e"), list(found.deleted("/s", 0))) == ([1], ["f"])
    assert set(found.at("s0")) == INSIDE
    assert set(found.at("d1", "/s/d")) == {"/", "/f", "/e", "/e/g"}
    # s0 still needs the diffs of d1.
    gone = Setting(tmp_path, layout).merged(
        *nested, delete("/s/d/f"), set_permissions("/s/d/e", 0o700), remove("d1", "/s/d")
    )
    assert (gone.diff_ids("/s/d"), gone.diff_ids("/s/d/e")) == ([0], [0])
    assert gone.at("s0")["/d/f"] == gone.ids["/s/d/f"]
    none = Setting(tmp_path, layout).merged(*nested, delete("/s/d/f"), remove("s0"), remove("d1", "/s/d"))
    assert none.ids["/s/d/f"] not in none.image.inodes


# ---- the worked check --------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_two", [False, True])
@layouts
def test_edits_with_a_result_confirmed_by_hadoop(tmp_path: Path, layout: int, in_two: bool) -> None:
    """Replay a sequence of edits whose result a real checkpoint of Hadoop confirmed."""
    builder = ImageBuilder(layout)
    for path in ("/a", "/a/b", "/a/b/c", "/z"):
        builder.directory(path)
    for path in ("/a/b/f1", "/a/b/f2"):
        builder.file(path, blocks=BLOCKS)
    ids = {path: inode.id for path, inode in builder.inodes.items()}
    given = [
        *(allow("/a"), create("s1", "/a"), rename("/a/b/f2", "/z/g2", 3000), rename("/a/b/c", "/z/c", 3001)),
        *(
            create("s2", "/a"),
            delete("/a/b/f1", 3002),
            create("s3", "/a"),
            remove("s1", "/a"),
            mkdir("/a/b/k", NEW, 3003),
        ),
    ]
    if in_two:
        found = Outcome(merge_bytes(builder.save(tmp_path), given[:6]), ids).again(tmp_path / "2", *given[6:])
    else:
        found = Outcome(merge_bytes(builder.save(tmp_path), given), ids)
    assert found.reader.header.snapshotCounter == 3
    assert found.diff_ids("/a") == [1, 2]
    newest, older = found.directory_diff("/a/b", 2), found.directory_diff("/a/b", 1)
    assert (newest.childrenSize, found.created("/a/b", 2), newest.HasField("snapshotCopy")) == (0, ["k"], False)
    assert (older.childrenSize, found.deleted("/a/b", 1)) == (1, {"f1": ids["/a/b/f1"]})
    assert older.snapshotCopy.modificationTime == 3001
    assert found.file_diff("/a/b/f1", 1).HasField("snapshotCopy")
    assert found.diffs("/z/g2") == []
    assert (ids["/a/b/f2"] in found.reader.diffs) == (layout == HADOOP2)
    assert found.references() == [(ids["/a/b/c"], "", CURRENT), (ids["/a/b/f2"], "", CURRENT)]
    assert all(not each.HasField("name") and not each.HasField("lastSnapshotId") for each in found.reader.references)
    assert found.image.sections["INODE_REFERENCE"] == delimited(found.reader.references)


@pytest.mark.parametrize("op", [delete("/s"), rename("/s", "/z/s"), delete("/s/d"), rename("/s/d", "/z/d")])
def test_moves_and_deletions_above_snapshots_are_refused(tmp_path: Path, op: EditOp) -> None:
    with pytest.raises(ReplayError, match="has snapshots"):
        Setting(tmp_path, HADOOP3).merged(allow("/s/d/e"), create("e0", "/s/d/e"), op)


# ---- inodes that Hadoop leaves in two places ---------------------------------------------------------------

# /s/d is renamed to /z/d after z0 and before z1, so the snapshots of /z/d itself do not apply to paths below it
IN_TWO_PLACES = [
    *SNAPSHOT,
    allow("/z"),
    create("z0", "/z"),
    rename("/s/d", "/z/d", 9000),
    create("z1", "/z"),
    allow("/z/d"),
    create("d0", "/z/d"),
    add("/z/d/new", NEW),
    close("/z/d/new"),
    create("d1", "/z/d"),
]


@layouts
def test_name_in_a_newer_snapshot_changes_with_the_rename(tmp_path: Path, layout: int) -> None:
    """The newest snapshot of the path lacks the file, but a newer snapshot of its directory contains it (Hadoop
    2.7.3).
    """
    moved = [*IN_TWO_PLACES, rename("/z/d/new", "/z/d/renamed", 9001)]
    found = Setting(tmp_path, layout, HEAL).merged(*moved)
    assert found.references() == [(found.ids["/s/d"], "", 1), (found.ids["/s/d"], "d", 0)]
    assert found.at("d0", "/z/d").keys() == {"/", "/f", "/e", "/e/g"}
    assert found.at("d1", "/z/d")["/renamed"] == NEW
    assert (found.created("/z/d", 3), found.created("/z/d", 4)) == (["renamed"], [])


@layouts
def test_inode_renamed_out_of_a_newer_snapshot_gets_references(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout, HEAL).merged(*IN_TWO_PLACES, rename("/z/d/new", "/z/new", 9001))
    assert [each for each in found.references() if each[0] == NEW] == [(NEW, "", 2), (NEW, "new", 4)]
    assert found.at("d0", "/z/d").keys() == {"/", "/f", "/e", "/e/g"}
    assert found.at("d1", "/z/d")["/new"] == found.present()["/z/new"] == NEW


@layouts
def test_inode_that_returned_to_its_old_name_without_a_record(tmp_path: Path, layout: int) -> None:
    """A created list contains the reference of the first departure, because no newer diff records the return.

    A NameNode refuses the second departure for this reason, so its edit log does not contain the last rename.
    """
    ids = iter(range(NEW, NEW + 10))
    given = [
        *(mkdir("/w", next(ids)), mkdir("/o", next(ids)), allow("/w"), create("older", "/w"), *SNAPSHOT),
        *(mkdir("/s/d/b", next(ids)), mkdir("/s/d/b/p", next(ids)), create("s1")),
        *(mkdir("/s/d/b/p/x", next(ids)), create("s2"), mkdir("/s/d/e/y", next(ids))),
        *(rename("/s/d/b/p/x", "/z/x"), rename("/s/d", "/o/d"), rename("/o", "/w/o")),
        # the newest snapshot here is "older", which contains neither this place nor the return
        *(rename("/w/o/d/b", "/w/o/d/e/b"), rename("/z/x", "/w/o/d/e/b/p/x"), create("newer", "/w")),
        rename("/w/o/d/e/b/p/x", "/z/x"),
    ]
    setting = Setting(tmp_path, layout, ReplayRules(healing=HealingMode.AS_HADOOP))
    with pytest.raises(
        ReplayError, match="diffs of /w/o/d/e/b/p are inconsistent with its children at b'x'"
    ) as stopped:
        setting.merged(*given)
    assert stopped.value.txid == BASE_TXID + len(given)
