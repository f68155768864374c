"""A Spark session that writes tables on request: reads and writes one JSON object per line."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.memory import java_peak
from pipeline import read_image
from pipeline.direct_parquet import write_parquet
from pipeline.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _by_spark(spark: SparkSession, image: str, target: str) -> None:
    read_image(spark, image).write.parquet(target)


def _by_tasks(spark: SparkSession, image: str, target: str) -> None:
    write_parquet(spark.sparkContext, image, Path(target))


def _discard(spark: SparkSession, image: str, target: str) -> None:
    """Read all columns into Spark's rows and discard them, to measure reading alone."""
    read_image(spark, image).write.format("noop").mode("overwrite").save()


WRITERS = {"spark": _by_spark, "tasks": _by_tasks, "read": _discard}


def main() -> None:
    started = time.perf_counter()
    spark = build_session(master=sys.argv[1], driver_memory=sys.argv[2])
    _print_answer({"seconds": time.perf_counter() - started})
    for line in sys.stdin:
        wish = json.loads(line)
        started = time.perf_counter()
        WRITERS[wish["writer"]](spark, wish["image"], wish["target"])
        seconds = time.perf_counter() - started
        _print_answer({"seconds": seconds, "driverPeakBytes": java_peak(os.getpid())})
    spark.stop()


def _print_answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
