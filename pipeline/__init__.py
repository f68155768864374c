"""HDFS images and edits on Spark: data sources, the checkpoint as a Spark job, a lake of tables, and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def register(spark: SparkSession) -> None:
    """Register the formats `fsimage` and `hdfs_edits` of `spark.read` with a session.

    Also start the service that transfers files of any file system to the executors, and make PySpark raise errors of
    the data sources as `HdfsError`.
    """
    from pipeline.sources.edits import EditsDataSource
    from pipeline.sources.fsimage import FsImageDataSource
    from pipeline.staging import serve_staging
    from pipeline.task_errors import raise_typed_errors

    raise_typed_errors()
    serve_staging(spark)
    for source in (FsImageDataSource, EditsDataSource):
        spark.dataSource.register(source)


def read_image(
    spark: SparkSession, path: str, table: str = "inodes", columns: Sequence[str] | None = None
) -> DataFrame:
    """Return a table of the image at `path`: a file, or the newest image of a storage directory, on any file system
    that Spark supports.

    The reader decodes and sends only `columns`. This is faster than a later `select`, because Spark asks a Python data
    source for all columns.
    """
    reader = spark.read.format("fsimage").option("table", table)
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    return reader.load(path)


def read_edits(spark: SparkSession, path: str, columns: Sequence[str] | None = None, **options: str) -> DataFrame:
    """Return the transactions of a segment, or of all segments in a directory; `options` configure the data source."""
    reader = spark.read.format("hdfs_edits").options(**options)
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    return reader.load(path)
