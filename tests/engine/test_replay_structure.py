"""Replay of MKDIR, SYMLINK, DELETE, RENAME_OLD and RENAME onto small images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ReplayError
from image_format.errors import RecordError
from image_format.proto import fsimage_pb2 as pb
from journal import ops
from tests.engine.image_builder import (
    HADOOP2,
    HADOOP3,
    LAYOUTS,
    OWNER,
    ROOT,
    ImageBuilder,
    delimited,
    merge_bytes,
    merged,
)
from tests.engine.op_makers import LATER, add, close, delete, mkdir, rename, rename_old, set_permissions, times

NEW = 20000

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def tree(layout: int = HADOOP2) -> ImageBuilder:
    """Return an empty directory z and a directory a with g and with the directory b, which contains f."""
    image = ImageBuilder(layout)
    for path in ("/a", "/a/b"):
        image.directory(path)
    image.file("/a/b/f", blocks=[(1, 10, 1001)])
    image.file("/a/g")
    image.directory("/z")
    return image


@layouts
def test_mkdir_creates_a_directory_and_updates_the_parents_time(tmp_path: Path, layout: int) -> None:
    image = merged(tree(layout).save(tmp_path), mkdir("/z/new", NEW), mkdir("/z/old", NEW + 1, 10))
    made = image["/z/new"]
    assert (made.id, made.directory.modificationTime) == (NEW, LATER)
    assert made.directory.nsQuota == made.directory.dsQuota == (1 << 64) - 1
    assert image.status(made.directory.permission) == OWNER
    assert image.mtime("/z") == LATER
    assert image.header.lastInodeId == NEW + 1
    assert image.info.transactionId == 102


def test_older_child_does_not_change_the_parents_time(tmp_path: Path) -> None:
    assert merged(tree().save(tmp_path), mkdir("/z/new", NEW, 999)).mtime("/z") == 1000


def test_mkdir_of_an_existing_name_changes_nothing(tmp_path: Path) -> None:
    image = merged(tree().save(tmp_path), mkdir("/a/g", NEW), mkdir("/a/b", NEW + 1))
    assert image["/a/g"].HasField("file")
    assert image.header.lastInodeId == NEW + 1
    assert len(image.inodes) == 6


@pytest.mark.parametrize(
    ("op", "problem"),
    [
        (mkdir("/none/d", NEW), "parent"),
        (mkdir("/a/g/d", NEW), "parent"),
        (mkdir("/z/d", 0), "reserved"),
        (mkdir("/z/d", ROOT), "reserved"),
        (mkdir("/z/d", ROOT + 1), "in use"),
        (mkdir("relative/d", NEW), "absolute"),
        (rename("/none", "/z/n"), "does not exist"),
        (rename("/", "/z/n"), "root"),
        (rename("/a", "/a/b/c"), "inside"),
        (rename("/a", "/a"), "same"),
        (rename("/a/g", "/none/x"), "parent"),
        (rename("/a/g", "/a/b/f/x"), "parent"),
        (rename("/a/g", "/a/b/f"), "exists"),
        (rename("/a/g", "/z", overwrite=True), "directories"),
        (rename("/z", "/a/b", overwrite=True), "not empty"),
        (ops.SymlinkOp(path="/a/g", inode_id=NEW, target="t", mtime=1, atime=1, permissions=OWNER), "not a directory"),
    ],
)
def test_invalid_operation_is_refused_with_name_and_txid(tmp_path: Path, op: ops.EditOp, problem: str) -> None:
    with pytest.raises(ReplayError, match=f"{op.name} at txid 101.*{problem}") as caught:
        merged(tree().save(tmp_path), op)
    assert caught.value.exit_code == 4
    assert caught.value.hint


def test_id_of_a_deleted_inode_is_not_reused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="in use"):
        merged(tree().save(tmp_path), delete("/z"), mkdir("/z", ROOT + 5))


@layouts
def test_symlinks_are_created_and_renamed(tmp_path: Path, layout: int) -> None:
    op = ops.SymlinkOp(path="/z/l", inode_id=NEW, target="../a/ü", mtime=7000, atime=8000, permissions=OWNER)
    builder = tree(layout)
    builder.symlink("/z/old", "nowhere")
    image = merged(builder.save(tmp_path), op, rename("/z/old", "/z/renamed"))
    link = image["/z/l"].symlink
    assert link.target.decode() == "../a/ü"
    assert (link.modificationTime, link.accessTime) == (7000, 8000)
    assert image["/z/renamed"].symlink.target == b"nowhere"
    assert image.mtime("/z") == 7000


# ---- delete ------------------------------------------------------------------------------------------------


@layouts
@pytest.mark.parametrize("path", ["/a", "/a/b", "/a/b/f", "/z"])
@pytest.mark.parametrize("touched", [False, True])
def test_delete_removes_the_whole_tree(tmp_path: Path, layout: int, path: str, touched: bool) -> None:
    builder = tree(layout)
    gone = {p for p in builder.inodes if p == path or p.startswith(path + "/")}
    touch = [set_permissions(p, 0o700) for p in sorted(gone)] if touched else []
    image = merged(builder.save(tmp_path), *touch, delete(path))
    assert set(image.paths) == set(builder.inodes) - gone
    assert image.mtime(path.rpartition("/")[0] or "/") == LATER
    assert set(image.children) <= set(image.inodes)


@pytest.mark.parametrize("path", ["/", "/none", "/none/deeper", "/a/g/x", "/z/none"])
def test_delete_of_a_missing_path_changes_nothing(tmp_path: Path, path: str) -> None:
    builder = tree()
    image = merged(builder.save(tmp_path), delete(path))
    assert set(image.paths) == set(builder.inodes)
    assert image.mtime("/") == 1000


def test_inode_moved_out_survives_deletion_of_its_old_directory(tmp_path: Path) -> None:
    image = merged(tree().save(tmp_path), rename("/a/b", "/z/b"), delete("/a"))
    assert set(image.paths) == {"/", "/z", "/z/b", "/z/b/f"}


def test_inode_moved_in_is_deleted_with_its_new_directory(tmp_path: Path) -> None:
    image = merged(tree().save(tmp_path), rename("/a/b", "/z/b"), delete("/z"))
    assert set(image.paths) == {"/", "/a", "/a/g"}


def test_leases_of_unread_files_moved_in_are_deleted_with_the_directory(tmp_path: Path) -> None:
    builder = tree()
    builder.directory("/a/b/c")
    builder.file("/a/b/c/open", open_by="client")
    image = merged(builder.save(tmp_path), rename("/a/b", "/z/b"), delete("/z"))
    assert image.leases() == {}
    assert image.sections["FILES_UNDERCONSTRUCTION"] == b""


def test_deleted_name_can_be_created_again(tmp_path: Path) -> None:
    image = merged(
        tree().save(tmp_path),
        delete("/a/b"),
        mkdir("/a/b", NEW),
        add("/a/b/f", NEW + 1),
        close("/a/b/f"),
        delete("/a/g"),
    )
    assert image["/a/b"].id == NEW
    assert image["/a/b/f"].id == NEW + 1
    assert "/a/g" not in image


def test_directory_that_replaces_a_file_is_found(tmp_path: Path) -> None:
    """The lookup below the file must not be cached."""
    image = merged(
        tree().save(tmp_path), delete("/a/g/none"), delete("/a/g"), mkdir("/a/g", NEW), mkdir("/a/g/d", NEW + 1)
    )
    assert image["/a/g/d"].id == NEW + 1


def test_created_and_deleted_tree_changes_only_counters_and_times(tmp_path: Path) -> None:
    image = merged(tree().save(tmp_path), mkdir("/z/d", NEW), add("/z/d/f", NEW + 1, 9000), delete("/z/d"))
    assert "/z/d" not in image
    assert image.children.get(image["/z"].id) is None
    assert image.header.lastInodeId == NEW + 1
    assert image.mtime("/z") == LATER


def test_deletion_of_a_tree_with_many_children(tmp_path: Path) -> None:
    builder = ImageBuilder()
    builder.directory("/w")
    for d in range(30):
        builder.directory(f"/w/d{d}")
        for f in range(20):
            builder.file(f"/w/d{d}/f{f}")
    builder.directory("/w/d3/deep")
    builder.file("/w/d3/deep/f")
    image = merged(builder.save(tmp_path), delete("/w/d7"), set_permissions("/w/d3/f1", 0o600), delete("/w/d3"))
    assert len(image.inodes) == 2 + 28 * 21
    image = merged(builder.save(tmp_path), set_permissions("/w/d3/f1", 0o600), delete("/w"))
    assert set(image.paths) == {"/"}


# ---- rename ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [rename, rename_old])
@layouts
def test_directory_is_renamed_with_its_subtree(
    tmp_path: Path, layout: int, make: Callable[[str, str], ops.EditOp]
) -> None:
    image = merged(tree(layout).save(tmp_path), make("/a/b", "/z/new"))
    assert image["/z/new/f"].id == ROOT + 3
    assert image["/z/new"].name == b"new"
    assert image.mtime("/a") == image.mtime("/z") == LATER
    assert image.mtime("/z/new") == 1000


@pytest.mark.parametrize("make", [rename, rename_old])
def test_rename_sets_the_target_time_to_a_later_child_time(
    tmp_path: Path, make: Callable[[str, str], ops.EditOp]
) -> None:
    image = merged(tree().save(tmp_path), times("/a/g", mtime=9000), make("/a/g", "/z/g"))
    assert image.mtime("/z") == 9000
    assert image.mtime("/a") == LATER


def test_move_under_the_same_name_keeps_the_record(tmp_path: Path) -> None:
    source = tree().save(tmp_path)
    before = merged(source)
    image = merged(source, rename("/a/b", "/z/b"))
    assert image["/z/b"] == before["/a/b"]


def test_rename_old_into_a_directory(tmp_path: Path) -> None:
    image = merged(tree().save(tmp_path), rename_old("/a/g", "/z"), rename_old("/a/b", "/z"))
    assert {"/z/g", "/z/b/f"} <= set(image.paths)


@layouts
def test_rename_old_into_the_root(tmp_path: Path, layout: int) -> None:
    """Hadoop 2.7 appends a second slash to the root's path, and does not find the parent."""
    image = merged(tree(layout).save(tmp_path), rename_old("/a/b", "/"))
    assert ("/b/f" in image) == (layout == HADOOP3)


