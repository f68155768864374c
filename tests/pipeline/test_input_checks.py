"""Checks of a command's inputs before Spark starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from checkpointer.merging.engines import MergeTask
from journal.segment_file import EditLogSegment
from pipeline.errors import PipelineSetupError, SourceFileError
from pipeline.input_checks import check_edits, check_image, is_small
from pipeline.merge import spark_session
from pipeline.merge.engine import SparkEngine
from pipeline.session import settings
from site_config.engine_settings import SparkSettings
from tests.engine.image_builder import ImageBuilder
from tests.recorded_cases import RECORDED

CASE = RECORDED / "hadoop-3.4.1" / "snapshots-basic"


@pytest.mark.recorded
def test_valid_inputs_are_accepted(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (lake / "images" / "_delta_log").mkdir(parents=True)
    for uri in (str(CASE / "after"), f"file://{CASE / 'after'}", str(lake), f"{lake}@7", "hdfs://nn/image"):
        check_image(uri)
    for uri in (str(CASE / "before"), str(lake), "bookkeeper://zk:2181/path"):
        check_edits(uri)


@pytest.mark.recorded
def test_only_small_local_files_make_a_small_job(tmp_path: Path) -> None:
    images, edits = [str(CASE / "after"), str(CASE / "before")], str(CASE / "before")
    assert is_small(images, edits)
    assert is_small(images[:1], "")
    lake = tmp_path / "lake"
    (lake / "images" / "_delta_log").mkdir(parents=True)
    large = ImageBuilder().save(tmp_path / "large")
    os.truncate(large, 1 << 30)
    for others, ours in (([str(large)], ""), ([str(lake)], ""), ([f"{lake}@7"], ""), (["hdfs://nn/a"], "")):
        assert not is_small([*images, *others], ours)
    assert not is_small(images, "s3a://bucket/edits")


def test_the_error_names_an_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "edits_0000000000000000001-0000000000000000002").symlink_to(tmp_path / "none")
    with pytest.raises(SourceFileError, match="cannot be read"):
        check_edits(str(tmp_path))


def test_settings_for_small_jobs_apply_only_to_local_masters() -> None:
    assert settings("local[2]", "1g", small=True)["spark.sql.shuffle.partitions"] == "1"
    assert settings("local[2]", "1g")["spark.sql.shuffle.partitions"] == "32"
    assert settings("yarn", "1g", small=True) == settings("yarn", "1g")


def test_a_small_merge_uses_the_settings_for_small_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def start(**options: Any) -> None:
        asked.append(options)
        raise PipelineSetupError("no Spark in this test")

    monkeypatch.setattr(spark_session, "build_context", start)
    image, large = tmp_path / "fsimage_1", tmp_path / "edits"
    image.write_bytes(b"image")
    large.touch()
    os.truncate(large, 17 << 20)
    for segments in ((), (EditLogSegment(2, 3, large),), (EditLogSegment(2, 3, tmp_path / "missing"),)):
        with pytest.raises(PipelineSetupError):
            SparkEngine(SparkSettings()).merge(MergeTask(image, 1, segments, 3, (tmp_path,)))
    assert [each["small"] for each in asked] == [True, False, False]
