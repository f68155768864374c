"""Replay of many operations by kernels: operations left to the plain functions, cached paths, and damage."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.errors import UnsupportedOperationError
from engine.loaded_image import load_image
from engine.replay import replay
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.compare.comparison import ImageComparison
from journal import ops
from journal.ops import EditOp
from tests.depth import examples
from tests.engine.image_builder import HADOOP2, LAYOUTS, OWNER, ImageBuilder, delimited, merged, messages
from tests.engine.op_makers import add, delete, mkdir, rename, rename_old, times
from tests.engine.replay_scenes import base, needs_kernels, rare, segment_after, work


@needs_kernels
@pytest.mark.parameters(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_plain_functions_replay_only_the_first_use_of_names(tmp_path: Path, layout: int) -> None:
    path = base(layout).save(tmp_path)
    # New users and groups are looked up once, and operations without effect are counted.
    assert rare(path, work(3000), layout) == ["OP_SET_OWNER", "OP_DELETE", "OP_ALLOW_SNAPSHOT"]


@needs_kernels
@pytest.mark.parametrize("layout", LAYOUTS)
def test_new_names_are_known_to_all_later_operations(tmp_path: Path, layout: int) -> None:
    builder = base(layout)
    builder.permission(ops.PermissionStatus("known", "staff", 0o700))
    path = builder.save(tmp_path)
    steps = [
        mkdir("/old/m", 20_001, permissions=ops.PermissionStatus("known", "staff", 0o1777)),
        ops.SetOwnerOp(src="/old/m", username="known", groupname=None),
        ops.SetOwnerOp(src="/old/m", username=None, groupname="known"),
        add("/old/f", 20_002, permissions=ops.PermissionStatus("known", "known", 0o640)),
        add("/old/g", 20_003, permissions=ops.PermissionStatus("new", "staff", 0)),
        ops.SetOwnerOp(src="/old/f", username="new", groupname="staff"),
        mkdir("/old/n", 20_004, permissions=ops.PermissionStatus("new", "known", 0xFFFF)),
    ]
    # in a single table, a user and a group of the same name share a serial
    assert rare(path, steps, layout) == ["OP_ADD"] if layout == HADOOP2 else ["OP_SET_OWNER", "OP_ADD"]
    image = merged(path, *steps)
    assert image.owner("/old/f") == ("new", "staff", 0o640)
    assert image.owner("/old/m") == ("known", "known", 0o1777)
    assert image.owner("/old/n") == ("new", "known", 0o1777)


@needs_kernels
def test_untyped_string_is_neither_user_nor_group(tmp_path: Path) -> None:
    builder = base(-67)
    builder.sections["STRING_TABLE"] = delimited(
        [
            pb.StringTableSection(numEntry=4, maskBits=3),
            pb.StringTableEntry(id=1, str=b"mallory"),
            *(pb.StringTableEntry(id=1 + n | kind << 29, str=s) for n, kind, s in ((0, 1, b"alice"), (0, 2, b"staff"))),
            pb.StringTableEntry(id=2 | 1 << 29, str=b"staff"),
        ]
    )
    path = builder.save(tmp_path)
    steps = [
        mkdir("/old/m", 20_001, permissions=ops.PermissionStatus("mallory", "staff", 0o700)),
        mkdir("/old/n", 20_002, permissions=ops.PermissionStatus("staff", "staff", 0o700)),
    ]
    assert rare(path, steps, -67) == ["OP_MKDIR"]
    image = merged(path, *steps)
    assert image.owner("/old/m") == ("mallory", "staff", 0o700)
    assert image.owner("/old/n") == ("staff", "staff", 0o700)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_very_long_names_are_left_to_plain_functions(tmp_path: Path, layout: int) -> None:
    builder = base(layout)
    status = ops.PermissionStatus("u" * 70_000, "staff", 0o700)
    builder.permission(status)
    path = builder.save(tmp_path)
    steps = [mkdir(f"/old/m{number}", 20_001 + number, permissions=status) for number in range(2)]
    assert rare(path, steps, layout) == ["OP_MKDIR", "OP_MKDIR"]
    assert merged(path, *steps).owner("/old/m1") == status


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_with_two_encodings_are_left_to_plain_functions(tmp_path: Path, layout: int) -> None:
    path = base(layout).save(tmp_path)
    status = ops.PermissionStatus("\N{ELEPHANT}", "\N{ELEPHANT}", 0o700)
    steps = [
        *(add(f"/old/f{number}", 20_001 + number, permissions=status) for number in (30, 31)),
        *(ops.SetOwnerOp(src=f"/old/a/f{number}", username=status.user, groupname=status.group) for number in (0, 1)),
    ]
    assert rare(path, steps, layout) == ["OP_ADD", "OP_ADD", "OP_SET_OWNER", "OP_SET_OWNER"]
    image = merged(path, *steps)
    assert {image.owner(path)[:2] for path in ("/old/a/f0", "/old/a/f1", "/old/f30", "/old/f31")} == {
        (status.user, status.group)
    }


@pytest.mark.parameters(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_grow_during_the_replay(tmp_path: Path, layout: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.replay.snapshots.now", lambda: 9000)
    path = base(layout).save(tmp_path)
    edits = work(3000)
    images = []
    for plainly in (True, False):
        with ImageFile.open(path) as image:
            loaded = load_image(image)
            segment = segment_after(loaded.namespace, edits, layout)
            replay(loaded.namespace, edits if plainly else segment)
            out = bytearray()
            loaded.write(out.extend)
            target = tmp_path / f"made-{plainly}"
            target.write_bytes(out)
            images.append(target)
    with ImageFile.open(images[0], verify_md5=False) as a, ImageFile.open(images[1], verify_md5=False) as b:
        assert list(ImageComparison(a, b).differences()) == []
        assert ImageComparison(a, b).inodes[0] > 3000


@needs_kernels
@pytest.mark.parameters(1)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("move", [rename, rename_old])
def test_arrays_grow_at_operations_of_one_kind(tmp_path: Path, layout: int, move: Callable[[str, str], EditOp]) -> None:
    """Tables of rows and links are full at a MKDIR, and tables of links and names at a rename."""
    path = base(layout).save(tmp_path)
    numbers = range(4200)
    edits = [
        *(mkdir(f"/old/d{number}", 20_001 + number) for number in numbers),
        *(move(f"/old/d{number}", f"/old/e{number}") for number in numbers),
    ]
    assert rare(path, edits, layout) == []
    image = merged(path, *edits)
    assert {f"/old/e{number}" for number in numbers} <= set(image.paths)


def test_segments_are_replayed_one_after_another(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        for step in range(5):
            edits = [times(f"/old/a/f{step}", 5), delete(f"/old/a/f{step + 10}")]
            assert replay(loaded.namespace, segment_after(loaded.namespace, edits, HADOOP2)) == 2
        tree = loaded.namespace.tree
        assert tree.child_count(tree.paths.find("/old/a")) == 15


def test_directory_above_a_snapshottable_one_is_left_to_plain_functions(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    edits = [ops.AllowSnapshotOp(snapshot_root="/old/a"), rename("/old", "/older"), delete("/older")]
    assert rare(path, edits, HADOOP2) == ["OP_ALLOW_SNAPSHOT", "OP_RENAME", "OP_DELETE"]


def symlink(path: str, inode_id: int) -> ops.SymlinkOp:
    """Return an operation that is always left to the plain function."""
    return ops.SymlinkOp(path=path, inode_id=inode_id, target="t", mtime=1, atime=1, permissions=OWNER)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "away",
    [rename("/old/a", "/b"), rename_old("/old/a", "/b"), delete("/old/a")],
    ids=["rename", "rename-old", "delete"],
)
def test_directory_moved_by_a_kernel_is_not_found_at_its_old_path(tmp_path: Path, layout: int, away: EditOp) -> None:
    """The plain functions cache the paths of directories."""
    edits = [
        mkdir("/x", 20_001),
        symlink("/old/a/s1", 20_002),
        away,
        mkdir("/old/a", 20_003),
        symlink("/old/a/s2", 20_004),
    ]
    image = merged(base(layout).save(tmp_path), *edits)
    assert image["/old/a/s2"].id == 20_004


NAMES = st.sampled_from(["a", "b", "cc", "f1", "a-name-of-more-than-eight-bytes"])
PLACES = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
MOVES = st.one_of(
    st.builds(lambda path: ("mkdir", path), PLACES),
    st.builds(lambda path: ("add", path), PLACES),
    st.builds(lambda path: ("symlink", path), PLACES),
    st.builds(lambda path: ("delete", path), PLACES),
    st.builds(lambda path: ("allow", path), PLACES),
    st.builds(lambda source, target: ("rename", source, target), PLACES, PLACES),
    st.builds(lambda source, target: ("rename-old", source, target), PLACES, PLACES),
)


class Places:
    """The tree by path, used to skip steps that a NameNode would not log."""

    def __init__(self) -> None:
        self.kinds = {"": "d"}
        self.kept: set[str] = set()

    def below(self, path: str) -> list[str]:
        return [each for each in self.kinds if each == path or each.startswith(path + "/")]

    def step(self, number: int, what: str, path: str, target: str = "") -> EditOp | None:
        parent, found = self.kinds.get(path.rpartition("/")[0]), self.kinds.get(path)
        if what in ("mkdir", "add", "symlink"):
            if parent != "d" or found is not None:
                return None
            self.kinds[path] = {"mkdir": "d", "add": "f", "symlink": "l"}[what]
            return {"mkdir": mkdir, "add": add, "symlink": symlink}[what](path, 20_000 + number)
        if what == "allow":
            if found != "d":
                return None
            self.kept.add(path)
            return ops.AllowSnapshotOp(snapshot_root=path)
        if found is None or any(each in self.kept for each in self.below(path)):
            return None
        if what == "delete":
            for each in self.below(path):
                del self.kinds[each]
            return delete(path)
        if (target + "/").startswith(path + "/") or self.kinds.get(target.rpartition("/")[0]) != "d":
            return None
        if target in self.kinds or self.kinds[path] == "l":
            return None
        for each in self.below(path):
            self.kinds[target + each[len(path) :]] = self.kinds.pop(each)
        return rename(path, target) if what == "rename" else rename_old(path, target)


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(MOVES, max_size=60))
def test_cached_paths_follow_renames(tmp_path: Path, moves: list[tuple[str, ...]]) -> None:
    places = Places()
    steps = [places.step(number, *move) for number, move in enumerate(moves)]
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        image = merged(ImageBuilder(HADOOP2).save(Path(folder)), *(op for op in steps if op is not None))
    assert all(path in image for path in places.kinds if path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_unsorted_children_are_found(tmp_path: Path, layout: int) -> None:
    """A found name is correct; a name that is not found may still exist."""
    builder = base(layout)
    sections = builder.all_sections()
    entries = list(messages(sections["INODE_DIR"], itertools.repeat(pb.DirEntry)))
    for entry in entries:
        entry.children[:] = entry.children[::-1]
    builder.sections["INODE_DIR"] = delimited(entries)
    path = builder.save(tmp_path)
    wanted = [f"/old/a/f{number}" for number in range(20)]
    image = merged(
        path, *(times(each, 7000 + number) for number, each in enumerate(wanted)), mkdir("/old/a/new", 20_001)
    )
    assert [image.mtime(each) for each in wanted] == [7000 + number for number in range(20)]
    assert image["/old/a/new"].id == 20_001


def test_kernels_see_changes_made_by_plain_functions(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    with ImageFile.open(path) as image:
        namespace = load_image(image).namespace
        steps: list[EditOp] = [times("/old/a/f1", 5), ops.AllowSnapshotOp(snapshot_root="/old/a"), delete("/old")]
        for number, op in enumerate(steps):
            segment = segment_after(namespace, [op], HADOOP2)
            assert replay(namespace, [op] if number == 1 else segment) == 1
        assert list(namespace.snapshots.snapshottable_ids) == []


@pytest.mark.parameters(5)
@pytest.mark.parametrize(
    "change",
    [
        delete("/old/a/f1"),
        add("/old/a/n", 20_004),
        mkdir("/old/a/n", 20_004),
        rename("/old/a/f1", "/old/n"),
        rename_old("/old/b", "/old/a/n"),
    ],
    ids=lambda change: change.name,
)
def test_edits_of_directory_entries_with_unknown_fields_are_refused(tmp_path: Path, change: EditOp) -> None:
    builder = base(HADOOP2)
    sections = builder.all_sections()
    entries = list(messages(sections["INODE_DIR"], itertools.repeat(pb.DirEntry)))
    number = builder.inodes["/old/a"].id
    unknown = [each for each in entries if each.parent == number]
    unknown[0].MergeFromString(b"\x7a\x01A")
    builder.sections["INODE_DIR"] = delimited(entries)
    with pytest.raises(UnsupportedOperationError, match="fields that are unknown to this version"):
        # kernels replay ADD only with names that were used before, and a plain look-up does not open the entry
        before = [add("/old/known", 20_002), mkdir("/old/b", 20_003), times("/old/a/f1", 5), delete("/old/a/n")]
        merged(builder.save(tmp_path), *before, change)


def test_old_edit_log_layout_is_replayed_by_plain_functions(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        segment = segment_after(loaded.namespace, [mkdir("/n", 20_001), mkdir("/n/m", 20_002)], -57)
        seen: list[str] = []
        replay(loaded.namespace, segment, watch=lambda op: seen.append(op.name) is None)
    assert seen == ["OP_MKDIR", "OP_MKDIR"]


@needs_kernels
def test_directory_of_the_image_is_deleted_by_kernels(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    assert rare(path, [delete("/old"), mkdir("/old", 20_001)], HADOOP2) == []
