"""Memory of a merge, measured from outside on an image of the target size."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from bench.phases import run_phases
from bench.scene import make_edits, make_image
from bench.shape_edits import write_scattered
from bench.shape_image import write_shape
from bench.shape_layout import PLAIN, Layout
from checkpointer.merging.offline import plan_directory
from engine.merge import load_image
from engine.namespace import Namespace
from engine.replay.compiled import CompiledReplay
from engine.warm_namespace import WarmNamespace
from image_format.array_allocator import ArrayAllocator
from image_format.index import ImageIndex
from image_format.kernels.inode import INODE_DTYPE
from image_format.kernels.tables import LINK_DTYPE
from image_format.reader import ImageFile
from image_tools.kernels.subtree_sums import HELD_DTYPE
from journal.segment_file import SegmentTransactions
from tests.depth import scaled
from tests.image_format.image_support import recorded_images

FILES = 1_000_000
TRANSACTIONS = 100_000
LIMIT = 600_000_000

BYTES_AN_INODE = 24
BYTES_OF_COLUMNS = 4.5  # bytes per inode, of which:
BYTES_A_TOUCHED_INODE = 400
BYTES_A_SAVED_INODE = 8  # temporary
BYTES_OF_BUFFERS = 3 << 20
BYTES_OF_SUMS = 40  # bytes per directory
SPARE_SUMS = 4096
MARKS = 1  # bytes per inode: whether it was dropped
PARENT = 4  # bytes per inode: its parent, only with snapshots


@pytest.mark.deep
def test_a_merge_of_a_million_files_stays_below_its_limit(tmp_path: Path) -> None:
    current = tmp_path / "current"
    current.mkdir()
    write_shape(current, layout := Layout(PLAIN, FILES))
    write_scattered(current, layout, TRANSACTIONS)
    merge = run_phases([sys.executable, "-m", "bench.one_merge", str(current)])
    # pages of the mapped image are not counted, because the system reclaims them when needed
    assert 0 < merge.parts["whole"].anonymous < LIMIT


def index_bytes(index: ImageIndex) -> int:
    return sum(getattr(index.arrays, name).nbytes for name in index.arrays.__slots__)


def delta_bytes(namespace: Namespace) -> int:
    """Return the bytes written to arrays plus the largest temporary copy; pages without writes need no memory."""
    table, links = namespace.table, namespace.tree.links
    pool, tables = table.pool, (table.row_of.slots, links.slots, table.pool.slots)
    used = table.count * INODE_DTYPE.itemsize + table.names_used + table.blocks[: table.blocks_used].nbytes
    used += (links.count + pool.count) * LINK_DTYPE.itemsize + pool.used
    assert isinstance(namespace.compiled, CompiledReplay)
    used += 4 * namespace.compiled._named_used
    return used + sum(slots.nbytes for slots in tables) + max(slots.nbytes for slots in tables) // 2


@pytest.mark.parametrize("mix", ["jobs", "attributes"])
def test_memory_limit_of_inodes_and_touched_inodes(tmp_path: Path, mix: str) -> None:
    base = make_image(tmp_path / "base", 50_000, snapshots=False, seed=1)
    make_edits(base, tmp_path / "name", 50_000, mix, seed=2)
    plan = plan_directory(tmp_path / "name")
    with WarmNamespace() as warm:
        warm.load(plan.image)
        warm.apply(SegmentTransactions(plan.segments, plan.image_txid + 1))
        namespace = warm.namespace
        assert isinstance(namespace.base, ImageIndex)
        inodes, touched = namespace.base.slot_count, namespace.table.count
        assert touched > 5000
        arrays = namespace.base.arrays
        assert arrays.ids.nbytes + arrays.offsets.nbytes + arrays.slots.nbytes <= inodes * BYTES_OF_COLUMNS
        assert index_bytes(namespace.base) + inodes * (MARKS + PARENT) <= inodes * BYTES_AN_INODE
        assert delta_bytes(namespace) <= touched * BYTES_A_TOUCHED_INODE


def test_a_save_needs_little_memory_besides_its_arrays_for_new_inodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog of edits creates more inodes than fit into memory; the allocator places all large arrays in files."""
    monkeypatch.setattr("image_format.array_allocator._PIECE", 1 << 10)
    peaks, rows = [], []
    fewer, more = 100_000, scaled(2_000_000, quick=500_000)
    for transactions in (fewer, more):
        base = make_image(tmp_path / f"base-{transactions}", 1000, snapshots=False, seed=1)
        make_edits(base, folder := tmp_path / f"name-{transactions}", transactions, "jobs", seed=2)
        plan = plan_directory(folder)
        with WarmNamespace() as warm:
            warm.load(plan.image)
            warm.apply(SegmentTransactions(plan.segments, plan.image_txid + 1))
            tracemalloc.start()
            warm.save([folder / "current"])
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            rows.append(warm.namespace.table.count)
    assert rows[1] - rows[0] > (more - fewer) // 5
    # memory that the allocator maps is not traced
    assert peaks[1] - peaks[0] <= (rows[1] - rows[0]) * BYTES_A_SAVED_INODE + BYTES_OF_BUFFERS


def test_sums_take_40_bytes_for_each_directory(tmp_path: Path) -> None:
    with ImageFile.open(make_image(tmp_path, 50_000, snapshots=True, seed=1).path) as image:
        loaded = load_image(image, allocator=ArrayAllocator(smallest=1))
        before, directories = loaded.allocator.in_memory, loaded.index.arrays.directory_ids.size
        assert directories > 1000
        with_sums = loaded.with_sums()
        # rows without a directory are never written
        rows = directories + 1 + SPARE_SUMS
        held = loaded.namespace.table.rows.size * HELD_DTYPE.itemsize
        assert with_sums.allocator.in_memory - before <= rows * BYTES_OF_SUMS + held


def test_an_unsorted_image_takes_four_more_bytes_for_each_inode() -> None:
    for path in recorded_images():
        with ImageFile.open(path) as image:
            arrays = ImageIndex(image).arrays
            assert arrays.ids.low.nbytes == arrays.offsets.low.nbytes == 2 * arrays.ids.size
            assert arrays.slots.nbytes in (0, 4 * arrays.ids.size)
            assert arrays.slots.dtype == np.uint32
