"""Replay by kernels: steps against plain twins, handled operations, and operations left to the plain functions."""

from __future__ import annotations

import itertools
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.errors import ReplayError, UnsupportedOperationError
from engine.loaded_image import load_image
from engine.namespace.paths import has_odd_slashes
from engine.replay import replay
from engine.replay.compiled import CompiledReplay
from engine.replay.kernels import records
from engine.replay.replayer import PLAIN
from hadoop_common.errors import HdfsError
from image_format.array_allocator import GrowableArray
from image_format.errors import ImageStorageError, RecordError
from image_format.inode_table import NO_ROW
from image_format.kernels.jit import kernel
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited, encode_varint
from image_tools.compare.images import ImageComparison
from journal import ops
from journal.errors import CorruptOpError
from journal.ops import EditOp
from journal.primitives import PrimitiveReader, decode_cesu8, write_vlong
from tests.depth import examples
from tests.engine.image_builder import LAYOUTS, OWNER, ImageBuilder, delimited, merged, messages, numbered
from tests.engine.op_makers import add, close, delete, mkdir, rename, rename_old, set_permissions, times
from tests.engine.replay_scenes import base, rare, work
from tests.engine.replay_twins import EncodedOps, encoded

HADOOP2 = -63


@kernel
def _crc32(buf, start, end):
    return records.crc32(buf, start, end)


@kernel
def _vlong(buf, pos, end):
    return records.vlong(buf, pos, end)


@kernel
def _is_plain_text(buf, start, end):
    return records.is_plain_text(buf, start, end)


@kernel
def _path_end(buf, pos, end):
    return records.path_end(buf, pos, end)


def octets(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


# ---- steps -------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300), st.integers(0, 20))
def test_crc(data: bytes, start: int) -> None:
    start = min(start, len(data))
    assert _crc32(octets(data), start, len(data)) == zlib.crc32(data[start:])


def _written(value: int) -> bytes:
    out = bytearray()
    write_vlong(out, value)
    return bytes(out)


@given(st.binary(max_size=12) | st.integers(-(1 << 63), (1 << 63) - 1).map(_written))
def test_numbers_of_variable_length(data: bytes) -> None:
    reader = PrimitiveReader(data)
    try:
        expected = reader.vlong(), reader.position
    except CorruptOpError:
        expected = 0, -1
    assert _vlong(octets(data), 0, len(data)) == expected


@given(st.binary(max_size=8) | st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_text_that_is_the_same_in_both_encodings(data: bytes) -> None:
    if _is_plain_text(octets(data), 0, len(data)):
        assert decode_cesu8(data).encode() == data
    else:
        assert not data.isascii()


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("/a", True),
        ("/a/b", True),
        ("/é/中", True),
        ("/", False),
        ("", False),
        ("a", False),
        ("/a/", False),
        ("/a//b", False),
        ("//a", False),
        ("/\U0001f600", False),
        ("/\ud800", False),
    ],
)
def test_paths_that_kernels_look_up(path: str, taken: bool) -> None:
    raw = path.encode("utf-8", "surrogatepass")
    data = len(raw).to_bytes(2, "big") + raw + b"x"
    assert _path_end(octets(data), 0, len(data)) == (len(raw) + 2 if taken else -1)
    assert _path_end(octets(data), 0, len(raw) + 1) == -1


