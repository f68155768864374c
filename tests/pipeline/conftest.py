"""A Spark session that all tests of a process share, and the loggers of py4j."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.session import build_session
from tests.depth import deep
from tests.pipeline.lake_child import InProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores and, in the quick tier, the settings for small inputs.

    With the mount table, a test can read local files through Hadoop's FileSystem as `viewfs://files/`.
    """
    scratch: Path = tmp_path_factory.mktemp("spark")
    roots = {Path("/tmp"), Path(*scratch.parts[:2])}
    conf = {
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **{f"spark.hadoop.fs.viewfs.mounttable.files.link.{root}": root.as_uri() for root in roots},
    }
    if deep():
        conf["spark.sql.shuffle.partitions"] = "4"
    session = build_session(master="local[2]", conf=conf, small=not deep())
    yield session
    session.stop()


@pytest.fixture
def loggers() -> Iterator[None]:
    """Restore the loggers that `suppress_py4j_logs` changes."""
    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    filters, level = list(root.filters), py4j.level
    yield
    root.filters[:] = filters
    py4j.setLevel(level)


@pytest.fixture
def no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A substitute for a Spark context, which runs tasks that read images in this process."""
    monkeypatch.setattr("pipeline.sources.fsimage.host_scratch", lambda: tmp_path / "scratch")
    return InProcess()


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")