@pytest.mark.parametrize(
    ("src", "dst"),
    [
        ("/none", "/z/n"),
        ("/", "/z"),
        ("/a/g", "/a/b/f"),
        ("/a/g", "/a/g"),
        ("/a", "/a"),
        ("/a/g", "/none/g"),
        ("/a/g", "/a/b/f/x/y"),
        ("/a/g", "/a/g/x"),
        ("/a", "/a/b"),
        ("/a", "/a/b/c"),
        ("/a/b", "/a"),
    ],
)
def test_failed_rename_old_changes_nothing(tmp_path: Path, src: str, dst: str) -> None:
    source = tree().save(tmp_path)
    before = merged(source, times("/z", mtime=1000))
    image = merged(source, rename_old(src, dst))
    assert image.sections["INODE"] == before.sections["INODE"]
    assert image.children == before.children


@layouts
def test_rename_with_overwrite_replaces_the_target(tmp_path: Path, layout: int) -> None:
    builder = tree(layout)
    builder.file("/z2", open_by="client")
    image = merged(builder.save(tmp_path), rename("/a/g", "/z2", overwrite=True), rename("/a/b", "/z", overwrite=True))
    assert set(image.paths) == {"/", "/a", "/z", "/z/f", "/z2"}
    assert (image["/z"].id, image["/z2"].id) == (ROOT + 2, ROOT + 4)
    assert image.leases() == {}


