"""Paths and patterns that `spark.read` accepts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.errors import SourceFileError
from tests.image_tools.dump_support import Viewed
from tests.pipeline.edits_support import rows
from tests.pipeline.recorded_inodes import read
from tests.recorded_cases import RECORDED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.recorded

BASIC = RECORDED / "hadoop-3.4.1" / "basic-files" / "before"
MEDIUM = Viewed(RECORDED / "hadoop-2.7.3" / "medium-20k" / "oiv_after.xml.gz").image


def image_of(case: str) -> Path:
    return Viewed(RECORDED / case / "oiv_after.xml.gz").image


def test_lists_and_patterns_read_several_images(spark: SparkSession, tmp_path: Path) -> None:
    expected = {}
    for case in ("hadoop-2.7.3/unicode", "hadoop-3.4.1/snapshots-basic"):
        image = image_of(case)
        folder = tmp_path / case.replace("/", "-") / "current"
        folder.mkdir(parents=True)
        for path in (image, image.with_name(f"{image.name}.md5")):
            shutil.copy(path, folder / path.name)
        expected[str(folder / image.name)] = len(read(image, tmp_path / "scratch", ("id",)))
    read_several = spark.read.format("fsimage").option("columns", "image,id")
    folders = [str(Path(image).parent) for image in expected]
    for frame in (
        read_several.load([*folders, folders[0]]),
        read_several.load(f"{tmp_path}/hadoop-*/current/fsimage_*"),
        read_several.load(f"file://{tmp_path}/{{hadoop-2.7.3-unicode,hadoop-3.4.1-*}}"),
        read_several.load(f"viewfs://files{tmp_path}/hadoop-[23]*/current/fsimage_*"),
    ):
        found = {row["image"]: row["count"] for row in frame.groupBy("image").count().collect()}
        named = expected if str(tmp_path) in next(iter(found)) else {Path(at).name: n for at, n in expected.items()}
        assert found == named
    assert spark.read.format("fsimage").option("columns", "image").load(folders).count() == sum(expected.values())
    with pytest.raises(SourceFileError, match="no fsimage in"):
        spark.read.format("fsimage").load(f"{tmp_path}/*/nothing*").count()


def test_a_file_whose_name_looks_like_a_pattern_is_one_image(spark: SparkSession, tmp_path: Path) -> None:
    image = tmp_path / "[a]" / MEDIUM.name
    image.parent.mkdir()
    shutil.copy(MEDIUM, image)
    frame = spark.read.format("fsimage").load(str(image))
    assert "image" not in frame.columns
    assert frame.count() > 1000


def test_lists_and_patterns_of_segments_are_read(spark: SparkSession) -> None:
    expected = [row["txid"] for row in rows(BASIC)]
    edits = spark.read.format("hdfs_edits").option("columns", "txid").load([str(BASIC), f"{BASIC}/edits_*"])
    assert sorted(row.txid for row in edits.collect()) == expected
