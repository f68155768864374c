"""Sums of directories that a warm namespace stores, compared with a walk over all inodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import live_content, live_sums
from engine.live_browser import LiveBrowser
from engine.merge import load_image
from engine.replay import replay
from engine.warm_namespace import WarmNamespace
from image_format.array_allocator import ArrayAllocator
from image_format.erasure_policies import ErasurePolicy
from image_format.reader import ImageFile
from image_tools import directory_sums
from image_tools.kernels import leaves
from image_tools.namespace_browser import LocatedInode, SubtreeTotals
from journal.ops import AllowSnapshotOp, CreateSnapshotOp, EditOp, SetReplicationOp
from tests.depth import examples
from tests.engine.image_builder import BASE_TXID, ImageBuilder, numbered
from tests.engine.op_makers import add, close, delete, mkdir, rename
from tests.engine.replay_scenes import block
from tests.engine.replay_twins import encoded
from tests.engine.snapshot_model import base
from tests.engine.snapshot_twin import SnapshotTwin, Step
from tests.image_format.image_support import bytes_in_files

LAYOUT = -67
PLAIN = [number for number, maker in enumerate(SnapshotTwin.MAKERS) if "snapshot" not in maker.__name__]
STEPS = st.lists(
    st.tuples(st.sampled_from(PLAIN) | st.integers(0, 255), *[st.integers(0, 255)] * 3), min_size=5, max_size=40
)


def directories(browser: LiveBrowser) -> Iterator[LocatedInode]:
    root = browser.root()
    waiting = [] if root is None else [root]
    while waiting:
        place = waiting.pop()
        yield place
        below = browser.page(place, b"", 1000).entries
        waiting += [each for each in below if each.inode.HasField("directory")]


def check(warm: WarmNamespace) -> None:
    """Compare the sums of every directory, and the sums that a kernel finds, with a walk that visits each directory."""
    with warm.reading(0, 0) as browser:
        kept = browser.sums
        assert kept is not None
        for place in directories(browser):
            walked = browser.content(place, lambda _: None)
            for sums in (kept, None):
                browser.sums = sums
                assert browser.content(place) == walked, place.inode.name


def test_sums_and_rows_share_one_memory_limit(tmp_path: Path) -> None:
    with ImageFile.open(ImageBuilder(LAYOUT).save(tmp_path)) as image:
        free = load_image(image, allocator=ArrayAllocator(smallest=1))
        limited = load_image(image, allocator=ArrayAllocator(free.allocator.in_memory, tmp_path, smallest=1))
        assert bytes_in_files(limited.allocator) == 0
        sums = limited.with_sums().sums
        assert sums is not None
        assert limited.allocator.in_memory <= free.allocator.in_memory
        assert bytes_in_files(limited.allocator) > 0


def play(warm: WarmNamespace, ops: list[EditOp], *, compiled: bool) -> None:
    given = list(numbered(ops, warm.last_txid))
    segment = encoded(given, LAYOUT) if compiled else None
    if segment is None:
        warm.apply(given)
    else:
        # `replay` itself does not replace the base, as the next `apply` would.
        warm.rebase()
        replay(warm.namespace, segment)
    assert warm.last_txid == (given[-1].txid if given else warm.last_txid)


@examples(60)
@given(steps=STEPS, saved_after=st.integers(0, 40), compiled=st.booleans())
def test_sums_equal_those_of_a_walk_after_every_step(steps: list[Step], saved_after: int, compiled: bool) -> None:
    builder, twin = base(LAYOUT)
    with TemporaryDirectory() as name, WarmNamespace(keeps_sums=True) as warm:
        folder = Path(name)
        warm.load(builder.save(folder))
        for number, step in enumerate(steps):
            if number == saved_after and warm.last_txid > BASE_TXID:
                warm.save([folder])
            play(warm, twin.apply(step), compiled=compiled)
            check(warm)


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[WarmNamespace]:
    """A namespace with /a/b/f of 7 bytes in its image."""
    with WarmNamespace(keeps_sums=True) as namespace:
        namespace.load(ImageBuilder(LAYOUT).save(tmp_path))
        made = [mkdir("/a", 20001), mkdir("/a/b", 20002), add("/a/b/f", 20003), close("/a/b/f", blocks=[block(1)])]
        play(namespace, made, compiled=False)
        namespace.save([tmp_path])
        namespace.rebase()
        yield namespace


def totals(warm: WarmNamespace, inode_id: int) -> SubtreeTotals:
    with warm.reading(0, 0) as browser:
        return browser.content(browser.chain(inode_id)[-1]).totals


def test_a_directory_without_changes_is_not_walked(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveBrowser, "child_ids", None)
    assert totals(warm, 20001) == SubtreeTotals(1, 2, 7, 21)


def test_a_moved_directory_keeps_its_sums(warm: WarmNamespace) -> None:
    play(warm, [mkdir("/new", 20009), rename("/a/b", "/new/b"), add("/new/b/g", 20010)], compiled=False)
    assert totals(warm, 20001) == SubtreeTotals(0, 1, 0, 0)
    assert totals(warm, 20009) == SubtreeTotals(2, 2, 7, 21)
    play(warm, [delete("/new/b/f")], compiled=True)
    assert totals(warm, 20009) == SubtreeTotals(1, 2, 0, 0)
    check(warm)


@pytest.mark.parametrize("compiled", [False, True])
def test_sums_are_current_after_edits(warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    """A reader does no work for many changes, whether kernels or Python replayed them."""
    monkeypatch.setattr(live_sums, "MAX_PENDING", 0)
    fewer = SetReplicationOp(path="/b/f", replication=1)
    play(warm, [add("/a/g", 20010), close("/a/g", blocks=[block(2)]), rename("/a/b", "/b"), fewer], compiled=compiled)
    warm.apply([])
    monkeypatch.setattr(live_sums, "settle", None)
    assert totals(warm, 20001) == SubtreeTotals(1, 1, 7, 21)
    assert totals(warm, 20002) == SubtreeTotals(1, 1, 7, 7)


def test_full_pass_after_more_changes_than_can_be_recorded(warm: WarmNamespace) -> None:
    check(warm)
    warm.namespace.table.changed = np.empty(1, np.int32)
    play(warm, [rename("/a/b", "/b"), add("/a/g", 20010), delete("/b/f")], compiled=True)
    check(warm)


def test_parent_and_child_directories_can_swap_places(warm: WarmNamespace) -> None:
    """The upper directory is moved below the lower directory between two reads."""
    check(warm)
    play(warm, [rename("/a/b", "/b"), rename("/a", "/b/a"), mkdir("/b/a/n", 20010)], compiled=True)
    assert totals(warm, 20002) == SubtreeTotals(1, 3, 7, 21)
    assert totals(warm, 20001) == SubtreeTotals(0, 2, 0, 0)
    check(warm)


@pytest.mark.parametrize("compiled", [False, True])
def test_sums_of_an_empty_directory_found_by_name_in_a_snapshot(
    warm: WarmNamespace, tmp_path: Path, compiled: bool
) -> None:
    """The row of the renamed directory exists before the directory that refers to it is opened."""
    made = [mkdir("/s", 20010), AllowSnapshotOp(snapshot_root="/s"), mkdir("/s/d", 20011), mkdir("/c", 20012)]
    renamed = [CreateSnapshotOp(snapshot_root="/s", snapshot_name="s"), rename("/s/d", "/c/d")]
    play(warm, [*made, *renamed], compiled=False)
    warm.save([tmp_path])
    play(warm, [mkdir("/s/n", 20020)], compiled=compiled)
    check(warm)
    play(warm, [mkdir("/c/d/n", 20021)], compiled=compiled)
    check(warm)
    play(warm, [rename("/c/d", "/d")], compiled=compiled)
    assert totals(warm, 20012) == SubtreeTotals(0, 1, 0, 0)
    check(warm)


def test_uncompiled_kernels_give_the_same_sums(
    warm: WarmNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for place in (directory_sums, live_content, live_sums):
        for name in ("add_leaves", "read_leaves", "settle", "sum_below"):
            if hasattr(place, name):
                monkeypatch.setattr(place, name, getattr(place, name).plainly)
    made = [mkdir("/s", 20004), AllowSnapshotOp(snapshot_root="/s"), mkdir("/s/d", 20005), add("/s/d/f", 20006)]
    play(warm, [*made, CreateSnapshotOp(snapshot_root="/s", snapshot_name="s"), rename("/s/d", "/a/d")], compiled=False)
    check(warm)
    warm.save([tmp_path])
    warm.rebase()
    check(warm)
    play(warm, [mkdir("/new", 20009), rename("/a/b", "/new/b"), add("/new/b/g", 20010), delete("/a/d")], compiled=True)
    check(warm)


def test_last_block_of_open_files_in_the_image_counts_as_full(tmp_path: Path) -> None:
    with WarmNamespace(keeps_sums=True) as warm:
        warm.load(ImageBuilder(LAYOUT).save(tmp_path))
        play(warm, [mkdir("/a", 20001), add("/a/open", 20002, blocks=[block(1)])], compiled=False)
        warm.save([tmp_path])
        warm.rebase()
        assert totals(warm, 20001) == SubtreeTotals(1, 1, 7, 3 * 128)
        check(warm)


def test_erasure_coding_policy_without_cell_size_is_ignored() -> None:
    units = directory_sums.policy_units(
        {64: ErasurePolicy("damaged", "rs", 3, 2, 0), 65: ErasurePolicy("whole", "rs", 3, 2, 1024)}
    )
    assert [leaves.space_of(2048, 1, number, units) for number in (64, 65)] == [2048, 2048 + 2 * 1024]
