"""Deletion of snapshots, in any order, and open files in snapshots."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from engine.errors import ReplayError
from engine.merge import load_image
from engine.namespace.snapshots import Snapshot
from engine.replay import replay
from engine.settings import ReplayRules
from hadoop_common.configuration import Configuration
from image_format.reader import ImageFile
from journal import ops
from journal.ops import Block, EditOp
from site_config.merge_settings import replay_rules
from tests.engine.image_builder import HADOOP2, HADOOP3, OWNER, numbered
from tests.engine.op_makers import add, close, delete, mkdir, rename, set_permissions, times
from tests.engine.snapshot_support import NEW, Setting, allow, create, disallow, layouts, remove, retitle

# ---- delete ------------------------------------------------------------------------------------------------


# Between s0 and s1, /s/f is deleted and /s/a is created. Between s1 and s2, /s/a is deleted and /s/b is created. After
# s2, /s/b is deleted.
THREE = [
    *(allow(), create("s0"), delete("/s/f"), add("/s/a", NEW), close("/s/a")),
    *(create("s1"), delete("/s/a"), mkdir("/s/b", NEW + 1)),
    *(create("s2"), delete("/s/b"), set_permissions("/s/d", 0o700)),
]


@layouts
def test_changes_are_recorded_in_the_diffs_of_three_snapshots(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*THREE)
    changes = [(found.created("/s", number), list(found.deleted("/s", number))) for number in range(3)]
    assert changes == [(["a"], ["f"]), (["b"], ["a"]), ([], ["b"])]
    assert [found.directory_diff("/s", number).childrenSize for number in range(3)] == [2, 2, 2]
    assert [set(found.at(f"s{number}")) - {"/", "/d", "/d/f", "/d/e", "/d/e/g"} for number in range(3)] == [
        {"/f"},
        {"/a"},
        {"/b"},
    ]


@layouts
def test_deleting_the_first_snapshot_removes_its_own_inodes(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*THREE, remove("s0"))
    assert found.diff_ids("/s") == [1, 2]
    assert found.ids["/s/f"] not in found.image.inodes
    assert found.image.header.numInodes == 9  # type: ignore[attr-defined]


@layouts
@pytest.mark.parametrize("name", ["s0", "s1", "s2"])
def test_older_diffs_of_the_image_follow_a_change_of_their_directory(tmp_path: Path, layout: int, name: str) -> None:
    """The change reads only the newest diff of the directory."""
    made = [each for n in range(3) for each in (create(f"s{n}"), mkdir(f"/s/d/n{n}", NEW + n))]
    kept = Setting(tmp_path, layout).merged(allow(), *made)
    found = kept.again(tmp_path / "later", mkdir("/s/d/new", NEW + 3), remove(name))
    assert found.diff_ids("/s/d") == [n for n in range(3) if name != f"s{n}"]


@layouts
def test_changes_of_a_deleted_middle_snapshot_move_to_the_previous_one(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*THREE, remove("s1"))
    assert found.diff_ids("/s") == [0, 2]
    # a was created and deleted between s0 and s2: no snapshot contains it.
    assert (found.created("/s", 0), list(found.deleted("/s", 0))) == (["b"], ["f"])
    assert NEW not in found.image.inodes


@layouts
def test_deleting_the_last_snapshot_moves_its_diffs_to_the_previous_one(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*THREE, remove("s2"))
    assert found.diff_ids("/s") == [0, 1]
    assert (found.created("/s", 1), list(found.deleted("/s", 1))) == ([], ["a"])
    assert NEW + 1 not in found.image.inodes
    # /s/d changed only after s2: its diff now belongs to s1.
    assert found.diff_ids("/s/d") == [1]
    assert found.directory_diff("/s/d", 1).snapshotCopy.permission & 0o777 == 0o755


@layouts
def test_combined_diff_keeps_the_earlier_copy(tmp_path: Path, layout: int) -> None:
    changes = [
        *(allow(), create("s0"), mkdir("/s/d/n", NEW), create("s1"), set_permissions("/s/d", 0o711)),
        *(create("s2"), set_permissions("/s/d", 0o700), create("s3"), set_permissions("/s/d", 0o600)),
    ]
    setting = Setting(tmp_path, layout)
    assert not setting.merged(*changes).directory_diff("/s/d", 0).HasField("snapshotCopy")
    adopted = setting.merged(*changes, remove("s1"))
    assert adopted.directory_diff("/s/d", 0).snapshotCopy.permission & 0o777 == 0o755
    assert adopted.created("/s/d", 0) == ["n"]
    kept = setting.merged(*changes, remove("s1"), remove("s2"))
    assert kept.directory_diff("/s/d", 0).snapshotCopy.permission & 0o777 == 0o755
    assert kept.diff_ids("/s/d") == [0, 3]


@layouts
def test_first_diff_gets_the_id_of_the_previous_snapshot(tmp_path: Path, layout: int) -> None:
    """The diff of s1 is the first of /s/d and of /s/d/f, but s0 needs its contents."""
    changes = [
        *(allow(), create("s0"), create("s1")),
        *(set_permissions("/s/d", 0o700), times("/s/d/f", 3000, 3000), delete("/s/d/e")),
    ]
    found = Setting(tmp_path, layout).merged(*changes, remove("s1"))
    assert (found.diff_ids("/s/d"), found.diff_ids("/s/d/f")) == ([0], [0])
    assert list(found.deleted("/s/d", 0)) == ["e"]
    assert set(found.at("s0")) == {"/", "/d", "/d/f", "/d/e", "/d/e/g", "/f"}


@layouts
def test_no_diffs_remain_after_the_last_deletion(tmp_path: Path, layout: int) -> None:
    """Hadoop 2.7 keeps empty lists of diffs, which have no meaning."""
    found = Setting(tmp_path, layout).merged(*THREE, remove("s1"), remove("s0"), remove("s2"), disallow())
    assert all(diffs == [] for diffs in found.reader.diffs.values())
    assert set(found.image.inodes) == set(found.present().values())
    if layout == HADOOP3:
        assert set(found.reader.diffs) <= {found.ids["/"]}


@layouts
def test_name_deleted_and_recreated_between_snapshots(tmp_path: Path, layout: int) -> None:
    """In the combined diff, f is both deleted and created: s0 contains the old file, and another file exists now."""
    changes = [
        *(allow(), create("s0"), delete("/s/f"), mkdir("/s/f", NEW), create("s1")),
        *(delete("/s/f"), add("/s/f", NEW + 1), close("/s/f")),
    ]
    found = Setting(tmp_path, layout).merged(*changes, remove("s1"))
    assert (found.created("/s", 0), found.deleted("/s", 0)) == (["f"], {"f": found.ids["/s/f"]})
    assert NEW not in found.image.inodes
    assert found.at("s0")["/f"] == found.ids["/s/f"]
    assert found.image["/s/f"].id == NEW + 1


@layouts
def test_late_child_of_a_deleted_directory_is_deleted_with_the_snapshot(tmp_path: Path, layout: int) -> None:
    """n was added to d after s0 and is in s1; d is deleted, and so is s1."""
    changes = [allow(), create("s0"), mkdir("/s/d/n", NEW), create("s1"), delete("/s/d")]
    found = Setting(tmp_path, layout).merged(*changes, remove("s1"))
    assert NEW not in found.image.inodes
    assert set(found.at("s0")) == {"/", "/d", "/d/f", "/d/e", "/d/e/g", "/f"}
    assert found.created("/s/d", 0) == []


def test_late_child_of_a_deleted_moved_directory_stays_for_a_later_snapshot(tmp_path: Path) -> None:
    """n was added to d after s0, and changed after s1; s2 still contains n when d is gone and s1 is deleted."""
    changes = [add("/s/d/n", NEW), close("/s/d/n"), create("s1"), set_permissions("/s/d/n", 0o600), create("s2")]
    moved = [rename("/s/d", "/z/d"), delete("/z/d")]
    found = Setting(tmp_path, HADOOP3).merged(allow(), create("s0"), *changes, *moved, remove("s1"))
    assert found.at("s2")["/d/n"] == NEW
    assert "/d/n" not in found.at("s0")


def test_late_child_of_a_present_moved_directory_survives_the_snapshot(tmp_path: Path) -> None:
    """Only the present place of m refers to m, because the snapshot with its old name was deleted."""
    moved = [allow(), create("old"), rename("/s/d", "/s/m"), remove("old")]
    changes = [create("s0"), mkdir("/s/m/n", NEW), create("s1"), mkdir("/s/m/n/k", NEW + 1)]
    found = Setting(tmp_path, HADOOP3).merged(*moved, *changes, remove("s1"))
    assert (found.present()["/s/m/n"], found.present()["/s/m/n/k"]) == (NEW, NEW + 1)


@layouts
def test_late_symlink_of_a_moved_directory_is_deleted_with_the_snapshot(tmp_path: Path, layout: int) -> None:
    """d is moved into x, which was renamed, and deleted with x; only s1 contains the link l in d."""
    link = ops.SymlinkOp(path="/s/m/l", inode_id=NEW, target="t", mtime=2000, atime=2000, permissions=OWNER)
    moved = [rename("/s/x", "/s/y"), rename("/s/d", "/s/m"), link, create("s1"), rename("/s/m", "/s/y/m")]
    given = [mkdir("/s/x", NEW + 1), allow(), create("s0"), *moved, delete("/s/y"), remove("s1")]
    found = Setting(tmp_path, layout).merged(*given)
    assert (NEW in found.image.inodes) == (layout == HADOOP2)
    assert set(found.at("s0")) == {"/", "/d", "/d/f", "/d/e", "/d/e/g", "/f", "/x"}


def test_snapshot_deletion_sets_the_directory_time_in_hadoop_3(tmp_path: Path) -> None:
    given = [allow(), create("s0", mtime=1500)]
    assert Setting(tmp_path, HADOOP3).merged(*given, remove("s0", mtime=1700)).image.mtime("/s") == 1700
    assert Setting(tmp_path, HADOOP3).merged(*given, remove("s0", mtime=1400)).image.mtime("/s") == 1500


@layouts
def test_deep_trees_do_not_overflow_the_stack(tmp_path: Path, layout: int) -> None:
    """A path has up to a thousand components."""
    setting = Setting(tmp_path, layout)
    path, given = "/s", [allow()]
    for number in range(990):
        path += "/n"
        given.append(mkdir(path, NEW + number))
    found = setting.merged(
        *given, create("s0"), set_permissions(path, 0o700), delete("/s/n"), create("s1"), remove("s0")
    )
    assert set(found.image.inodes) == set(setting.ids.values())


# ---- open files, ordered deletion --------------------------------------------------------------------------


OPEN = [add("/s/d/o", NEW), ops.AddBlockOp(path="/s/d/o", blocks=(Block(9, 0, 1009),))]
WRITTEN = [close("/s/d/o", blocks=(Block(9, 70, 1009),)), add("/z/o", NEW + 1)]


@layouts
@pytest.mark.parametrize("capture", [False, True])
def test_open_files_are_captured_if_configured(tmp_path: Path, layout: int, capture: bool) -> None:
    rules = ReplayRules(capture_open_files=capture)
    length = ops.UpdateBlocksOp(path="/s/d/o", blocks=(Block(9, 40, 1009),))
    found = Setting(tmp_path, layout, rules).merged(allow(), *OPEN, length, create("s0"), *WRITTEN)
    assert found.diff_ids("/s/d/o") == ([0] if capture else [])
    if capture:
        diff = found.file_diff("/s/d/o", 0)
        assert (diff.fileSize, diff.name, diff.snapshotCopy.HasField("fileUC")) == (40, b"o", False)
    assert found.diff_ids("/z/o") == []


@layouts
@pytest.mark.parametrize("root", ["/z", "/z/d", "/z/d/below"])
def test_open_files_below_a_root_renamed_out_of_a_snapshot_are_not_captured(
    tmp_path: Path, layout: int, root: str
) -> None:
    """Hadoop compares the inode objects on two paths, and only one of the paths contains a reference."""
    rules = ReplayRules(capture_open_files=True)
    opened = [mkdir("/s/d/below", NEW), add("/s/d/below/o", NEW + 1)]
    moved = [rename("/s/d", "/z/d"), allow(root), create("s1", root)]
    found = Setting(tmp_path, layout, rules).merged(*opened, allow(), create("s0"), *moved)
    assert found.diff_ids("/z/d/below/o") == ([0, 1] if root == "/z" else [0])


@pytest.mark.parametrize("capture", [False, True])
def test_overwritten_open_file_keeps_its_lease_in_hadoop_3(tmp_path: Path, capture: bool) -> None:
    """The file was renamed within the snapshot, so only the reference is removed; then no directory lists the file."""
    found = Setting(tmp_path, HADOOP3, ReplayRules(capture_open_files=capture)).merged(
        *(allow(), *OPEN, add("/z/f", NEW + 2), close("/z/f"), create("s0")),
        *(rename("/s/d/o", "/s/d/p"), rename("/z/f", "/s/d/p", overwrite=True), create("s1")),
    )
    assert found.image.leases() == {NEW: "p"}
    assert [diff.id for diff in found.reader.diffs[NEW]] == [0]
    assert found.at("s0")["/d/o"] == NEW
    assert "/d/o" not in found.at("s1")
    again = found.again(tmp_path / "second", mkdir("/z/n", NEW + 5))
    assert again.image.leases() == {NEW: "p"}


@layouts
def test_deleted_open_file_stays_in_the_snapshot(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(allow(), *OPEN, create("s0"), delete("/s/d/o"))
    assert found.at("s0")["/d/o"] == NEW
    assert found.image.inodes[NEW].file.HasField("fileUC")
    # The block without data is removed.
    assert len(found.image.inodes[NEW].file.blocks) == 0
    assert found.image.leases() == {}


def test_loaded_open_file_in_a_snapshot_has_a_lease_in_hadoop_3(tmp_path: Path) -> None:
    """Hadoop's loader gives a lease to every open file; the path consists of the known part only."""
    for layout, expected in ((HADOOP2, {}), (HADOOP3, {NEW: "/s/d/o"})):
        setting = Setting(tmp_path / str(layout), layout)
        first = setting.merged(allow(), *OPEN, create("s0"), delete("/s/d"))
        assert first.image.leases() == {}
        second = first.again(tmp_path / str(layout) / "second", mkdir("/z/n", NEW + 5))
        assert second.image.leases() == expected


