"""Name tables that replay kernels build for directories, and missing children."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.loaded_image import load_image
from engine.replay import replay
from engine.replay.compiled import CompiledReplay
from image_format.array_allocator import GrowableArray
from image_format.errors import ImageStorageError, RecordError
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited, encode_varint
from journal import ops
from journal.ops import EditOp
from tests.engine.image_builder import HADOOP2, LAYOUTS, ImageBuilder, merged, store
from tests.engine.op_makers import add, delete, rename, times
from tests.engine.replay_scenes import base, needs_kernels, rare, segment_after


def with_lost_child(path: Path, child: int) -> Path:
    """Return the image with a child id that no inode has."""
    with ImageFile.open(path) as image:
        section = next(each for each in image.sections if each.name == "INODE_DIR")
    data = bytearray(path.read_bytes())
    at = data.index(encode_varint(child), section.offset)
    data[at : at + len(encode_varint(child))] = encode_varint(child + 50)
    path.write_bytes(data)
    return path


def test_child_without_an_inode_stops_the_replay(tmp_path: Path) -> None:
    """Kernels and plain functions find the damage while they drop the subtree; the namespace is then unusable."""
    builder = base(HADOOP2)
    lost = builder.file("/old/a/lost").id
    path = with_lost_child(builder.save(tmp_path), lost)
    with ImageFile.open(path, verify_md5=False) as image:
        loaded = load_image(image)
        segment = segment_after(loaded.namespace, [delete("/old")], HADOOP2)
        with pytest.raises(RecordError, match=r"damaged|not an inode") as caught:
            replay(loaded.namespace, segment)
    assert caught.value.section == "INODE_DIR"


@needs_kernels
def test_lost_child_beside_a_path_is_detected_only_if_it_matters(tmp_path: Path) -> None:
    builder = base(HADOOP2)
    lost = builder.file("/old/a/zz").id
    builder.file("/more")
    path = with_lost_child(builder.save(tmp_path), lost)
    for step, refused in ((times("/old/a/f1", 5), False), (times("/old/a/nothing", 5), True)):
        with ImageFile.open(path, verify_md5=False) as image:
            loaded = load_image(image)
            segment = segment_after(loaded.namespace, [step], HADOOP2)
            if not refused:
                assert replay(loaded.namespace, segment) == 1
                continue
            with pytest.raises(RecordError, match="child that is not an inode"):
                replay(loaded.namespace, segment)


# ---- tables of names ---------------------------------------------------------------------------------------


CROWD = 9000


def crowded(layout: int) -> ImageBuilder:
    """Return a directory of many files whose ids do not ascend by name; their table is too small at first."""
    builder = base(layout)
    builder.directory("/old/big")
    for number in range(CROWD):
        builder.file(f"/old/big/f{number * 7 % CROWD}")
    return builder


def questions() -> list[EditOp]:
    """Return lookups of several files in turn, of new files, and of the new files again."""
    return [
        *(times(f"/old/big/f{number * 7919 % CROWD}", number) for number in range(3000)),
        *(add(f"/old/big/g{number}", 40_001 + number) for number in range(500)),
        *(rename(f"/old/big/f{number}", f"/old/big/h{number}") for number in range(0, CROWD, 18)),
        *(delete(f"/old/big/{name}{number}") for number in range(0, 486, 18) for name in "gh"),
    ]


@needs_kernels
@pytest.mark.parameters(2)
@pytest.mark.parametrize("by_id", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_lookups_in_a_directory_create_a_name_table(tmp_path: Path, layout: int, by_id: bool) -> None:
    builder = crowded(layout)
    if not by_id:
        builder.order = lambda inode: -inode.id
    path = builder.save(tmp_path)
    assert rare(path, questions(), layout) == []
    merged(path, *questions())
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        assert (loaded.index.arrays.slots.size == 0) == by_id
        replay(loaded.namespace, segment_after(loaded.namespace, questions(), layout))
        compiled = loaded.namespace.compiled
        assert isinstance(compiled, CompiledReplay)
        assert compiled._named_used >= 2 * CROWD


@needs_kernels
def test_directory_with_a_lost_child_gets_no_name_table(tmp_path: Path) -> None:
    builder = crowded(HADOOP2)
    lost = builder.file("/old/big/zz").id
    path = with_lost_child(builder.save(tmp_path), lost)
    asked = [times(f"/old/big/f{number}", number) for number in range(3000)]
    for steps, refused in ((asked, False), ([*asked, times("/old/big/nothing", 5)], True)):
        with ImageFile.open(path, verify_md5=False) as image:
            loaded = load_image(image)
            segment = segment_after(loaded.namespace, steps, HADOOP2)
            if refused:
                with pytest.raises(RecordError, match="child that is not an inode"):
                    replay(loaded.namespace, segment)
            else:
                assert replay(loaded.namespace, segment) == len(steps)


@needs_kernels
def test_names_are_found_without_space_for_name_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = crowded(HADOOP2).save(tmp_path)
    grow = GrowableArray.grow

    def full(table: GrowableArray, used: int, needed: int) -> None:
        if table.array.dtype == np.uint32:
            raise ImageStorageError("no room", hint="Free some.")
        grow(table, used, needed)

    monkeypatch.setattr(GrowableArray, "grow", full)
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        assert replay(loaded.namespace, segment_after(loaded.namespace, questions(), HADOOP2)) == len(questions())
        assert isinstance(loaded.namespace.compiled, CompiledReplay)
        # the tables of small directories had space
        assert loaded.namespace.compiled._named_used < 2 * CROWD
    monkeypatch.undo()
    merged(path, *questions())


@pytest.mark.parametrize("at_zero", [True, False])
def test_counters_that_an_image_lacks_are_not_written(tmp_path: Path, at_zero: bool) -> None:
    builder = base(HADOOP2)
    builder.sections["NS_INFO"] = encode_delimited(pb.NameSystemSection(namespaceId=1, transactionId=100))
    path = builder.save(tmp_path)
    found = []
    counted = [ops.AllocateBlockIdOp(block_id=0), ops.SetGenstampV2Op(genstamp=0)] if at_zero else []
    for compiled in (True, False):
        out = bytearray()
        with ImageFile.open(path) as image:
            loaded = load_image(image)
            steps = [times("/old", 5), *counted]
            segment = segment_after(loaded.namespace, steps, HADOOP2)
            replay(loaded.namespace, segment if compiled else steps)
            loaded.write(out.extend)
        found.append(bytes(out))
    assert found[0] == found[1]
    with ImageFile.open(store(tmp_path / "out", found[0], 101 + len(counted)), verify_md5=False) as image:
        written = {field.name for field, _ in image.ns_info().ListFields()}
    assert written == {"namespaceId", "transactionId", *(("genstampV2", "lastAllocatedBlockId") if at_zero else ())}
