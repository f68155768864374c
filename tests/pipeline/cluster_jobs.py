"""Driver programs for tests: `python -m tests.pipeline.cluster_jobs JOB MASTER …`, one process for each driver."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import read_image
from pipeline.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_to_parquet(spark: SparkSession, image: str, target: str, partitions: str) -> dict[str, Any]:
    """Write the `inodes` table through a shuffle to Parquet; return the row count."""
    frame = spark.read.format("fsimage").option("partitions", partitions).load(image)
    frame.repartition(4, "id").write.parquet(target)
    return {"rows": spark.read.parquet(target).count()}


def count(spark: SparkSession, image: str) -> dict[str, Any]:
    """Print the row count of an image and the Java version of the driver."""
    (home,) = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.home')").collect()
    return {"rows": read_image(spark, image, columns=["id"]).count(), "java": home[0]}


def aggregate(spark: SparkSession, image: str) -> dict[str, Any]:
    """Return sums over the whole `inodes` table, paths included."""
    from pyspark.sql import functions as sql

    frame = read_image(spark, image, columns=["id", "path", "type", "length", "block_count"])
    row = frame.agg(
        sql.count("*").alias("rows"),
        sql.sum("id").alias("ids"),
        sql.count_if(sql.col("type") == "FILE").alias("files"),
        sql.sum("length").alias("length"),
        sql.sum("block_count").alias("blocks"),
        sql.sum(sql.crc32("path")).alias("paths"),
    ).first()
    assert row is not None
    return row.asDict()


def indexes(spark: SparkSession, image: str) -> dict[str, Any]:
    """Read an image with each executor; return the folders of the executors, and the indexes that their tasks see."""

    def seen(_: int) -> list[tuple[str, str, tuple[str, ...]]]:
        from pipeline.host_scratch import host_scratch

        folders = sorted(path.name for path in host_scratch().glob("image-*") if path.is_dir())
        return [(str(Path.cwd()), str(host_scratch()), tuple(folders))]

    rows = [read_image(spark, image, columns=["id"]).count() for _ in range(2)]
    context = spark.sparkContext
    found = context.parallelize(range(64), 64).flatMap(seen).distinct().collect()
    return {
        "rows": rows,
        "executors": sorted({executor for executor, _, _ in found}),
        "folders": sorted({folder for _, folder, _ in found}),
        "indexes": sorted({name for _, _, names in found for name in names}),
    }


JOBS = {job.__name__: job for job in (aggregate, count, indexes, table_to_parquet)}


def main() -> None:
    name, master, *words = sys.argv[1:]
    spark = build_session(master=master)
    try:
        answer = JOBS[name](spark, *words)
    finally:
        spark.stop()
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