def deleted_in_order() -> list[EditOp]:
    """Return the log of a NameNode with ordered deletion: it marks s2, removes s1, then removes s2 by its new name."""
    made = [allow(), create("s1"), create("s2"), create("s3"), remove("s2"), remove("s1"), remove("s2#1")]
    return [ops.StartLogSegmentOp(), *made]


@pytest.mark.parametrize("ordered", [False, True])
def test_second_deletion_of_a_snapshot_marked_as_deleted(tmp_path: Path, ordered: bool) -> None:
    """If ordered deletion has since been switched off, the first operation removes the snapshot, and the second
    operation has no effect (HDFS-15590, HDFS-17960).
    """
    found = Setting(tmp_path, HADOOP3, ReplayRules(ordered_snapshot_deletion=ordered)).merged(*deleted_in_order())
    assert found.reader.order == [b"s3"]
    assert found.reader.header.numSnapshots == 1
    assert found.reader.header.snapshotCounter == 3


def test_error_names_the_unknown_ordered_deletion_setting(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"dfs\.namenode\.snapshot\.deletion\.ordered") as caught:
        Setting(tmp_path, HADOOP3).merged(*deleted_in_order())
    assert caught.value.txid == 100 + len(deleted_in_order())
    assert "--conf" in caught.value.hint


