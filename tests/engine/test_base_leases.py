"""Leases of the base image, and open files that replay does not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.loaded_image import load_image
from engine.namespace.op_paths import has_odd_slashes
from engine.replay.replayer import PLAIN
from image_format.inode_table import NO_ROW
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from journal import ops
from journal.ops import EditOp
from tests.engine.image_builder import HADOOP2, LAYOUTS, delimited, merged
from tests.engine.op_makers import add, close, delete, mkdir, rename
from tests.engine.replay_scenes import base, needs_kernels
from tests.engine.snapshot_support import NEW, Setting, allow, create

ODD_PATHS = ("", "/", "//old/f0", "/old/f0/", "old/f0", "/nowhere/f", "/old/open-1/f", "/old/nothing")


@needs_kernels
@pytest.mark.parameters(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_base_leases_equal_those_of_single_path_lookups(
    tmp_path: Path, layout: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = base(layout)
    builder.directory("/old/a/b")
    builder.directory("/old/ü文")
    folders = "/old", "/old/a/b", "/old/ü文"
    for number in range(5000):
        name = f"open-{number}" if number % 5 else f"😀{number}"
        builder.file(f"{folders[number % 3]}/{name}", open_by=f"client-{number}")
    ids = {path: inode.id for path, inode in builder.inodes.items()}
    leased = [(path, inode.id) for path, inode in builder.inodes.items() if inode.file.HasField("fileUC")]
    # paths that do not exist, lead to another file, or to a file that is not open
    leased += [(path, 900_000 + number) for number, path in enumerate(ODD_PATHS)]
    leased += [("/old/a/f0", ids["/old/a/f1"]), ("/old/a/f2", ids["/old/a/f2"]), ("/old/a/b/open-1", ids["/old/a/f3"])]
    entries = [pb.FileUnderConstructionEntry(inodeId=inode_id, fullPath=path) for path, inode_id in leased]
    builder.sections["FILES_UNDERCONSTRUCTION"] = delimited(entries)
    found = []
    for plain in ("", "1"):
        monkeypatch.setenv(PLAIN, plain)
        with ImageFile.open(builder.save(tmp_path)) as image:
            namespace = load_image(image).namespace
            assert (namespace.compiled is None) == bool(plain)
            leases, table = namespace.leases, namespace.table
            rows = sorted(leases.rows_below(namespace.tree.paths.find("/")))
            paths = {int(table.id[row]): namespace.tree.path(row) for row in rows}
            unresolved = sorted(leases.unresolved())
            found.append((paths, unresolved, leases.plain, namespace.tree.paths.find("/old/a/b/open-1") in rows))
    assert found[0] == found[1]
    # Hadoop 3 gives leases to the open files alone, regardless of their paths
    assert len(found[0][0]) == (5001 if layout == HADOOP2 else 5000)
    resolved_late = [path for path in ODD_PATHS if has_odd_slashes(path)]
    assert len(found[0][1]) == (len(ODD_PATHS) - len(resolved_late) + 2 if layout == HADOOP2 else 0)


IN_SNAPSHOTS = [
    ops.AllowSnapshotOp(snapshot_root="/old"),
    ops.CreateSnapshotOp(snapshot_root="/old", snapshot_name="s", mtime=5),
]
UNREAD = {
    "untouched": ([mkdir("/new", 30_000)], {"/old/o", "/old/b/o", "/old/b/c/o", "/old/b/c/ö文😀"}),
    "closed": ([close("/old/b/o")], {"/old/o", "/old/b/c/o", "/old/b/c/ö文😀"}),
    "deleted": ([delete("/old/b/c/o")], {"/old/o", "/old/b/o", "/old/b/c/ö文😀"}),
    "below a deleted directory": ([delete("/old/b")], {"/old/o"}),
    "below a moved directory": ([rename("/old/b", "/n")], {"/old/o", "/n/o", "/n/c/o", "/n/c/ö文😀"}),
    "below one with another name": ([rename("/old/b/c", "/ü")], {"/old/o", "/old/b/o", "/ü/o", "/ü/ö文😀"}),
    "moved": ([rename("/old/b/c/o", "/old/n")], {"/old/o", "/old/b/o", "/old/n", "/old/b/c/ö文😀"}),
    "in a snapshot": (
        [*IN_SNAPSHOTS, rename("/old/b", "/old/n")],
        {"/old/o", "/old/n/o", "/old/n/c/o", "/old/n/c/ö文😀"},
    ),
    "snapshots of what moved": (
        [rename("/old/b", "/old/n"), *IN_SNAPSHOTS, delete("/old/n/o")],
        {"/old/o", "/old/n/c/o", "/old/n/c/ö文😀"},
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("steps", "leased"), UNREAD.values(), ids=UNREAD)
def test_leases_of_unread_open_files_after_edits(
    tmp_path: Path, layout: int, steps: list[EditOp], leased: set[str]
) -> None:
    builder = base(layout)
    builder.directory("/old/b")
    builder.directory("/old/b/c")
    for path in ("/old/o", "/old/b/o", "/old/b/c/o", "/old/b/c/ö文😀"):
        builder.file(path, open_by="client")
    assert set(merged(builder.save(tmp_path), *steps).leases().values()) == leased


@needs_kernels
@pytest.mark.parametrize("layout", LAYOUTS)
def test_open_file_is_loaded_on_first_lookup(tmp_path: Path, layout: int) -> None:
    builder = base(layout)
    opened = [builder.file(f"/old/a/o{number}", open_by="client").id for number in range(3)]
    with ImageFile.open(builder.save(tmp_path)) as image:
        namespace = load_image(image).namespace
        assert [namespace.tree.row(inode_id) for inode_id in opened] == [NO_ROW] * 3
        namespace.tree.paths.find("/old/a/o1")
        assert namespace.tree.row(opened[1]) != NO_ROW
        rows = namespace.leases.rows_below(namespace.tree.paths.find("/old"))
        assert sorted(int(namespace.table.id[row]) for row in rows) == opened


@pytest.mark.parametrize("layout", LAYOUTS)
def test_leases_below_a_directory_with_a_large_record(tmp_path: Path, layout: int) -> None:
    builder = base(layout)
    directory = builder.directory("/old/large")
    directory.directory.xAttrs.xAttrs.add(name=1, value=b"x" * 100_000)
    opened = [builder.file(f"/old/large/f{number}", open_by="client").id for number in range(2)]
    with ImageFile.open(builder.save(tmp_path)) as image:
        namespace = load_image(image).namespace
    rows = namespace.leases.rows_below(namespace.tree.paths.find("/old"))
    assert sorted(int(namespace.table.id[row]) for row in rows) == opened


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("taken", [[], [create("s0")]], ids=["without-snapshots", "with-a-snapshot"])
def test_unread_open_files_that_only_a_snapshot_retains_have_the_same_leases(
    tmp_path: Path, layout: int, taken: list[EditOp]
) -> None:
    """The second of two merges does not read the open file from its base image; in a single merge, the file is in
    memory.
    """
    before = [mkdir("/s/d/k", NEW), add("/s/d/k/open", NEW + 1), allow(), *taken]
    after = [create("s1"), delete("/s/d/k")]
    twice = Setting(tmp_path, layout).merged(*before).again(tmp_path / "later", *after)
    once = Setting(tmp_path, layout).merged(*before, *after)
    assert twice.image.lease_paths() == once.image.lease_paths()
    assert twice.image.inodes.keys() == once.image.inodes.keys()
