"""HDFS images and edits on Spark: data sources, the checkpoint as a job, a lake of tables, reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("fsimage")` and `spark.read.format("hdfs_edits")` known to a session.

    Brings files of any file system to the executors. Errors of the sources are raised as the `HdfsError` that they are.
    """
    from pipeline.sources.edits import EditsDataSource
    from pipeline.sources.fsimage import FsImageDataSource
    from pipeline.staging import serve_staging
    from pipeline.task_errors import raise_typed

    raise_typed()
    serve_staging(spark)
    for source in (FsImageDataSource, EditsDataSource):
        spark.dataSource.register(source)


def read_image(
    spark: SparkSession, path: str, table: str = "inodes", columns: Sequence[str] | None = None
) -> DataFrame:
    """A table of the image at `path`: a file, or a storage directory's newest image, on any file system of Spark's.

    `columns` are made and sent alone, which is quicker than a `select` afterwards: Spark asks a Python data source
    for all of them.
    """
    reader = spark.read.format("fsimage").option("table", table)
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    return reader.load(path)


def read_edits(spark: SparkSession, path: str, columns: Sequence[str] | None = None, **options: str) -> DataFrame:
    """The transactions of a segment or of a directory's segments; `options` as the data source takes them."""
    reader = spark.read.format("hdfs_edits").options(**options)
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    return reader.load(path)