@pytest.mark.parametrize("layout", [HADOOP2, -66])
def test_releases_without_ordered_deletion_stop_at_a_missing_snapshot(tmp_path: Path, layout: int) -> None:
    rules = ReplayRules(ordered_snapshot_deletion=False)
    with pytest.raises(ReplayError, match="no snapshot 's2#1'"):
        Setting(tmp_path, layout, rules).merged(*deleted_in_order())


def test_snapshot_operations_on_the_root_before_it_is_allowed(tmp_path: Path) -> None:
    """Hadoop's operations on snapshots accept the root at any time."""
    unordered = ReplayRules(ordered_snapshot_deletion=False)
    Setting(tmp_path / "skipped", HADOOP3, unordered).merged(remove("s1", "/"))
    for op in (create("s1", "/"), retitle("s1", "s2", "/"), remove("s1", "/")):
        with pytest.raises(ReplayError, match=r"directory 16385 (is not snapshottable|has no snapshot 's1')"):
            Setting(tmp_path, HADOOP2, unordered).merged(op)
    assert Setting(tmp_path, HADOOP2).merged(allow("/"), create("s1", "/")).reader.order == [b"s1"]


@pytest.mark.parametrize("backported", [False, True])
@pytest.mark.parametrize("layout", [HADOOP2, -66])
def test_older_layouts_have_ordered_deletion_only_where_it_was_backported(
    tmp_path: Path, layout: int, backported: bool
) -> None:
    rules = ReplayRules(ordered_snapshot_deletion=True, ordered_deletion_in_older_layouts=backported)
    found = Setting(tmp_path, layout, rules).merged(allow(), create("s0"), create("s1"), remove("s1"))
    assert found.reader.order == ([b"s0", b"s1#1"] if backported else [b"s0"])


