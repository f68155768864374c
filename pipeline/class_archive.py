"""Archive of the classes that Spark's JVM loads; it halves the start time of a driver.

Java calls this class data sharing. `checkpointer compile` makes the archive: a JVM runs small jobs and archives the
classes that it has loaded. An archive is valid for one Java and one PySpark, and its name identifies both. A JVM with
another class path ignores the archive.

    python -m pipeline.class_archive FILE      run the small job in a JVM that writes FILE at exit
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hadoop_common.child_module import child_module
from hadoop_common.quantities import duration
from pipeline.errors import PipelineSetupError
from pipeline.java import real_java_home
from pipeline.java_options import NO_WARNINGS, archive_file, spark_jars

_MASTER = "local[2]"
_LAST_LINES = 500
_OLD_SECONDS = 30 * 86_400


def archive_classes() -> str:
    """Make the archive for the Java that commands use, unless it exists; return a sentence about the result.

    The sentence is empty if the archive exists, or if PySpark or Java is missing. The sentence also reports an OSError.
    """
    try:
        archive = archive_file(real_java_home(os.environ))
    except PipelineSetupError:
        return ""
    if spark_jars() is None or archive.exists():
        return ""
    try:
        return _made(archive)
    except OSError as error:
        return f"no archive of Spark's classes: {error}"


def _made(archive: Path) -> str:
    started = time.monotonic()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spark-", dir=archive.parent) as work:
        fresh = Path(work) / "fresh"
        command = child_module("pipeline.class_archive", str(fresh))
        # the JVM writes the archive after Python has ended; the call returns when both processes have closed their
        # output
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode or not fresh.exists():
            return f"no archive of Spark's classes: {(done.stdout + done.stderr)[-_LAST_LINES:]}"
        fresh.replace(archive)
        _remove_old(archive)
    return f"Spark's classes archived in {duration(time.monotonic() - started)}"


def _remove_old(archive: Path) -> None:
    """Remove old archives of other installations; recent archives may be in use."""
    before = time.time() - _OLD_SECONDS
    for old in archive.parent.glob("spark-*.jsa"):
        with contextlib.suppress(OSError):
            if old != archive and old.stat().st_mtime < before:
                old.unlink()


def _run_jobs(fresh: Path) -> None:
    """Run a small job and a small query in a JVM that archives the classes that it has loaded."""
    from pipeline.session import build_session, settings

    options = settings(_MASTER, "1g")["spark.driver.extraJavaOptions"]
    flags = [options, *NO_WARNINGS, f"-XX:ArchiveClassesAtExit={fresh}"]
    conf = {"spark.driver.extraJavaOptions": " ".join(flags), "spark.local.dir": str(fresh.parent)}
    spark = build_session(master=_MASTER, conf=conf)
    context = spark.sparkContext
    counted = context.accumulator(0)
    context.parallelize(range(8), 2).foreach(counted.add)
    context.parallelize(range(8), 2).map(lambda number: (number, bytes(number))).partitionBy(2).collect()
    table = str(fresh.with_name("table"))
    spark.range(8).selectExpr("id", "cast(id AS string) AS name").repartition(2, "id").write.parquet(table)
    spark.read.parquet(table).createOrReplaceTempView("numbers")
    spark.sql("SELECT name, count(*), max(id) FROM numbers GROUP BY name ORDER BY name").collect()
    spark.stop()


if __name__ == "__main__":
    _run_jobs(Path(sys.argv[1]))
