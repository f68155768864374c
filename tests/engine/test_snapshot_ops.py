"""Operations on snapshots: allow, disallow, create and rename."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.errors import ReplayError
from engine.loaded_image import load_image
from image_format.errors import RecordError
from image_format.name_order import name_key
from image_format.reader import ImageFile
from journal import ops
from journal.ops import EditOp
from tests.engine.image_builder import HADOOP2, HADOOP3, LAYOUTS, UINT64
from tests.engine.op_makers import LATER, delete, mkdir, rename, set_permissions
from tests.engine.snapshot_support import NEW, Setting, allow, create, disallow, layouts, remove, retitle
from tests.image_tools.verify_support import Model, recorded

# ---- allow and disallow ------------------------------------------------------------------------------------


@layouts
def test_allow_lists_a_directory_once(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(allow(), allow("/z"), allow())
    assert found.reader.snapshottable == [found.ids["/s"], found.ids["/z"]]
    assert found.reader.header.snapshotCounter == 0
    assert found.diffs("/s") == []


@layouts
def test_disallow_removes_the_directory_from_the_list(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(allow(), allow("/z"), disallow(), disallow("/z"), disallow("/z"))
    assert found.reader.snapshottable == []


@layouts
def test_disallow_keeps_diffs_of_a_snapshot_above(tmp_path: Path, layout: int) -> None:
    """The image has nested snapshottable directories."""
    found = Setting(tmp_path, layout).merged(
        allow(), allow("/s/d"), create("s0"), mkdir("/s/d/n", NEW), disallow("/s/d")
    )
    assert found.reader.snapshottable == [found.ids["/s"]]
    assert found.created("/s/d", 0) == ["n"]


@layouts
@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([allow("/s/f")], "not a directory"),
        ([allow("/none")], "does not exist"),
        ([create("s0")], "not snapshottable"),
        ([allow(), create("s0"), create("s0")], "already has a snapshot 's0'"),
        ([allow(), create("s0"), disallow()], "still has snapshots"),
        ([allow(), remove("s0")], "no snapshot 's0'"),
        ([remove("s0")], "not snapshottable"),
        ([allow(), retitle("s0", "s1")], "no snapshot 's0'"),
        ([allow(), create("s0"), create("s1"), retitle("s0", "s1")], "already has a snapshot 's1'"),
        ([allow(), create("s0"), delete("/s")], "/s has snapshots"),
        ([allow("/s/d"), create("s0", "/s/d"), delete("/s")], "/s/d has snapshots"),
        ([allow("/s/d"), create("s0", "/s/d"), rename("/s", "/z/s")], "/s/d has snapshots"),
        ([allow(), create("s0"), rename("/s", "/z/s")], "/s has snapshots"),
        ([allow("/z"), create("s0", "/z"), rename("/s/d/e", "/z", overwrite=True)], "/z has snapshots"),
    ],
    ids=lambda given: given[-1].name if isinstance(given, list) else None,
)
def test_invalid_snapshot_operation_is_an_error(tmp_path: Path, layout: int, given: list[EditOp], what: str) -> None:
    with pytest.raises(ReplayError, match=rf"{given[-1].name} at txid {100 + len(given)}.*{what}") as caught:
        Setting(tmp_path, layout).merged(*given)
    assert caught.value.hint


@layouts
def test_failed_rename_old_changes_no_snapshot(tmp_path: Path, layout: int) -> None:
    given = [allow(), create("s0"), ops.RenameOldOp(src="/s/none", dst="/z/x", timestamp=LATER)]
    assert Setting(tmp_path, layout).merged(*given).diff_ids("/s") == [0]


@layouts
def test_deleted_directory_is_no_longer_snapshottable(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(
        *(allow(), allow("/z"), create("s0", "/z"), remove("s0", "/z"), mkdir("/y", NEW), allow("/y")),
        *(delete("/s"), rename("/y", "/z", overwrite=True)),
    )
    assert found.reader.snapshottable == [NEW]
    assert found.ids["/z"] not in found.image.inodes


# ---- create ------------------------------------------------------------------------------------------------


@layouts
def test_create_increments_the_counter_and_copies_the_root(tmp_path: Path, layout: int) -> None:
    setting = Setting(tmp_path, layout)
    found = setting.merged(
        allow(),
        ops.SetXAttrOp(src="/s", xattrs=(ops.XAttr(0, "x", b"1"),)),
        create("s0"),
        set_permissions("/s", 0o700),
        create("s1"),
        remove("s0"),
        create("s2"),
    )
    assert (found.reader.header.snapshotCounter, found.reader.header.numSnapshots) == (3, 2)
    assert {name: root.snapshotId for (_, name), root in found.reader.snapshots.items()} == {"s1": 1, "s2": 2}
    assert found.diff_ids("/s") == [1, 2]
    for snapshot_id in (1, 2):
        diff = found.directory_diff("/s", snapshot_id)
        assert (diff.isSnapshotRoot, diff.childrenSize, diff.HasField("snapshotCopy")) == (True, 2, False)
    assert found.root("s1").directory.permission & 0o777 == 0o700
    assert len(found.root("s1").directory.xAttrs.xAttrs) == 1


@layouts
def test_change_is_visible_only_in_later_snapshots(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(allow(), create("s0"), set_permissions("/s", 0o700), create("s1"))
    assert [found.root(name).directory.permission & 0o777 for name in ("s0", "s1")] == [0o755, 0o700]


def test_quotas_of_the_root_are_kept_by_hadoop_3_only(tmp_path: Path) -> None:
    quota = ops.SetQuotaOp(src="/s", ns_quota=9, ds_quota=1 << 40)
    typed = ops.SetQuotaByStorageTypeOp(src="/s", storage_type=1, ds_quota=5)
    roots = {
        layout: Setting(tmp_path, layout).merged(allow(), quota, typed, create("s0")).root("s0").directory
        for layout in LAYOUTS
    }
    new, old = roots[HADOOP3], roots[HADOOP2]
    assert (new.nsQuota, new.dsQuota, len(new.typeQuotas.quotas)) == (9, 1 << 40, 1)
    assert (old.nsQuota, old.dsQuota, len(old.typeQuotas.quotas)) == (UINT64, UINT64, 0)


def test_snapshot_times_come_from_the_operation_in_hadoop_3(tmp_path: Path) -> None:
    found = Setting(tmp_path, HADOOP3).merged(allow(), create("s0", mtime=1500), create("s1", mtime=1200))
    assert [found.root(name).directory.modificationTime for name in ("s0", "s1")] == [1500, 1200]
    assert found.image.mtime("/s") == 1500


@pytest.mark.parametrize("layout", [HADOOP2, -64, -65])
def test_snapshot_times_come_from_the_clock_before_hadoop_3_3(tmp_path: Path, layout: int) -> None:
    before = time.time_ns() // 1_000_000
    found = Setting(tmp_path, layout).merged(allow(), create("s0", mtime=0), create("s1", mtime=0), retitle("s1", "s2"))
    after = time.time_ns() // 1_000_000
    taken = [found.root(name).directory.modificationTime for name in ("s0", "s2")]
    assert before <= taken[0] <= taken[1] <= after
    assert found.image.mtime("/s") == taken[1]


@layouts
def test_snapshots_are_sorted_by_signed_bytes(tmp_path: Path, layout: int) -> None:
    names = ["b", "ß", "a", "中", "B"]
    found = Setting(tmp_path, layout).merged(allow(), *map(create, names))
    assert found.reader.order == sorted((name.encode() for name in names), key=name_key)
    assert found.reader.order[-3:] == [b"B", b"a", b"b"]


# Kernels leave this operation to Python, which then completes the snapshots of the operations before it.
PAUSE = allow("/z")


@layouts
def test_newest_snapshot_can_belong_to_an_ancestor(tmp_path: Path, layout: int) -> None:
    """The snapshot `outer` of /s is newer than the snapshot `inner` of /s/d, so later changes of /s/d belong to
    `outer`.
    """
    found = Setting(tmp_path, layout).merged(
        *(allow(), allow("/s/d"), create("inner", "/s/d"), create("outer"), mkdir("/s/d/x", NEW), PAUSE),
        *(mkdir("/s/d/x/y", NEW + 1), set_permissions("/s/d", 0o700)),
    )
    assert found.diffs("/s/d/x") == []
    assert found.created("/s/d", 1) == ["x"]
    assert found.directory_diff("/s/d", 1).HasField("snapshotCopy")


@layouts
def test_renaming_a_snapshot_keeps_the_newest_diff(tmp_path: Path, layout: int) -> None:
    """The image's older diffs are read to rename the snapshot after kernels have made a diff for a snapshot above."""
    before = Setting(tmp_path, layout).merged(
        *(allow(), allow("/s/d"), create("s0", "/s/d"), mkdir("/s/d/a", NEW)),
        *(create("s1", "/s/d"), mkdir("/s/d/b", NEW + 1), create("s2"), create("s3")),
    )
    found = before.again(
        tmp_path,
        *(set_permissions("/s/d/b", 0o700), retitle("s0", "zero", "/s/d"), mkdir("/s/d/x", NEW + 2), PAUSE),
        set_permissions("/s/d/x", 0o700),
    )
    assert found.diffs("/s/d/x") == []
    assert [found.created("/s/d", number) for number in (0, 1, 3)] == [["a"], ["b"], ["x"]]