@pytest.mark.parametrize(("text", "known"), [(None, None), ("false", False), ("true", True)])
def test_ordered_deletion_in_older_layouts_is_read_from_the_key(text: str | None, known: bool | None) -> None:
    values = {} if text is None else {"checkpointer.snapshot.deletion.ordered.older-layouts": text}
    assert replay_rules(Configuration.from_mapping(values, {})).ordered_deletion_in_older_layouts is known


@pytest.mark.parametrize("finalized", [False, True])
@pytest.mark.parametrize("known", [None, False, True])
def test_ordered_deletion_during_a_rolling_upgrade_requires_the_key(
    tmp_path: Path, known: bool | None, finalized: bool
) -> None:
    """NameNodes of Hadoop 3.4 and newer mark snapshots at the older layout; NameNodes of Hadoop 3.3 remove them."""
    rules = ReplayRules(ordered_snapshot_deletion=True, ordered_deletion_in_older_layouts=known)
    given = [allow(), create("s0"), create("s1"), create("s2"), ops.RollingUpgradeStartOp(time=5), remove("s0")]
    if finalized:
        given.append(ops.RollingUpgradeFinalizeOp(time=6))
    if known is None:
        with pytest.raises(ReplayError, match="s2") as caught:
            Setting(tmp_path, -66, rules).merged(*given, remove("s2"))
        assert "checkpointer.snapshot.deletion.ordered.older-layouts" in caught.value.hint
    else:
        found = Setting(tmp_path, -66, rules).merged(*given, remove("s2"))
        assert found.reader.order == ([b"s1", b"s2#2"] if known else [b"s1"])


