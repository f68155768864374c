"""Files that were concatenated after a snapshot, and are therefore only in the snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InconsistentNamespaceError, ReplayError
from journal import ops
from journal.ops import Block
from tests.engine.image_builder import HADOOP2, HADOOP3, LAYOUTS
from tests.engine.op_makers import LATER, add, close, mkdir, rename
from tests.engine.snapshot_support import BLOCKS, HEAL, NEW, WHOLE, Setting, allow, create, remove

layouts = pytest.mark.parametrize("layout", LAYOUTS)
SNAPSHOT = [allow(), create("s0")]


@layouts
def test_new_concat_source_leaves_no_created_name(tmp_path: Path, layout: int) -> None:
    """Hadoop 2.7 leaves the created name in memory, and then cannot load its own image."""
    new = [add("/s/n", NEW), ops.AddBlockOp(path="/s/n", blocks=(Block(7, 0, 1007),))]
    closed = close("/s/n", blocks=(Block(7, 11, 1007),))
    joined = ops.ConcatDeleteOp(trg="/s/f", srcs=("/s/n",), timestamp=LATER)
    found = Setting(tmp_path, layout, HEAL).merged(*SNAPSHOT, *new, closed, mkdir("/s/m", NEW + 1), joined)
    assert found.created("/s", 0) == ["m"]
    assert NEW not in found.image.inodes
    assert found.image.blocks("/s/f") == [*BLOCKS, (7, 11, 1007)]
    assert found.file_diff("/s/f", 0).fileSize == WHOLE
    assert found.image.mtime("/s") >= LATER


@layouts
def test_concat_source_may_have_been_renamed_in_a_snapshot_that_was_deleted(tmp_path: Path, layout: int) -> None:
    """Hadoop 2.7 stops at this source and does not log the operation. Hadoop 2.10, which has the same layout, logs
    it.
    """
    before = [*SNAPSHOT, rename("/s/d/f", "/s/n")]
    joined = ops.ConcatDeleteOp(trg="/s/f", srcs=("/s/n",), timestamp=LATER)
    setting = Setting(tmp_path, layout)
    found = setting.merged(*before, remove("s0"), joined)
    assert setting.ids["/s/d/f"] not in found.image.inodes
    assert len(found.image.blocks("/s/f")) == 2 * len(BLOCKS)
    if layout == HADOOP2:
        with pytest.raises(ReplayError, match="a file that snapshots contain under another name"):
            setting.merged(*before, joined)


@pytest.mark.parametrize("source", ["/s/f", "/s/d/f", "/s/d/n"], ids=["itself", "elsewhere", "renamed"])
def test_concat_source_in_a_snapshot_becomes_an_empty_file(tmp_path: Path, source: str) -> None:
    """Hadoop's replay accepts this source of CONCAT, but Hadoop cannot load the resulting image."""
    before = [*SNAPSHOT, rename("/s/d/f", "/s/d/n")] if source == "/s/d/n" else SNAPSHOT
    joined = ops.ConcatDeleteOp(trg="/s/f", srcs=(source,), timestamp=LATER)
    setting = Setting(tmp_path, HADOOP3, HEAL)
    kept = setting.ids["/s/f" if source == "/s/f" else "/s/d/f"]
    found = setting.merged(*before, joined)
    assert kept in found.at("s0").values()
    blocks = {inode.id: len(inode.file.blocks) for inode in found.image.inodes.values()}
    assert blocks[kept] == 0
    assert source == "/s/f" or blocks[setting.ids["/s/f"]] == 2 * len(BLOCKS)
    with pytest.raises(InconsistentNamespaceError, match="the snapshots are inconsistent"):
        Setting(tmp_path / "strict", HADOOP3).merged(*before, joined)
