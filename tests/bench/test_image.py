"""Generated images are the same for the same seed, consistent, and as skewed as declared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.kernels.names import MOST_DEPTH
from bench.tree import LEAST_INODES, Tree
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.index import ImageIndex
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.verify.checker import verify_image
from tests.bench.made import INODES, make


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "current").iterdir()}


@pytest.mark.parametrize("snapshots", [False, True])
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, snapshots: bool) -> None:
    for name in ("a", "b"):
        make(tmp_path / name, snapshots=snapshots)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    other = make(tmp_path / "c", snapshots=snapshots, seed=2)
    assert other.path.read_bytes() != (tmp_path / "a" / "current" / other.path.name).read_bytes()


@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize("inodes", [LEAST_INODES, 999, INODES, 40_000])
def test_generated_images_have_no_findings(tmp_path: Path, inodes: int, snapshots: bool) -> None:
    base = make(tmp_path, snapshots=snapshots, inodes=inodes)
    found = verify_image(base.path)
    assert [str(finding) for finding in found.findings.listed] == []
    if not snapshots:
        assert found.inodes == inodes


def test_generated_images_contain_snapshots(tmp_path: Path) -> None:
    base = make(tmp_path, snapshots=True, inodes=40_000)
    assert len(base.snapshottable) > 1
    with ImageFile.open(base.path) as image:
        header = next(image.records("SNAPSHOT"))
        assert pb.SnapshotSection.FromString(bytes(header.body)).numSnapshots == 2 * len(base.snapshottable)


def test_fewer_inodes_than_a_tree_needs_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 200 inodes"):
        Tree(LEAST_INODES - 1)


def test_generated_trees_have_the_declared_distribution() -> None:
    tree = Tree(1_000_000)
    files = np.diff(tree.arrays.ranks) - 1
    largest = np.sort(files)[::-1]
    assert files.sum() == tree.files
    assert files.min() >= 0
    assert np.median(files) <= 5
    assert largest[: tree.directories // 100].sum() > tree.files // 4
    assert tree.arrays.depths.max() == MOST_DEPTH
    assert tree.last_id == Tree.id_at(999_999)


def test_tree_names_and_positions_equal_those_of_the_image(tmp_path: Path) -> None:
    base = make(tmp_path)
    with ImageFile.open(base.path) as image:
        index = ImageIndex(image)
        assert index.slot_count == INODES
    tree = base.tree
    names = {tree.path(directory) for directory in range(tree.directories)}
    assert len(names) == tree.directories
    assert Tree.id_at(0) == ROOT_INODE_ID
    for rank in (0, 1, INODES // 2, INODES - 1):
        directory = tree.directory_of(rank)
        assert tree.arrays.ranks[directory] <= rank < tree.arrays.ranks[directory + 1]
