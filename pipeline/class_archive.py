"""Archive of the classes that Spark's JVM loads; it halves the start time of a driver.

Java calls this class data sharing. `checkpointer compile` makes the archive: a JVM runs small jobs and archives the
classes that it has loaded. An archive is valid for one Java and one PySpark, which its name identifies. A JVM with
another class path ignores the archive.

    python -m pipeline.class_archive FILE      run the small job in a JVM that writes FILE at exit
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hadoop_common.quantities import duration
from pipeline.errors import PipelineSetupError

LOCAL_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM flags for short jobs on this host: the garbage collector and the compiler that start fastest."""

_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Without this flag, a JVM that cannot use an archive reports that on standard output."""

_MASTER = "local[2]"
_LAST_LINES = 500
_OLD_SECONDS = 30 * 86_400


def spark_jars() -> Path | None:
    """Return the folder of the installed PySpark's jars; None if PySpark is not installed."""
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).with_name("jars")


@functools.cache
def archive_file(home: Path) -> Path:
    """Return the archive for the Java in `home` and the installed PySpark; the file may be missing.

    The archive is in NUMBA_CACHE_DIR, like compiled kernels, or in the user's cache folder.
    """
    release = home / "release"
    java = release.read_text(errors="replace") if release.is_file() else str(home)
    folder = spark_jars()
    jars = [] if folder is None else [str(folder.resolve()), *sorted(map(_identity, folder.iterdir()))]
    key = hashlib.sha256("\n".join([java, *jars]).encode()).hexdigest()[:16]
    return _cache_folder() / f"spark-{key}.jsa"


def _identity(jar: Path) -> str:
    """Return the properties of a jar that the JVM compares before it uses an archive."""
    found = jar.stat()
    return f"{jar.name}:{found.st_size}:{found.st_mtime_ns}"


def _cache_folder() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    except RuntimeError:
        # The user has no home, as in some containers. No archive can exist at this path.
        cache = os.devnull
    return Path(cache) / "hdfs-checkpointer"


def archive_flags(archive: Path) -> tuple[str, ...]:
    """Return the flags that make a JVM use an archive."""
    return (*_QUIET, f"-XX:SharedArchiveFile={archive}")


def archive_classes() -> str:
    """Make the archive for the Java that commands use, unless it exists; return a sentence about the result.

    The sentence is empty if the archive exists, or if PySpark or Java is missing. It also reports an OSError.
    """
    from pipeline.java import real_java_home

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
        command = [sys.executable, "-m", "pipeline.class_archive", str(fresh)]
        # the JVM writes the archive after Python has ended; the call returns when both have closed their output
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode or not fresh.exists():
            return f"no archive of Spark's classes: {(done.stdout + done.stderr)[-_LAST_LINES:]}"
        fresh.replace(archive)
        _remove_old(archive)
    return f"Spark's classes archived in {duration(time.monotonic() - started)}"


def _remove_old(archive: Path) -> None:
    """Remove old archives of other installations; recent ones may be in use."""
    before = time.time() - _OLD_SECONDS
    for old in archive.parent.glob("spark-*.jsa"):
        with contextlib.suppress(OSError):
            if old != archive and old.stat().st_mtime < before:
                old.unlink()


def _run_jobs(fresh: Path) -> None:
    """Run a small job and a small query in a JVM that archives the classes that it has loaded."""
    from pipeline.session import build_session, settings

    options = settings(_MASTER, "1g")["spark.driver.extraJavaOptions"]
    flags = [options, *_QUIET, f"-XX:ArchiveClassesAtExit={fresh}"]
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
