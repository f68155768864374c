"""What of the namespace reaches the driver: no more than the edits touch."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.generate import generate_edits, generate_image
from checkpointer.offline import merge_directory, plan_directory
from tests.pipeline.merge_support import merge_on_spark

if TYPE_CHECKING:
    pass


@pytest.mark.usefixtures("spark")
def test_what_comes_to_the_driver_goes_by_the_edits_not_by_the_image(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fetched = []
    for files in (2_000, 40_000):
        folder = tmp_path / str(files) / "current"
        folder.mkdir(parents=True)
        generate_image(folder, files)
        generate_edits(folder, files, 300)
        with caplog.at_level(logging.INFO, "pipeline.merge.checkpoint"):
            made = merge_on_spark(folder.parent)
        spark_bytes = made.saved.paths[0].read_bytes()
        for path in made.saved.paths:
            path.unlink()
        local = merge_directory(plan_directory(folder.parent))
        assert local.saved.paths[0].read_bytes() == spark_bytes
        found = re.search(r"(\d+) inode records of (\d+) came to the driver, (\d+) times", caplog.text)
        assert found is not None
        records, slots, on_demand = map(int, found.groups())
        caplog.clear()
        assert slots >= files
        assert on_demand == 0
        fetched.append(records)
    small, large = fetched
    # 300 operations, each with a path of a few directories; the image is twenty times as large
    assert small <= large + 300
    assert large < 300 * 6
