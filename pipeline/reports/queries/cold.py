"""Space of files that have not been used for a long time."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pipeline.reports.queries.classes import add_up


def cold_by(direct: DataFrame, key: str, *, limit: int) -> DataFrame:
    """Return the `limit` directories (key `path`, only their direct files) or owners (key `owner`) with most cold
    space.

    Columns: key, cold_files, cold_length, cold_raw (bytes), files, raw.
    """
    names = ("cold_files", "cold_length", "cold_raw", "files", "raw")
    found = direct.groupBy(key).agg(*(add_up(name).alias(name) for name in names)).where(sql.col("cold_files") > 0)
    return found.orderBy(sql.desc("cold_raw"), sql.desc("cold_files"), sql.asc_nulls_last(key)).limit(limit)