@layouts
def test_snapshots_of_the_root_directory(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(
        allow("/"), create("s0", "/"), delete("/z"), mkdir("/n", NEW), set_permissions("/", 0o700)
    )
    assert (found.created("/", 0), list(found.deleted("/", 0))) == (["n"], ["z"])
    assert found.root("s0", "/").directory.permission & 0o777 == 0o755


# ---- rename ------------------------------------------------------------------------------------------------


@layouts
def test_snapshot_rename_moves_the_name_in_the_list(tmp_path: Path, layout: int) -> None:
    given = [allow(), create("s0", mtime=1500), create("s1"), create("s2"), retitle("s0", "zz", mtime=1900)]
    found = Setting(tmp_path, layout).merged(*given)
    assert found.reader.order == [b"s1", b"s2", b"zz"]
    assert found.root("zz").name == b"zz"
    assert found.reader.snapshots[found.ids["/s"], "zz"].snapshotId == 0
    if layout == HADOOP3:
        assert found.root("zz").directory.modificationTime == 1900


@layouts
def test_a_renamed_snapshot_is_found_by_its_new_name(tmp_path: Path, layout: int) -> None:
    given = [allow(), create("s0"), delete("/s/f"), retitle("s0", "n"), create("s0"), remove("n")]
    found = Setting(tmp_path, layout).merged(*given)
    assert found.diff_ids("/s") == [1]
    assert found.ids["/s/f"] not in found.image.inodes


def test_snapshot_rename_to_the_same_name_changes_nothing(tmp_path: Path) -> None:
    found = Setting(tmp_path, HADOOP3).merged(allow(), create("s0", mtime=1500), retitle("s0", "s0", mtime=1900))
    assert found.root("s0").directory.modificationTime == 1500


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("counter", "snapshot", "directory", "what"),
    [
        (0, None, None, "snapshotCounter is 0, but a snapshot has the id"),
        (None, (1 << 32) - 1, None, "but a snapshot has the id 4294967295"),
        (None, None, 99_999, "inode 99999 is snapshottable, but not a directory"),
        (None, None, 1 << 63, "inode -9223372036854775808 is snapshottable, but not a directory"),
    ],
)
def test_inconsistent_ids_in_the_snapshot_section_are_refused(
    tmp_path: Path, counter: int | None, snapshot: int | None, directory: int | None, what: str
) -> None:
    model = Model(recorded("rename3"))
    if counter is not None:
        model.snapshot_header.snapshotCounter = counter
    if snapshot is not None:
        model.snapshots[0].snapshotId = snapshot
    if directory is not None:
        model.snapshot_header.snapshottableDir.append(directory)
    with ImageFile.open(model.save(tmp_path)) as image, pytest.raises(RecordError, match=what):
        load_image(image)
