"""Diffs of changed attributes, writes, and added and removed children (docs/snapshots.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InconsistentNamespaceError, ReplayError
from engine.healing import HealingMode
from engine.image_steps import write_verified
from engine.merge import load_image
from engine.replay import replay
from engine.settings import ReplayRules
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from journal import ops
from journal.ops import AclEntry, Block, EditOp, XAttr
from tests.engine.image_builder import BASE_TXID, HADOOP2, HADOOP3, LAYOUTS, UINT64, numbered
from tests.engine.op_makers import LATER, add, close, delete, mkdir, rename, set_permissions, times
from tests.engine.snapshot_support import BLOCKS, HEAL, NEW, WHOLE, Outcome, Setting, allow, create, remove

layouts = pytest.mark.parametrize("layout", LAYOUTS)
ACL = tuple(AclEntry(kind, 0, 6, name) for kind, name in ((0, None), (0, "u"), (1, None), (2, None), (3, None)))
SNAPSHOT = [allow(), create("s0")]


def copy_at(found: Outcome, path: str, snapshot_id: int = 0) -> pb.INodeFile | pb.INodeDirectory | None:
    (diff,) = [diff.message for diff in found.diffs(path) if diff.id == snapshot_id]
    return diff.snapshotCopy if diff.HasField("snapshotCopy") else None


# ---- attributes --------------------------------------------------------------------------------------------

DIRECTORY_CHANGES: list[EditOp] = [
    set_permissions("/s/d", 0o700),
    ops.SetOwnerOp(src="/s/d", username="u"),
    ops.SetOwnerOp(src="/s/d", groupname="g"),
    times("/s/d", mtime=7777),
    times("/s/d", atime=7777),
    ops.SetQuotaOp(src="/s/d", ns_quota=5, ds_quota=-1),
    ops.SetNsQuotaOp(src="/s/d", ns_quota=5),
    ops.SetQuotaByStorageTypeOp(src="/s/d", storage_type=1, ds_quota=5),
    ops.SetStoragePolicyOp(path="/s/d", policy_id=2),
    ops.SetAclOp(src="/s/d", acl_entries=ACL),
    ops.SetXAttrOp(src="/s/d", xattrs=(XAttr(0, "x", b""),)),
]
FILE_CHANGES: list[EditOp] = [
    set_permissions("/s/d/f", 0o600),
    ops.SetOwnerOp(src="/s/d/f", username="u"),
    ops.SetReplicationOp(path="/s/d/f", replication=9),
    times("/s/d/f", mtime=7777),
    times("/s/d/f", atime=7777),
    ops.SetStoragePolicyOp(path="/s/d/f", policy_id=2),
    ops.SetAclOp(src="/s/d/f", acl_entries=ACL),
    ops.SetXAttrOp(src="/s/d/f", xattrs=(XAttr(0, "x", b""),)),
]


@pytest.mark.parametrize("op", DIRECTORY_CHANGES, ids=lambda op: op.name)
@layouts
def test_diff_of_a_changed_directory_has_its_former_attributes(tmp_path: Path, layout: int, op: EditOp) -> None:
    setting = Setting(tmp_path, layout)
    before = setting.builder.inodes["/s/d"].directory
    found = setting.merged(*SNAPSHOT, op)
    diff = found.directory_diff("/s/d", 0)
    assert (found.diff_ids("/s/d"), diff.childrenSize, diff.isSnapshotRoot, diff.name) == ([0], 2, False, b"d")
    assert (diff.createdListSize, diff.deletedINode, diff.deletedINodeRef) == (0, [], [])
    kept = diff.snapshotCopy
    assert (kept.modificationTime, kept.permission, kept.nsQuota, kept.dsQuota) == (
        *(before.modificationTime, before.permission, UINT64, UINT64),
    )
    assert not kept.HasField("acl")
    assert not kept.HasField("xAttrs")


@pytest.mark.parametrize("op", FILE_CHANGES, ids=lambda op: op.name)
@layouts
def test_diff_of_a_changed_file_has_its_former_attributes(tmp_path: Path, layout: int, op: EditOp) -> None:
    setting = Setting(tmp_path, layout)
    expected = pb.INodeFile()
    expected.CopyFrom(setting.builder.inodes["/s/d/f"].file)
    expected.ClearField("blocks")
    found = setting.merged(*SNAPSHOT, op)
    diff = found.file_diff("/s/d/f", 0)
    assert (found.diff_ids("/s/d/f"), diff.fileSize, diff.name, len(diff.blocks)) == ([0], WHOLE, b"f", 0)
    for field in ("replication", "modificationTime", "accessTime", "preferredBlockSize", "permission"):
        assert getattr(diff.snapshotCopy, field) == getattr(expected, field)
    assert diff.snapshotCopy.storagePolicyID == 0
    assert not diff.snapshotCopy.HasField("acl")
    assert not diff.snapshotCopy.HasField("xAttrs")


@layouts
def test_snapshot_copy_contains_features(tmp_path: Path, layout: int) -> None:
    quota = ops.SetQuotaOp(src="/s/d", ns_quota=5, ds_quota=6)
    changes: list[EditOp] = [
        ops.SetAclOp(src="/s/d", acl_entries=ACL),
        ops.SetXAttrOp(src="/s/d", xattrs=(XAttr(0, "x", b"1"),)),
    ]
    found = Setting(tmp_path, layout).merged(quota, *changes, *SNAPSHOT, ops.SetAclOp(src="/s/d", acl_entries=()))
    kept = found.directory_diff("/s/d", 0).snapshotCopy
    assert (kept.nsQuota, kept.dsQuota) == (5, 6)
    assert len(kept.acl.entries) == 2
    assert [xattr.value for xattr in kept.xAttrs.xAttrs] == [b"1"]
    assert not found.image["/s/d"].directory.HasField("acl")


UNCHANGING: list[EditOp] = [
    ops.SetQuotaOp(src="/s/d", ns_quota=-1, ds_quota=-1),
    ops.ClearNsQuotaOp(src="/s/d"),
    ops.SetQuotaByStorageTypeOp(src="/s/d", storage_type=1, ds_quota=-1),
    ops.RemoveXAttrOp(src="/s/d", xattrs=(XAttr(0, "none"),)),
    ops.RemoveXAttrOp(src="/s/d/f", xattrs=(XAttr(0, "none"),)),
    ops.SetAclOp(src="/s/d/f", acl_entries=()),
    ops.SetOwnerOp(src="/s/d"),
    times("/s/d/f"),
    delete("/s/none"),
    mkdir("/s/d/e", NEW),
    # outside of the snapshot
    set_permissions("/z", 0o700),
    set_permissions("/", 0o700),
]


@pytest.mark.parametrize("op", UNCHANGING, ids=lambda op: op.name)
@layouts
def test_operation_without_effect_on_the_snapshot_creates_no_diff(tmp_path: Path, layout: int, op: EditOp) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, op)
    assert {owner for owner, diffs in found.reader.diffs.items() if diffs} == {found.ids["/s"]}


def test_unsetting_an_absent_policy_creates_a_diff_in_hadoop_2_only(tmp_path: Path) -> None:
    """Hadoop 2.7 stores the unset policy as policy 0."""
    for layout, changed in ((HADOOP2, {"/s", "/s/d"}), (HADOOP3, {"/s"})):
        folder = tmp_path / str(layout)
        folder.mkdir()
        found = Setting(folder, layout).merged(*SNAPSHOT, ops.SetStoragePolicyOp(path="/s/d", policy_id=0))
        owners = {owner for owner, diffs in found.reader.diffs.items() if diffs}
        assert owners == {found.ids[path] for path in changed}


@layouts
def test_second_change_creates_no_further_diff(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(
        *SNAPSHOT, set_permissions("/s/d/f", 0o600), set_permissions("/s/d/f", 0o400), create("s1"), create("s2")
    )
    assert found.diff_ids("/s/d/f") == [0]
    assert copy_at(found, "/s/d/f").permission & 0o777 == 0o755  # type: ignore[union-attr]


@layouts
def test_inodes_newer_than_the_snapshot_have_no_diff(tmp_path: Path, layout: int) -> None:
    changes = [add("/s/n", NEW), close("/s/n"), set_permissions("/s/n", 0o600), mkdir("/s/m", NEW + 1)]
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, *changes, mkdir("/s/m/k", NEW + 2), delete("/s/n"))
    assert {owner for owner, diffs in found.reader.diffs.items() if diffs} == {found.ids["/s"]}
    assert found.created("/s", 0) == ["m"]
    assert NEW not in found.image.inodes


@layouts
@pytest.mark.parametrize(("skips", "changes", "expected"), [(False, 0, [0]), (True, 0, []), (True, 8888, [0])])
def test_access_time_change_creates_no_diff_if_configured(
    tmp_path: Path, layout: int, skips: bool, changes: int, expected: list[int]
) -> None:
    rules = ReplayRules(skip_access_time_changes=skips)
    found = Setting(tmp_path, layout, rules).merged(*SNAPSHOT, times("/s/d/f", changes or -1, 7777))
    assert found.diff_ids("/s/d/f") == expected
    assert found.image["/s/d/f"].file.accessTime == 7777


# ---- children ----------------------------------------------------------------------------------------------


@layouts
def test_new_child_creates_a_diff_without_a_copy(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, mkdir("/s/d/ü", NEW, 9000), mkdir("/s/d/a", NEW + 1, 9001))
    diff = found.directory_diff("/s/d", 0)
    assert (found.created("/s/d", 0), diff.childrenSize, diff.HasField("snapshotCopy")) == (["ü", "a"], 2, False)
    assert found.image.mtime("/s/d") == 9001


@layouts
def test_copy_made_after_new_children_has_their_time(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(
        *SNAPSHOT, mkdir("/s/d/n", NEW, 9000), set_permissions("/s/d", 0o700), mkdir("/s/d/m", NEW + 1, 9500)
    )
    assert copy_at(found, "/s/d").modificationTime == 9000  # type: ignore[union-attr]


@layouts
def test_deleted_child_is_in_the_deleted_list(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, delete("/s/d/f", 9000))
    diff = found.directory_diff("/s/d", 0)
    assert found.deleted("/s/d", 0) == {"f": found.ids["/s/d/f"]}
    assert (diff.childrenSize, diff.snapshotCopy.modificationTime) == (2, 1000)
    assert found.image.mtime("/s/d") == 9000
    # The file also has a diff with its former state.
    assert found.file_diff("/s/d/f", 0).fileSize == WHOLE


@layouts
def test_deleted_directory_is_kept_with_its_subtree(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, mkdir("/s/d/n", NEW), delete("/s/d"))
    assert found.deleted("/s", 0) == {"d": found.ids["/s/d"]}
    assert set(found.at("s0")) == {"/", "/d", "/d/f", "/d/e", "/d/e/g", "/f"}
    assert NEW not in found.image.inodes
    assert found.created("/s/d", 0) == []


@layouts
def test_a_replaced_child_is_in_both_lists(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, add("/s/f", NEW, overwrite=True), close("/s/f"))
    assert (found.created("/s", 0), found.deleted("/s", 0)) == (["f"], {"f": found.ids["/s/f"]})
    assert found.at("s0")["/f"] == found.ids["/s/f"]


@layouts
@pytest.mark.parametrize("healing", [HealingMode.HEAL, HealingMode.AS_HADOOP])
def test_record_of_a_deleted_symlink_is_kept_for_its_snapshot(
    tmp_path: Path, layout: int, healing: HealingMode
) -> None:
    """Hadoop copies the link before the deletion, so the link itself does not belong to the snapshot, and Hadoop
    forgets its inode.
    """
    setting = Setting(tmp_path, layout, ReplayRules(healing=healing))
    link = setting.builder.symlink("/s/l", "t").id
    found = setting.merged(*SNAPSHOT, delete("/s/l"), whole=healing is HealingMode.HEAL)
    assert (link in found.image.inodes) == (healing is HealingMode.HEAL)
    diff = found.directory_diff("/s", 0)
    assert (diff.createdListSize, diff.deletedINode) == (0, [link])


LEFT_BEHIND = [
    *SNAPSHOT,
    add("/s/n", NEW),
    close("/s/n"),
    ops.ConcatDeleteOp(trg="/s/f", srcs=("/s/n",), timestamp=LATER),
]
"""CONCAT of a file created after the snapshot: Hadoop 2.7 keeps the file's name in the created list, and fails later.
"""


@pytest.mark.parametrize(
    "trips",
    [
        [mkdir("/s/n", NEW + 1)],
        [add("/s/n", NEW + 1)],
        [rename("/s/d/f", "/s/n")],
        [create("s1"), mkdir("/s/n", NEW + 1), remove("s1")],
    ],
    ids=["mkdir", "add", "rename", "delete-snapshot"],
)
def test_name_of_a_concat_source_is_reused_by_another_inode(tmp_path: Path, trips: list[EditOp]) -> None:
    found = Setting(tmp_path, HADOOP2, HEAL).merged(*LEFT_BEHIND, *trips)
    assert found.created("/s", 0) == ["n"]
    assert "/n" not in found.at("s0")
    assert found.present()["/s/n"] in (NEW + 1, found.ids["/s/d/f"])
    check_stops(tmp_path, LEFT_BEHIND, trips)
    Setting(tmp_path / "3", HADOOP3).merged(*LEFT_BEHIND, *trips)


def test_directory_named_like_a_concat_source_is_renamed_out_of_a_snapshot(tmp_path: Path) -> None:
    """During such a rename, Hadoop 2.7 computes quota usage, and stops. Directories whose created lists are correct may
    leave the snapshot.
    """
    moved = [add("/s/d/n", NEW), close("/s/d/n")]
    concatenated = [ops.ConcatDeleteOp(trg="/s/d/f", srcs=("/s/d/n",), timestamp=LATER)]
    check_stops(tmp_path, [*SNAPSHOT, *moved, *concatenated], [rename("/s/d", "/z/d"), mkdir("/z/later", NEW + 1)], -2)
    given = [*SNAPSHOT, *moved, *concatenated, rename("/s/d", "/z/d")]
    assert set(Setting(tmp_path, HADOOP2, HEAL).merged(*given).at("s0")) == {"/", "/d", "/d/f", "/d/e", "/d/e/g", "/f"}
    check_stops(tmp_path, [*LEFT_BEHIND, rename("/s/d", "/z/d")], [mkdir("/s/n", NEW + 1)])


def test_inconsistency_found_at_the_end_names_no_operation(tmp_path: Path) -> None:
    """The check follows the last transaction, whether a kernel or a plain function applied it."""
    given = [*SNAPSHOT, rename("/s/d", "/z/d"), add("/z/d/n", NEW), close("/z/d/n")]
    given.append(ops.ConcatDeleteOp(trg="/z/d/f", srcs=("/z/d/n",), timestamp=LATER))
    for later in ([], [mkdir("/z/a", NEW + 1), mkdir("/z/b", NEW + 2)]):
        setting = Setting(tmp_path, HADOOP2, ReplayRules(healing=HealingMode.STRICT))
        with pytest.raises(ReplayError, match=r"^end of replay at txid \d+: the snapshot diffs of /z/d are") as stopped:
            setting.merged(*given, *later)
        assert stopped.value.txid == BASE_TXID + len(given) + len(later)


def check_stops(folder: Path, before: list[EditOp], trips: list[EditOp], at: int = -1) -> None:
    """Check that replay with the rules of a Hadoop 2.7 NameNode applies `before` and stops at the operation `at`."""
    given = numbered([*before, *trips], BASE_TXID)
    setting = Setting(folder, HADOOP2, ReplayRules(healing=HealingMode.AS_HADOOP))
    setting.merged(*before, whole=False)
    with pytest.raises(ReplayError, match="inconsistent with its children at b'n'") as stopped:
        setting.merged(*given)
    assert stopped.value.txid == given[at].txid


# ---- length and blocks -------------------------------------------------------------------------------------


def append(path: str, *, new_block: bool) -> EditOp:
    return ops.AppendOp(path=path, client_name="c", client_machine="m", new_block=new_block)


def truncate(path: str, length: int, block: Block | None = None) -> EditOp:
    return ops.TruncateOp(
        src=path, client_name="c", client_machine="m", new_length=length, timestamp=LATER, truncate_block=block
    )


def blocks_of(diff: pb.FileDiff) -> list[tuple[int, int, int]]:
    return [(block.blockId, block.numBytes, block.genStamp) for block in diff.blocks]


FIRST = Block(1, 128, 1001)


@layouts
def test_append_records_only_the_length(tmp_path: Path, layout: int) -> None:
    grown = close("/s/f", blocks=(FIRST, Block(2, 90, 1005)))
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, append("/s/f", new_block=False), grown)
    diff = found.file_diff("/s/f", 0)
    assert (diff.fileSize, blocks_of(diff), diff.HasField("snapshotCopy")) == (WHOLE, [], True)
    assert found.image.blocks("/s/f") == [(1, 128, 1001), (2, 90, 1005)]


@layouts
def test_truncate_at_a_boundary_records_the_blocks(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, truncate("/s/f", 128))
    diff = found.file_diff("/s/f", 0)
    assert (diff.fileSize, blocks_of(diff)) == (WHOLE, BLOCKS)
    assert found.image.blocks("/s/f") == BLOCKS[:1]
    assert not found.image["/s/f"].file.HasField("fileUC")


@pytest.mark.parametrize(("block", "size"), [(9, 0), (2, 50)], ids=["copy", "in place"])
@layouts
def test_truncate_leaves_the_old_block_to_the_snapshot(tmp_path: Path, layout: int, block: int, size: int) -> None:
    """A running Hadoop 2.7 NameNode can lose a snapshot's diff. It then truncates in place, but its replay copies the
    block.
    """
    cut = truncate("/s/f", 140, Block(block, size, 1007))
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, cut)
    assert blocks_of(found.file_diff("/s/f", 0)) == BLOCKS
    assert found.image.blocks("/s/f") == [(1, 128, 1001), (block, 12, 1007)]
    closed = Setting(tmp_path, layout).merged(*SNAPSHOT, cut, close("/s/f", blocks=(FIRST, Block(block, 12, 1008))))
    assert blocks_of(closed.file_diff("/s/f", 0)) == BLOCKS
    assert closed.image.blocks("/s/f") == [(1, 128, 1001), (block, 12, 1008)]


@layouts
def test_block_added_after_the_snapshot_is_truncated_in_place(tmp_path: Path, layout: int) -> None:
    added = [
        append("/s/f", new_block=True),
        ops.AddBlockOp(path="/s/f", blocks=(FIRST, Block(3, 0, 1003))),
        close("/s/f", blocks=(FIRST, Block(3, 60, 1003))),
    ]
    cut = truncate("/s/f", 140, Block(3, 60, 1007))
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, truncate("/s/f", 128), *added, cut)
    assert blocks_of(found.file_diff("/s/f", 0)) == BLOCKS
    # until the recovery, the last block keeps its length
    assert found.image.blocks("/s/f") == [(1, 128, 1001), (3, 60, 1003)]


@layouts
def test_diff_keeps_the_first_block_list(tmp_path: Path, layout: int) -> None:
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, truncate("/s/f", 128), truncate("/s/f", 0))
    assert blocks_of(found.file_diff("/s/f", 0)) == BLOCKS
    assert found.image.blocks("/s/f") == []


@layouts
def test_diff_keeps_only_blocks_of_the_snapshot(tmp_path: Path, layout: int) -> None:
    """The append already makes the diff, before the truncation."""
    longer = [
        append("/s/f", new_block=True),
        ops.AddBlockOp(path="/s/f", blocks=(Block(2, 50, 1001), Block(3, 0, 1002))),
    ]
    closed = close("/s/f", blocks=(FIRST, Block(2, 50, 1001), Block(3, 60, 1002)))
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, *longer, closed, truncate("/s/f", 128))
    diff = found.file_diff("/s/f", 0)
    assert (diff.fileSize, blocks_of(diff)) == (WHOLE, BLOCKS)


def test_reopened_block_is_shared_with_the_diff_in_hadoop_3(tmp_path: Path) -> None:
    """In Hadoop 2.7, a block under construction is another object, so the diff keeps the former block."""
    changes = [
        *(*SNAPSHOT, truncate("/s/f", 178), append("/s/f", new_block=False)),
        close("/s/f", blocks=(FIRST, Block(2, 90, 1005))),
    ]
    blocks = {layout: blocks_of(Setting(tmp_path, layout).merged(*changes).file_diff("/s/f", 0)) for layout in LAYOUTS}
    assert blocks[HADOOP3] == [(1, 128, 1001), (2, 90, 1005)]
    assert blocks[HADOOP2] == BLOCKS


@layouts
def test_loaded_block_is_shared_with_the_diff(tmp_path: Path, layout: int) -> None:
    """A NameNode that loads the image finds the diff's block among the file's blocks."""
    setting = Setting(tmp_path, layout)
    opened = [*SNAPSHOT, truncate("/s/f", 178), append("/s/f", new_block=False)]
    first = setting.merged(*opened)
    closed = first.again(tmp_path / "second", close("/s/f", blocks=(FIRST, Block(2, 90, 1005))))
    assert blocks_of(closed.file_diff("/s/f", 0))[0] == (1, 128, 1001)
    assert blocks_of(closed.file_diff("/s/f", 0))[1] in ((2, 90, 1005), (2, 50, 1001))


@layouts
def test_a_deleted_file_keeps_the_blocks_that_a_snapshot_needs(tmp_path: Path, layout: int) -> None:
    longer = [
        append("/s/f", new_block=True),
        ops.AddBlockOp(path="/s/f", blocks=(Block(2, 50, 1001), Block(3, 0, 1002))),
    ]
    closed = close("/s/f", blocks=(FIRST, Block(2, 50, 1001), Block(3, 60, 1002)))
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, *longer, closed, delete("/s/f"))
    inode = found.image.inodes[found.ids["/s/f"]]
    assert [block.blockId for block in inode.file.blocks] == [1, 2]
    with_list = Setting(tmp_path, layout).merged(
        *SNAPSHOT,
        truncate("/s/f", 140, Block(9, 0, 1007)),
        close("/s/f", blocks=(FIRST, Block(9, 12, 1007))),
        delete("/s/f"),
    )
    inode = with_list.image.inodes[with_list.ids["/s/f"]]
    assert [block.blockId for block in inode.file.blocks] == [1]
    assert blocks_of(with_list.file_diff("/s/f", 0)) == BLOCKS


@layouts
def test_an_earlier_diff_adopts_the_blocks_of_a_deleted_one(tmp_path: Path, layout: int) -> None:
    changes = [
        *(*SNAPSHOT, append("/s/f", new_block=True)),
        ops.AddBlockOp(path="/s/f", blocks=(Block(2, 50, 1001), Block(3, 0, 1002))),
        close("/s/f", blocks=(FIRST, Block(2, 50, 1001), Block(3, 60, 1002))),
        *(create("s1"), truncate("/s/f", 0)),
    ]
    both = Setting(tmp_path, layout).merged(*changes)
    assert [blocks_of(both.file_diff("/s/f", number)) for number in (0, 1)] == [[], [*BLOCKS, (3, 60, 1002)]]
    adopted = Setting(tmp_path, layout).merged(*changes, remove("s1"))
    assert adopted.diff_ids("/s/f") == [0]
    assert blocks_of(adopted.file_diff("/s/f", 0)) == BLOCKS
    last = Setting(tmp_path, layout).merged(*changes, remove("s0"))
    assert blocks_of(last.file_diff("/s/f", 1)) == [*BLOCKS, (3, 60, 1002)]


@layouts
def test_a_deleted_file_loses_the_blocks_of_a_deleted_snapshot(tmp_path: Path, layout: int) -> None:
    changes = [
        *(*SNAPSHOT, append("/s/f", new_block=True)),
        ops.AddBlockOp(path="/s/f", blocks=(Block(2, 50, 1001), Block(3, 0, 1002))),
        close("/s/f", blocks=(FIRST, Block(2, 50, 1001), Block(3, 60, 1002))),
        *(create("s1"), delete("/s/f")),
    ]
    found = Setting(tmp_path, layout).merged(*changes)
    file = found.ids["/s/f"]
    assert [block.blockId for block in found.image.inodes[file].file.blocks] == [1, 2, 3]
    found = Setting(tmp_path, layout).merged(*changes, remove("s1"))
    assert [block.blockId for block in found.image.inodes[file].file.blocks] == [1, 2]
    found = Setting(tmp_path, layout).merged(*changes, remove("s1"), remove("s0"))
    assert file not in found.image.inodes


# ---- concat ------------------------------------------------------------------------------------------------


def test_image_with_snapshots_of_removed_inodes_is_healed_at_the_next_save(tmp_path: Path) -> None:
    """The next save heals the namespace."""
    joined = ops.ConcatDeleteOp(trg="/s/f", srcs=("/s/d/f",), timestamp=LATER)
    setting = Setting(tmp_path, HADOOP3)
    with ImageFile.open(setting.builder.save(tmp_path)) as image:
        loaded = load_image(image)
        replay(loaded.namespace, numbered([*SNAPSHOT, joined], BASE_TXID))
        loaded.namespace.recorder.leads_to_removed = False
        with pytest.raises(InconsistentNamespaceError, match=f"inode {setting.ids['/s/d/f']} first"):
            write_verified(loaded.namespace, loaded.write, bytearray().extend, image.path)
        write_verified(loaded.namespace, loaded.write, bytearray().extend, image.path)
        assert [healed.inode for healed in loaded.namespace.healing_log] == [setting.ids["/s/d/f"]]


@layouts
def test_created_name_can_be_reused(tmp_path: Path, layout: int) -> None:
    changes = [mkdir("/s/n", NEW), rename("/s/n", "/s/m"), mkdir("/s/n", NEW + 1), delete("/s/m")]
    found = Setting(tmp_path, layout).merged(*SNAPSHOT, *changes)
    assert (found.created("/s", 0), found.reader.references) == (["n"], [])