def test_open_files_are_listed_under_their_new_path(tmp_path: Path) -> None:
    builder = tree()
    builder.file("/a/b/open", open_by="client")
    image = merged(builder.save(tmp_path), rename("/a/b", "/z/ü"), add("/z/ü/more", NEW), rename("/z", "/y"))
    assert image.leases() == {ROOT + 6: "/y/ü/open", NEW: "/y/ü/more"}


def test_file_renamed_back_to_its_old_path_leaves_the_image_unchanged(tmp_path: Path) -> None:
    source = tree().save(tmp_path)
    image = merged(source, rename("/a/g", "/z/g", 1), rename("/z/g", "/h", 1), rename("/h", "/a/g", 1))
    assert image.sections["INODE_DIR"] == merged(source).sections["INODE_DIR"]
    assert image.inodes == merged(source).inodes


# ---- odd images --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [HADOOP2, HADOOP3])
def test_unordered_records_and_unsorted_directories(tmp_path: Path, layout: int) -> None:
    builder = tree(layout)
    for name in ("é", "A", "zz", "中", "k", "kk"):
        builder.file(f"/a/b/{name}")
    builder.order = lambda inode: inode.id * 7919 % 104729
    builder.unsorted = True
    builder.directory("/a/b/.hidden")
    image = merged(
        builder.save(tmp_path),
        rename("/a/b/zz", "/a/b/aa"),
        delete("/a/b/k"),
        mkdir("/a/b/k2", NEW),
        set_permissions("/a/b/中", 0o600),
        delete("/z"),
    )
    names = {path.rpartition("/")[2] for path in image.paths if path.startswith("/a/b/")}
    assert names == {"f", "é", "A", "aa", "中", "kk", "k2", ".hidden"}
    assert image["/a/b"].id not in image.unsorted
    assert image["/a/b/中"].file.permission & 0xFFFF == 0o600


