"""Files and settings of the driver's JVM, and the only place where the pipeline accesses this JVM."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pipeline
from pipeline.errors import SourceFileError
from pipeline.hadoop_files import HadoopFiles, hadoop_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PRIVATE = re.compile(r"\b_(?:active_spark_context|activeSession|gateway|instantiatedSession|jsc|jsparkSession|jvm)\b")
_ROOT = Path(pipeline.__file__).parent


def test_files_and_settings_equal_those_of_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    """The test fails if a release of PySpark gives no access to its JVM."""
    files, uri = HadoopFiles(spark.sparkContext), f"viewfs://files{tmp_path}"
    path = tmp_path / "VERSION"
    path.write_text("clusterID=CID-ü\n")
    assert files.names(uri) == ["VERSION"]
    assert (files.is_folder(uri), files.is_folder(f"{uri}/VERSION"), files.is_folder(f"{uri}/none")) == (
        True,
        False,
        None,
    )
    assert files.matches(f"{uri}/V*") == [(f"{uri}/VERSION", False)]
    assert (files.exists(f"{uri}/VERSION"), files.exists(f"{uri}/none")) == (True, False)
    assert files.status(f"{uri}/VERSION") == (path.stat().st_size, path.stat().st_mtime_ns // 1_000_000)
    assert files.text(f"{uri}/VERSION") == "clusterID=CID-ü\n"
    key = "fs.viewfs.mounttable.files.link./tmp"
    assert files.configured([key, "checkpointer.no.such.key"]) == {key: "file:///tmp"}
    with (
        pytest.raises(SourceFileError, match=r"none cannot be read: .*FileNotFoundException"),
        hadoop_errors(f"{uri}/none"),
    ):
        files.status(f"{uri}/none")


def test_one_function_uses_a_private_attribute_of_pyspark() -> None:
    found = [
        (path.relative_to(_ROOT).as_posix(), name)
        for path in sorted(_ROOT.rglob("*.py"))
        for name in _PRIVATE.findall(path.read_text())
    ]
    assert found == [("hadoop_files.py", "_jvm")]
