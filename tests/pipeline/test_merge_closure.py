"""The part of the namespace that reaches the driver: only inodes that the edits touch."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from bench.generate import generate_edits, generate_image
from checkpointer.merging.offline import merge_directory, plan_directory
from journal.segment import iter_ops
from pipeline.merge.touched import inode_ids, touched_paths
from tests.pipeline.merge_support import merge_on_spark


def named_in(segment: Path) -> int:
    """Return the maximum number of inodes in operations: each directory in a path once, and inodes by id."""
    ops = list(iter_ops(segment.read_bytes()))
    names = {"/"}
    for touched in touched_paths(ops):
        path = Path(touched.path)
        names.update(map(str, (path, *path.parents)))
    return len(names) + len(inode_ids(ops))


@pytest.mark.usefixtures("spark")
def test_what_comes_to_the_driver_goes_by_the_edits_not_by_the_image(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for files in (2_000, 40_000):
        folder = tmp_path / str(files) / "current"
        folder.mkdir(parents=True)
        generate_image(folder, files)
        most = named_in(generate_edits(folder, files, 300))
        with caplog.at_level(logging.INFO, "pipeline.merge.checkpoint"):
            made = merge_on_spark(folder.parent)
        spark_bytes = made.saved.paths[0].read_bytes()
        for path in made.saved.paths:
            path.unlink()
        local = merge_directory(plan_directory(folder.parent))
        assert local.saved.paths[0].read_bytes() == spark_bytes
        found = re.search(r"the driver received (\d+) of (\d+) inode records, (\d+) fetches", caplog.text)
        assert found is not None
        records, slots, on_demand = map(int, found.groups())
        caplog.clear()
        assert slots >= files
        assert on_demand == 0
        assert 0 < records <= most
        # less than one an operation, most of which are on files that are new
        assert most < 300
