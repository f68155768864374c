"""Replay by kernels below snapshots: notes for Python, and operations left to the plain functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ReplayError
from journal import ops
from journal.ops import Block, EditOp
from tests.engine.image_builder import BASE_TXID, HADOOP2, HADOOP3, LAYOUTS, merge_bytes, merged, store
from tests.engine.op_makers import add, close, delete, mkdir, rename, rename_old, set_permissions, times
from tests.engine.replay_scenes import base, needs_kernels, rare
from tests.engine.snapshot_support import BLOCKS, Setting, allow, create, retitle

layouts = pytest.mark.parametrize("layout", LAYOUTS)


@needs_kernels
@layouts
def test_kernels_change_inodes_that_a_snapshot_contains(layout: int, tmp_path: Path) -> None:
    """Files and directories of the base change below a snapshot, and some of them again after later snapshots."""
    path = base(layout).save(tmp_path)
    edits = [
        allow("/old"),
        create("s0", "/old"),
        set_permissions("/old/a/f1", 0o600),
        times("/old/a/f1", 5),
        ops.SetOwnerOp(src="/old/a/f2", username="hdfs"),
        ops.SetReplicationOp(path="/old/a/f2", replication=2),
        set_permissions("/old/a", 0o700),
        mkdir("/old/a/d", 20_001),
        add("/old/a/n", 20_002),
        close("/old/a/n"),
        times("/old/a/n", 7),
        delete("/old/a/n"),
        delete("/old/a/d"),
        add("/old/a/n2", 20_004),
        add("/old/a/n3", 20_005),
        close("/old/a/n3"),
        delete("/old/a/f1"),
        delete("/old/a/f3"),
        rename_old("/old/a/f4", "/old/a/g4"),
        rename("/old/a/f5", "/old/g5"),
        rename("/old/a/f6", "/g6"),
        rename("/old/a/f7", "/old/a/f8", overwrite=True),
        set_permissions("/old/a/f9", 0o600),
        rename("/old/a/f10", "/old/a/f9", overwrite=True),
        rename("/old/a/n2", "/old/a/f11", overwrite=True),
        rename("/old/a/f11", "/old/a/n3", overwrite=True),
        add("/old/a/f3", 20_003),
        create("s1", "/old"),
        retitle("s0", "s2", "/old"),
        create("s0", "/old"),
        retitle("s1", "s1", "/old"),
        times("/old/a/f2", 8),
        set_permissions("/old/a", 0o750),
        close("/old/a/f3"),
        delete("/old/a/f3"),
    ]
    merged(path, *edits)
    assert rare(path, edits, layout) == ["OP_ALLOW_SNAPSHOT"]


@needs_kernels
@layouts
def test_kernels_leave_unclear_changes_below_a_snapshot_to_plain_functions(layout: int, tmp_path: Path) -> None:
    path = base(layout).save(tmp_path)
    before = [
        add("/old/a/open", 20_001),
        add("/old/a/opened", 20_002),
        allow("/old"),
        create("s0", "/old"),
        rename("/old/a/f1", "/old/a/g1"),
    ]
    edits = [
        times("/old/a/g1", 5),
        delete("/old/a/opened"),
        rename("/old/a/f2", "/old/a/open", overwrite=True),
        rename("/old/a", "/old/b"),
        times("/old/b/f4", 5),
        delete("/old/b"),
    ]
    merged(path, *before, *edits)
    assert rare(path, [*before, *edits], layout)[1:] == [op.name for op in edits]


@needs_kernels
@layouts
def test_kernels_use_names_from_the_snapshot_diffs_of_an_image(layout: int, tmp_path: Path) -> None:
    """Some files in the image were created after the snapshot; a plain function is the first to read the diffs."""
    before = [
        allow("/old/a"),
        create("s0", "/old/a"),
        add("/old/a/n", 20_001),
        close("/old/a/n"),
        add("/old/a/m", 20_002),
        close("/old/a/m"),
        delete("/old/a/f1"),
        add("/old/a/f1", 20_003),
        close("/old/a/f1"),
    ]
    path = store(tmp_path, merge_bytes(base(layout).save(tmp_path), before), BASE_TXID + len(before))
    edits = [
        set_permissions("/old/a/f0", 0o600),
        times("/old/a/n", 5),
        delete("/old/a/n"),
        rename("/old/a/m", "/old/m"),
        delete("/old/a/f1"),
        delete("/old/a/f2"),
    ]
    merged(path, *edits)
    assert rare(path, edits, layout) == ["OP_SET_PERMISSIONS"]


@needs_kernels
def test_more_changes_below_a_snapshot_than_fit_in_the_notes(tmp_path: Path) -> None:
    builder = base(HADOOP3)
    for number in range(3000):
        builder.file(f"/old/a/more-{number}")
    edits = [
        allow("/old"),
        create("s0", "/old"),
        *(rename(f"/old/a/more-{number}", f"/old/m-{number}") for number in range(1500)),
        *(delete(f"/old/a/more-{number}") for number in range(1500, 3000)),
    ]
    path = builder.save(tmp_path)
    merged(path, *edits)
    assert rare(path, edits, HADOOP3) == ["OP_ALLOW_SNAPSHOT"]


CHANGES: list[Callable[[int], EditOp]] = [
    lambda number: set_permissions(f"/old/a/f{number}", 0o600),
    lambda number: add(f"/old/a/n{number}", 20_001 + number),
    lambda number: mkdir(f"/old/a/n{number}", 20_001 + number),
    lambda number: delete(f"/old/a/f{number}"),
    lambda number: rename(f"/old/a/f{number}", f"/old/n{number}"),
    lambda number: rename_old(f"/old/a/f{number}", f"/old/n{number}"),
]


@needs_kernels
@pytest.mark.parameters(len(CHANGES))
@layouts
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change(0).name)
def test_changes_of_one_kind_below_a_snapshot_do_not_fit_in_the_notes(
    change: Callable[[int], EditOp], layout: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.replay.compiled._NOTES", 12)
    path = base(layout).save(tmp_path)
    edits = [allow("/old"), create("s0", "/old"), *map(change, range(20))]
    merged(path, *edits)
    assert rare(path, edits, layout) == ["OP_ALLOW_SNAPSHOT"]


@layouts
@pytest.mark.parametrize(
    "wrong",
    [create("s0", "/old"), create("s1", "/old/a"), retitle("s1", "s2", "/old"), retitle("s0", "s3", "/old")],
    ids=["made-twice", "not-snapshottable", "unknown", "name-is-taken"],
)
def test_invalid_snapshot_operation_between_kernel_runs_is_an_error(wrong: EditOp, layout: int, tmp_path: Path) -> None:
    path = base(layout).save(tmp_path)
    before = [allow("/old"), create("s0", "/old"), create("s3", "/old"), times("/old/a/f1", 5)]
    with pytest.raises(ReplayError) as caught:
        merged(path, *before, wrong, times("/old/a/f2", 5), delete("/old/a/f1"))
    assert caught.value.txid == BASE_TXID + len(before) + 1


@layouts
def test_snapshot_copy_contains_an_acl_set_by_kernels(layout: int, tmp_path: Path) -> None:
    """The snapshot's copy of the directory contains the ACL, which Python sets when the kernels return."""
    path = base(layout).save(tmp_path)
    entries = (ops.AclEntry(0, 0, 7, None), ops.AclEntry(1, 0, 5, "bob"), ops.AclEntry(1, 0, 5, None))
    acl = (*entries, ops.AclEntry(2, 0, 5, None), ops.AclEntry(3, 0, 1, None))
    made = [
        allow("/old"),
        create("s0", "/old"),
        mkdir("/old/d", 20_001, acl_entries=acl),
        create("s1", "/old"),
        set_permissions("/old/d", 0o700),
    ]
    merged(path, *made)