def test_missing_section_is_added_only_when_it_has_content(tmp_path: Path) -> None:
    absent = ("FILES_UNDERCONSTRUCTION", "SNAPSHOT", "SNAPSHOT_DIFF", "SECRET_MANAGER", "CACHE_MANAGER")
    source = ImageBuilder().save(tmp_path, without=absent)
    key = ops.DelegationKey(key_id=1, expiry_date=1, key=b"k")
    image = merged(source, add("/f", NEW), ops.UpdateMasterKeyOp(key=key), ops.AllowSnapshotOp(snapshot_root="/"))
    assert image["/f"].id == NEW
    assert image.leases() == {NEW: "/f"}
    assert image.sections["SECRET_MANAGER"]
    assert image.sections["SNAPSHOT"]
    assert "CACHE_MANAGER" not in image.sections


def test_surrogates_in_names_become_question_marks(tmp_path: Path) -> None:
    image = merged(tree().save(tmp_path), mkdir("/z/\ud800x", NEW), add("/z/😀", NEW + 1, client_name="c\udfff"))
    assert {"/z/?x", "/z/😀"} <= set(image.paths)
    assert image["/z/😀"].file.fileUC.clientName == "c?"


def test_an_inode_in_two_directories_is_refused(tmp_path: Path) -> None:
    """Deleting one directory would leave the other directory with a child that does not exist."""
    builder = ImageBuilder(HADOOP2)
    builder.directory("/a")
    other = builder.directory("/z")
    file = builder.file("/a/f")
    entry = delimited([pb.DirEntry(parent=other.id, children=[file.id])])
    builder.sections["INODE_DIR"] = builder.all_sections()["INODE_DIR"] + entry
    with pytest.raises(RecordError, match="an inode is in two places"):
        merge_bytes(builder.save(tmp_path), [delete("/a")])
