"""Parquet files of the tasks have the content of Spark's writer, complete or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow.parquet as pq
import pytest

from bench.shape_image import write_shape
from bench.shape_layout import PLAIN, Layout
from image_format.errors import ImageFormatError
from pipeline import read_image
from pipeline.direct_parquet import write_parquet
from pipeline.errors import OutputError
from tests.cli_runner import run_cli
from tests.depth import deep
from tests.recorded_cases import ALL_CASES, RECORDED, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = Case(RECORDED / "hadoop-3.4.1" / "snapshots-basic")
LARGEST = max(ALL_CASES, key=lambda case: case.image("after").stat().st_size)


@pytest.mark.parametrize("table", ["inodes", "blocks", "directories"])
@pytest.mark.parameters(1)
def test_the_rows_equal_those_of_the_data_source(spark: SparkSession, tmp_path: Path, table: str) -> None:
    case = LARGEST if deep() else SMALL
    image, target = str(case.image("after")), tmp_path / "table"
    frame = read_image(spark, image, table)
    rows = write_parquet(spark.sparkContext, image, target, table=table, options={"partitions": "3"})
    written = spark.read.parquet(str(target))
    assert rows == frame.count() > 0
    assert written.schema.simpleString() == frame.schema.simpleString()
    assert not written.exceptAll(frame).take(1)
    assert not frame.exceptAll(written).take(1)
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_each_partition_becomes_one_file(spark: SparkSession, tmp_path: Path) -> None:
    image = write_shape(tmp_path, Layout(PLAIN, 1_000))
    assert write_parquet(spark.sparkContext, str(image), tmp_path / "rows", options={"partitions": "2"}) == 1_021
    files = sorted((tmp_path / "rows").glob("part-*"))
    assert [pq.read_metadata(path).num_rows for path in files] == [510, 511]
    assert sorted(path.name for path in (tmp_path / "rows").iterdir() if path not in files) == ["_SUCCESS"]


def test_an_existing_directory_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    image = write_shape(tmp_path, Layout(PLAIN, 100))
    (tmp_path / "rows").mkdir()
    with pytest.raises(OutputError, match="already exists"):
        write_parquet(spark.sparkContext, str(image), tmp_path / "rows")


def test_a_damaged_image_leaves_no_output(spark: SparkSession, tmp_path: Path) -> None:
    image = write_shape(tmp_path, Layout(PLAIN, 1_000))
    content = bytearray(image.read_bytes())
    content[20_000:20_100] = b"\xff" * 100
    image.write_bytes(content)
    image.with_name(f"{image.name}.md5").unlink()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ImageFormatError, match="damaged inode record"):
        write_parquet(spark.sparkContext, str(image), tmp_path / "rows")
    assert sorted(tmp_path.iterdir()) == before


class TestCommand:
    @pytest.fixture(autouse=True)
    def _in_session(self, spark: SparkSession) -> Iterator[None]:
        """The tests' session, which the command must not stop."""
        with (
            mock.patch("pipeline.cli.spark_command.build_context", return_value=spark.sparkContext),
            mock.patch.object(spark.sparkContext, "stop"),
        ):
            yield

    def test_export_of_some_columns_from_a_storage_directory(self, tmp_path: Path) -> None:
        (tmp_path / "current").mkdir()
        write_shape(tmp_path / "current", Layout(PLAIN, 100))
        out = tmp_path / "rows"
        code, message, err = run_cli(
            "export", tmp_path, out, "--columns", "path,length", "--compression", "none", "--json"
        )
        assert (code, err) == (0, "")
        rows = pq.read_table(out)
        assert json.loads(message) == {"table": "inodes", "rows": rows.num_rows, "out": str(out)}
        assert rows.num_rows > 100
        assert rows.column_names == ["path", "length"]

    def test_errors_are_reported_in_one_line(self, tmp_path: Path) -> None:
        image = write_shape(tmp_path, Layout(PLAIN, 100))
        code, message, err = run_cli("export", image, tmp_path)
        assert (code, message) == (6, "")
        assert f"{tmp_path} already exists" in err
        code, message, err = run_cli("export", image, tmp_path / "rows", "--table", "nosuch")
        assert (code, message) == (2, "")
        assert "nosuch" in err
        code, message, err = run_cli("export", image, tmp_path / "absent" / "rows")
        assert (code, message) == (6, "")
        assert "absent" in err