@pytest.mark.parameters(2)
@pytest.mark.parametrize(
    ("more", "kept"), [((), 100), ((Block(3, 10, 1002),), 90)], ids=["same blocks", "another block"]
)
def test_kernel_sets_whether_the_last_block_is_complete(more: tuple[Block, ...], kept: int, tmp_path: Path) -> None:
    """When Hadoop 2.7 completes a block, a snapshot keeps the block under construction; a snapshot shares a complete
    block.
    """
    blocks = (*(Block(*each) for each in BLOCKS), *more)
    *before, last = blocks
    first, second = (ops.AppendOp(path="/s/f", client_name="c", client_machine="m", new_block=True) for _ in range(2))
    length = sum(block.num_bytes for block in blocks)
    edits = [
        first,
        ops.UpdateBlocksOp(path="/s/f", blocks=blocks),
        allow(),
        create("s0"),
        ops.TruncateOp(src="/s/f", client_name="c", client_machine="m", new_length=length, timestamp=5000),
        close("/s/f", blocks=(*before, last._replace(num_bytes=90))),
        second,
        close("/s/f", blocks=(*before, last._replace(num_bytes=100))),
    ]
    setting = Setting(tmp_path, HADOOP2)
    found = setting.merged(*edits)
    assert found.image.blocks("/s/f")[-1][1] == 100
    assert found.file_diff("/s/f", 0).blocks[-1].numBytes == kept
    assert rare(setting.builder.save(tmp_path), edits, HADOOP2)[:2] == ["OP_APPEND", "OP_ALLOW_SNAPSHOT"]