# ---- runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parameters(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_jobs_do_is_rare_only_until_names_are_known(tmp_path: Path, layout: int) -> None:
    path = base(layout).save(tmp_path)
    # Users and groups that the image does not have are looked at once, and what changes nothing is counted.
    assert rare(path, work(3000), layout) == ["OP_SET_OWNER", "OP_DELETE", "OP_ALLOW_SNAPSHOT"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_are_known_to_all_operations(tmp_path: Path, layout: int) -> None:
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
    # a single table has one serial for a name, whatever it names
    assert rare(path, steps, layout) == ["OP_ADD"] if layout == HADOOP2 else ["OP_SET_OWNER", "OP_ADD"]
    image = merged(path, *steps)
    assert image.owner("/old/f") == ("new", "staff", 0o640)
    assert image.owner("/old/m") == ("known", "known", 0o1777)
    assert image.owner("/old/n") == ("new", "known", 0o1777)


def test_a_string_of_no_kind_is_neither_user_nor_group(tmp_path: Path) -> None:
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
def test_a_name_of_any_length_is_no_fault_of_the_image(tmp_path: Path, layout: int) -> None:
    builder = base(layout)
    status = ops.PermissionStatus("u" * 70_000, "staff", 0o700)
    builder.permission(status)
    path = builder.save(tmp_path)
    steps = [mkdir(f"/old/m{number}", 20_001 + number, permissions=status) for number in range(2)]
    assert rare(path, steps, layout) == ["OP_MKDIR", "OP_MKDIR"]
    assert merged(path, *steps).owner("/old/m1") == status


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_that_operations_encode_in_two_ways_stay_rare(tmp_path: Path, layout: int) -> None:
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
def test_arrays_grow_on_the_way(tmp_path: Path, layout: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.replay.snapshots.now", lambda: 9000)
    path = base(layout).save(tmp_path)
    edits = work(3000)
    images = []
    for plainly in (True, False):
        with ImageFile.open(path) as image:
            loaded = load_image(image)
            segment = encoded(numbered(edits, loaded.namespace.last_txid), layout)
            assert segment is not None
            replay(loaded.namespace, edits if plainly else segment)
            out = bytearray()
            loaded.write(out.extend)
            target = tmp_path / f"made-{plainly}"
            target.write_bytes(out)
            images.append(target)
    with ImageFile.open(images[0], verify_md5=False) as a, ImageFile.open(images[1], verify_md5=False) as b:
        assert list(ImageComparison(a, b).differences()) == []
        assert ImageComparison(a, b).inodes[0] > 3000


def test_one_namespace_takes_segment_after_segment(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        for step in range(5):
            edits = numbered([times(f"/old/a/f{step}", 5), delete(f"/old/a/f{step + 10}")], loaded.namespace.last_txid)
            segment = encoded(edits, HADOOP2)
            assert segment is not None
            assert replay(loaded.namespace, segment) == 2
        tree = loaded.namespace.tree
        assert tree.child_count(tree.paths.find("/old/a")) == 15


def test_a_directory_above_a_snapshottable_one_is_left_alone(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    edits = [ops.AllowSnapshotOp(snapshot_root="/old/a"), rename("/old", "/older"), delete("/older")]
    assert rare(path, edits, HADOOP2) == ["OP_ALLOW_SNAPSHOT", "OP_RENAME", "OP_DELETE"]


def symlink(path: str, inode_id: int) -> ops.SymlinkOp:
    """Always for the plain function."""
    return ops.SymlinkOp(path=path, inode_id=inode_id, target="t", mtime=1, atime=1, permissions=OWNER)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "away",
    [rename("/old/a", "/b"), rename_old("/old/a", "/b"), delete("/old/a")],
    ids=["rename", "rename-old", "delete"],
)
def test_a_directory_that_a_kernel_moved_is_not_where_it_was(tmp_path: Path, layout: int, away: EditOp) -> None:
    """The plain functions remember where directories are."""
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
    """The tree by path, to leave out steps that a NameNode would not log."""

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
def test_paths_that_kernels_remember_lead_where_they_lead_now(tmp_path: Path, moves: list[tuple[str, ...]]) -> None:
    places = Places()
    steps = [places.step(number, *move) for number, move in enumerate(moves)]
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        image = merged(ImageBuilder(HADOOP2).save(Path(folder)), *(op for op in steps if op is not None))
    assert all(path in image for path in places.kinds if path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_children_that_are_not_in_order(tmp_path: Path, layout: int) -> None:
    """A found name is right; a name that is not found may still exist."""
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


def test_what_was_replayed_plainly_meanwhile_counts(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    with ImageFile.open(path) as image:
        namespace = load_image(image).namespace
        steps: list[EditOp] = [times("/old/a/f1", 5), ops.AllowSnapshotOp(snapshot_root="/old/a"), delete("/old")]
        for number, op in enumerate(steps):
            given = numbered([op], namespace.last_txid)
            segment = encoded(given, HADOOP2)
            assert segment is not None
            assert replay(namespace, given if number == 1 else segment) == 1
        assert list(namespace.snapshots.snapshottable_ids) == []


def test_unknown_fields_of_a_directory_entry_are_not_dropped(tmp_path: Path) -> None:
    builder = base(HADOOP2)
    sections = builder.all_sections()
    entries = list(messages(sections["INODE_DIR"], itertools.repeat(pb.DirEntry)))
    number = builder.inodes["/old/a"].id
    unknown = [each for each in entries if each.parent == number]
    unknown[0].MergeFromString(b"\x7a\x01A")
    builder.sections["INODE_DIR"] = delimited(entries)
    with pytest.raises(UnsupportedOperationError, match="fields this version does not know"):
        merged(builder.save(tmp_path), times("/old/a/f1", 5), delete("/old/a/f1"))


def test_an_old_edit_log_is_read_plainly(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        segment = encoded(numbered([mkdir("/n", 20_001), mkdir("/n/m", 20_002)], loaded.namespace.last_txid), -57)
        assert segment is not None
        seen: list[str] = []
        replay(loaded.namespace, segment, watch=lambda op: seen.append(op.name) is None)
    assert seen == ["OP_MKDIR", "OP_MKDIR"]


def test_a_directory_of_the_image_goes_unread(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    assert rare(path, [delete("/old"), mkdir("/old", 20_001)], HADOOP2) == []


def with_lost_child(path: Path, child: int) -> Path:
    """The image with a child id that no inode has."""
    with ImageFile.open(path) as image:
        section = next(each for each in image.sections if each.name == "INODE_DIR")
    data = bytearray(path.read_bytes())
    at = data.index(encode_varint(child), section.offset)
    data[at : at + len(encode_varint(child))] = encode_varint(child + 50)
    path.write_bytes(data)
    return path


def test_a_child_that_is_no_inode_ends_the_replay(tmp_path: Path) -> None:
    """Kernels find it while they drop the subtree; their changes so far are useless then."""
    builder = base(HADOOP2)
    lost = builder.file("/old/a/lost").id
    path = with_lost_child(builder.save(tmp_path), lost)
    with ImageFile.open(path, verify_md5=False) as image:
        loaded = load_image(image)
        segment = encoded(numbered([delete("/old")], loaded.namespace.last_txid), HADOOP2)
        assert segment is not None
        with pytest.raises(RecordError, match="damaged") as caught:
            replay(loaded.namespace, segment)
    assert caught.value.section == "INODE_DIR"


def test_damage_beside_a_path_is_found_where_it_matters(tmp_path: Path) -> None:
    builder = base(HADOOP2)
    lost = builder.file("/old/a/zz").id
    builder.file("/more")
    path = with_lost_child(builder.save(tmp_path), lost)
    for step, refused in ((times("/old/a/f1", 5), False), (times("/old/a/nothing", 5), True)):
        with ImageFile.open(path, verify_md5=False) as image:
            loaded = load_image(image)
            segment = encoded(numbered([step], loaded.namespace.last_txid), HADOOP2)
            assert segment is not None
            if not refused:
                assert replay(loaded.namespace, segment) == 1
                continue
            with pytest.raises(RecordError, match="child that is not an inode"):
                replay(loaded.namespace, segment)


# ---- tables of names -----------------------------------------------------------------------------------------------


CROWD = 9000


def crowded(layout: int) -> ImageBuilder:
    """A directory of many files, whose ids do not ascend by name; at first the table of them is too small."""
    builder = base(layout)
    builder.directory("/old/big")
    for number in range(CROWD):
        builder.file(f"/old/big/f{number * 7 % CROWD}")
    return builder


def questions() -> list[EditOp]:
    """To one file after the other, to new ones, and to those again."""
    return [
        *(times(f"/old/big/f{number * 7919 % CROWD}", number) for number in range(3000)),
        *(add(f"/old/big/g{number}", 40_001 + number) for number in range(500)),
        *(rename(f"/old/big/f{number}", f"/old/big/h{number}") for number in range(0, CROWD, 18)),
        *(delete(f"/old/big/{name}{number}") for number in range(0, 486, 18) for name in "gh"),
    ]


@pytest.mark.parameters(2)
@pytest.mark.parametrize("by_id", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_questions_to_a_directory_make_a_table_of_its_names(tmp_path: Path, layout: int, by_id: bool) -> None:
    builder = crowded(layout)
    if not by_id:
        builder.order = lambda inode: -inode.id
    path = builder.save(tmp_path)
    assert rare(path, questions(), layout) == []
    merged(path, *questions())
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        assert (loaded.index.arrays.slots.size == 0) == by_id
        replay(loaded.namespace, _segment(loaded.namespace.last_txid, layout))
        compiled = loaded.namespace.compiled
        assert isinstance(compiled, CompiledReplay)
        assert compiled.table_places >= 2 * CROWD


def _segment(last_txid: int, layout: int) -> EncodedOps:
    segment = encoded(numbered(questions(), last_txid), layout)
    assert segment is not None
    return segment


def test_a_directory_with_a_lost_child_gets_no_table(tmp_path: Path) -> None:
    builder = crowded(HADOOP2)
    lost = builder.file("/old/big/zz").id
    path = with_lost_child(builder.save(tmp_path), lost)
    asked = [times(f"/old/big/f{number}", number) for number in range(3000)]
    for steps, refused in ((asked, False), ([*asked, times("/old/big/nothing", 5)], True)):
        with ImageFile.open(path, verify_md5=False) as image:
            loaded = load_image(image)
            segment = encoded(numbered(steps, loaded.namespace.last_txid), HADOOP2)
            assert segment is not None
            if refused:
                with pytest.raises(RecordError, match="child that is not an inode"):
                    replay(loaded.namespace, segment)
            else:
                assert replay(loaded.namespace, segment) == len(steps)


def test_names_are_found_where_there_is_no_room_for_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = crowded(HADOOP2).save(tmp_path)
    grow = GrowableArray.grow

    def full(table: GrowableArray, used: int, needed: int) -> None:
        if table.array.dtype == np.uint32:
            raise ImageStorageError("no room", hint="Free some.")
        grow(table, used, needed)

    monkeypatch.setattr(GrowableArray, "grow", full)
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        assert replay(loaded.namespace, _segment(loaded.namespace.last_txid, HADOOP2)) == len(questions())
        assert isinstance(loaded.namespace.compiled, CompiledReplay)
        # there was room for small directories
        assert loaded.namespace.compiled.table_places < 2 * CROWD
    monkeypatch.undo()
    merged(path, *questions())


@pytest.mark.parametrize("at_zero", [True, False])
def test_counters_that_an_image_lacks_are_not_written(tmp_path: Path, at_zero: bool) -> None:
    """Plain functions and kernels make images with the same bytes."""
    builder = base(HADOOP2)
    builder.sections["NS_INFO"] = encode_delimited(pb.NameSystemSection(namespaceId=1, transactionId=100))
    path = builder.save(tmp_path)
    found = []
    counted = [ops.AllocateBlockIdOp(block_id=0), ops.SetGenstampV2Op(genstamp=0)] if at_zero else []
    for compiled in (True, False):
        out = bytearray()
        with ImageFile.open(path) as image:
            loaded = load_image(image)
            steps = numbered([times("/old", 5), *counted], loaded.namespace.last_txid)
            segment = encoded(steps, HADOOP2)
            assert segment is not None
            replay(loaded.namespace, segment if compiled else steps)
            loaded.write(out.extend)
        found.append(bytes(out))
    assert found[0] == found[1]


# ---- ACLs of new inodes ------------------------------------------------------------------------------------------

ACL = tuple(
    ops.AclEntry(*entry)
    for entry in ((0, 0, 7, None), (0, 0, 6, "bob"), (1, 0, 5, None), (2, 0, 6, None), (3, 0, 1, None))
)
DEFAULTS = tuple(entry._replace(scope=1) for entry in ACL)


def inheriting() -> list[EditOp]:
    return [
        ops.SetAclOp(src="/old", acl_entries=(*ACL, *DEFAULTS)),
        mkdir("/old/m", 20_003),
        add("/old/m/f", 20_004),
        mkdir("/old/m/deep", 20_005),
        add("/old/m/deep/own", 20_006, acl_entries=ACL),
        mkdir("/old/m/deep/own-too", 20_007, acl_entries=(*ACL[:1], *ACL[2:3], *ACL[4:], *DEFAULTS)),
        rename("/old/m/deep", "/old/deeper"),
        delete("/old/m"),
        add("/old/deeper/late", 20_008),
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_acls_of_new_inodes_come_without_the_plain_functions(tmp_path: Path, layout: int) -> None:
    path = base(layout).save(tmp_path)
    assert rare(path, inheriting(), layout) == ["OP_SET_ACL"]
    image = merged(path, *inheriting())
    named = [(0, 0, 6, "bob"), (1, 0, 5, "")]
    assert image.acl("/old/deeper/late") == named
    assert image.acl("/old/deeper")[:2] == named
    assert image.acl("/old/deeper/own") == named
    assert image.acl("/old/deeper/own-too") == image.acl("/old/deeper")[2:]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_mode_that_changes_meanwhile_is_not_what_was_inherited_for(tmp_path: Path, layout: int) -> None:
    path = base(layout).save(tmp_path)
    steps = [*inheriting(), add("/old/n", 20_009), set_permissions("/old/n", 0o700), add("/old/o", 20_010)]
    image = merged(path, *steps)
    assert image.status(image["/old/n"].file.permission).mode == 0o700
    assert rare(path, steps, layout)[-1] == "OP_SET_PERMISSIONS"


@pytest.mark.parametrize(
    "entries",
    [ACL[:2], DEFAULTS, (*ACL, *DEFAULTS), (*ACL, ops.AclEntry(0, 0, 7, "\ud800"))],
    ids=["few", "default", "both", "odd"],
)
def test_acls_that_are_not_whole_are_for_the_plain_functions(tmp_path: Path, entries: tuple[ops.AclEntry, ...]) -> None:
    path = base(HADOOP2).save(tmp_path)
    with pytest.raises(HdfsError):
        merged(path, add("/old/known", 20_001), add("/old/n", 20_002, acl_entries=entries), times("/old", 5))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_default_acl_that_is_not_whole_names_the_operation_that_inherits_it(tmp_path: Path, layout: int) -> None:
    path = base(layout).save(tmp_path)
    halved = ops.SetAclOp(src="/old", acl_entries=(*ACL, *DEFAULTS[:2]))
    steps = [mkdir("/known", 20_001), halved, mkdir("/old/n", 20_002)]
    with ImageFile.open(path) as image:
        last_txid = load_image(image).namespace.last_txid
    with pytest.raises(ReplayError, match=f"OP_MKDIR at txid {last_txid + len(steps)}: "):
        merged(path, *steps, mkdir("/later", 20_003))


def test_an_acl_that_does_not_fit_the_image_names_its_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = base(HADOOP2).save(tmp_path)

    def full(*_: object) -> None:
        raise OverflowError("no number is left for a name")

    monkeypatch.setattr("engine.replay.compiled.replace_acl", full)
    steps = [add("/old/known", 20_001), add("/old/n", 20_002, acl_entries=ACL), times("/old", 5)]
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        first = loaded.namespace.last_txid + 1
        segment = encoded(numbered(steps, first - 1), HADOOP2)
        assert segment is not None
        with pytest.raises(ReplayError, match=f"OP_ADD at txid {first + 1}: a value does not fit the image: no number"):
            replay(loaded.namespace, segment)


def test_more_acls_than_are_kept_at_a_time(tmp_path: Path) -> None:
    path = base(HADOOP2).save(tmp_path)
    made = [add(f"/old/n{number}", 21_000 + number) for number in range(5000)]
    steps = [*inheriting(), *made]
    assert rare(path, steps, HADOOP2) == ["OP_SET_ACL"]
    assert merged(path, *steps).acl("/old/n4999") == [(0, 0, 6, "bob"), (1, 0, 5, "")]


# ---- leases of the base image ------------------------------------------------------------------------------------

ODD_PATHS = ("", "/", "//old/f0", "/old/f0/", "old/f0", "/nowhere/f", "/old/open-1/f", "/old/nothing")


@pytest.mark.parameters(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_leases_are_found_as_one_by_one(tmp_path: Path, layout: int, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = base(layout)
    builder.directory("/old/a/b")
    for number in range(5000):
        builder.file(f"/old/a/b/open-{number}" if number % 3 else f"/old/open-{number}", open_by=f"client-{number}")
    ids = {path: inode.id for path, inode in builder.inodes.items()}
    leased = [(path, inode.id) for path, inode in builder.inodes.items() if inode.file.HasField("fileUC")]
    # paths that lead nowhere, elsewhere, or to what is not open
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
    # Hadoop 3 gives leases to the open files alone, whatever their paths say
    assert len(found[0][0]) == (5001 if layout == HADOOP2 else 5000)
    resolved_late = [path for path in ODD_PATHS if has_odd_slashes(path)]
    assert len(found[0][1]) == (len(ODD_PATHS) - len(resolved_late) + 2 if layout == HADOOP2 else 0)


IN_SNAPSHOTS = [
    ops.AllowSnapshotOp(snapshot_root="/old"),
    ops.CreateSnapshotOp(snapshot_root="/old", snapshot_name="s", mtime=5),
]
UNREAD = {
    "untouched": ([mkdir("/new", 30_000)], {"/old/o", "/old/b/o", "/old/b/c/o", "/old/b/c/p"}),
    "closed": ([close("/old/b/o")], {"/old/o", "/old/b/c/o", "/old/b/c/p"}),
    "deleted": ([delete("/old/b/c/o")], {"/old/o", "/old/b/o", "/old/b/c/p"}),
    "below a deleted directory": ([delete("/old/b")], {"/old/o"}),
    "below a moved directory": ([rename("/old/b", "/n")], {"/old/o", "/n/o", "/n/c/o", "/n/c/p"}),
    "below one with another name": ([rename("/old/b/c", "/ü")], {"/old/o", "/old/b/o", "/ü/o", "/ü/p"}),
    "moved": ([rename("/old/b/c/o", "/old/n")], {"/old/o", "/old/b/o", "/old/n", "/old/b/c/p"}),
    "in a snapshot": ([*IN_SNAPSHOTS, rename("/old/b", "/old/n")], {"/old/o", "/old/n/o", "/old/n/c/o", "/old/n/c/p"}),
    "snapshots of what moved": (
        [rename("/old/b", "/old/n"), *IN_SNAPSHOTS, delete("/old/n/o")],
        {"/old/o", "/old/n/c/o", "/old/n/c/p"},
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("steps", "leased"), UNREAD.values(), ids=UNREAD)
def test_leases_of_files_that_nobody_reads(tmp_path: Path, layout: int, steps: list[EditOp], leased: set[str]) -> None:
    builder = base(layout)
    builder.directory("/old/b")
    builder.directory("/old/b/c")
    for path in ("/old/o", "/old/b/o", "/old/b/c/o", "/old/b/c/p"):
        builder.file(path, open_by="client")
    assert set(merged(builder.save(tmp_path), *steps).leases().values()) == leased


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_open_file_is_read_when_something_asks_for_it(tmp_path: Path, layout: int) -> None:
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
def test_leases_below_a_record_of_any_size(tmp_path: Path, layout: int) -> None:
    builder = base(layout)
    directory = builder.directory("/old/large")
    directory.directory.xAttrs.xAttrs.add(name=1, value=b"x" * 100_000)
    opened = [builder.file(f"/old/large/f{number}", open_by="client").id for number in range(2)]
    with ImageFile.open(builder.save(tmp_path)) as image:
        namespace = load_image(image).namespace
    rows = namespace.leases.rows_below(namespace.tree.paths.find("/old"))
    assert sorted(int(namespace.table.id[row]) for row in rows) == opened
