"""One Spark session for all tests of a process, and the loggers that py4j uses."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.session import build_session, settings
from tests.depth import deep
from tests.pipeline.quick_java import quick_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, and in the quick tier the settings of a report on a small image.

    The mount table lets a test read local files through Hadoop's FileSystem as `viewfs://files/`.
    """
    scratch: Path = tmp_path_factory.mktemp("spark")
    roots = {Path("/tmp"), Path(*scratch.parts[:2])}
    conf = {
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **{f"spark.hadoop.fs.viewfs.mounttable.files.link.{root}": root.as_uri() for root in roots},
    }
    options = settings("local[2]", "1g")["spark.driver.extraJavaOptions"]
    if deep():
        conf["spark.sql.shuffle.partitions"] = "4"
    conf["spark.driver.extraJavaOptions"] = " ".join([options, *quick_start()])
    session = build_session(master="local[2]", conf=conf, small=not deep())
    yield session
    session.stop()


@pytest.fixture
def loggers() -> Iterator[None]:
    """What `suppress_py4j_logs` changes for good is as before after the test."""
    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    filters, level = list(root.filters), py4j.level
    yield
    root.filters[:] = filters
    py4j.setLevel(level)