def test_ordered_deletion_marks_all_but_the_earliest(tmp_path: Path) -> None:
    rules = ReplayRules(ordered_snapshot_deletion=True)
    given = [allow(), create("s0"), create("s1"), delete("/s/f"), create("s2"), remove("s1")]
    found = Setting(tmp_path, HADOOP3, rules).merged(*given)
    assert found.reader.order == [b"s0", b"s1#1", b"s2"]
    assert found.reader.header.numSnapshots == 3
    (mark,) = found.root("s1#1").directory.xAttrs.xAttrs
    assert found.image.string(mark.name >> 6 & 0xFFFFFF, 3) == "hdfs.snapshot.deleted"
    assert (mark.name >> 30, mark.HasField("value")) == (3, False)
    assert found.diff_ids("/s") == [0, 1, 2]
    again = Setting(tmp_path, HADOOP3, rules).merged(*given, remove("s0"), remove("s1#1"))
    assert again.reader.order == [b"s2"]
    assert again.diff_ids("/s") == [2]
    assert again.ids["/s/f"] not in again.image.inodes


@layouts
def test_deleted_snapshots_use_no_memory(tmp_path: Path, layout: int) -> None:
    """A backlog of any length needs memory only for the snapshots that exist."""
    given = [allow()]
    for number in range(20):
        given += [create(f"s{number}"), set_permissions("/s/f", 0o600 + number % 8), remove(f"s{number}")]
    with ImageFile.open(Setting(tmp_path, layout).builder.save(tmp_path)) as image:
        namespace = load_image(image).namespace
        replay(namespace, numbered(given, namespace.last_txid))
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, Snapshot)]
        assert len(vars(namespace.recorder.diffs)["_rows_at"]) <= 1
