"""The benchmark counts the rows that Hadoop's viewer prints for the inodes of an image."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.oiv import run_oiv
from image_format.reader import ImageFile
from image_tools.dump.records import ImageRecords
from tests.image_format.image_support import RECORDED
from tests.interop.hadoop_home import NEWEST, skip_without


@pytest.mark.interop
def test_the_header_does_not_count_as_a_row(tmp_path: Path) -> None:
    skip_without(NEWEST)
    image = RECORDED / "hadoop-3.5.0/basic-files/after/fsimage_0000000000000000318"
    _, rows = run_oiv(image, tmp_path / "rows", "256m")
    with ImageFile.open(image) as opened:
        assert rows == ImageRecords(opened).inode_header().numInodes
