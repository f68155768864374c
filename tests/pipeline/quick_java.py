"""How the tests start Spark's JVMs: the jobs are small, and most of their time is the compiler's and class loading.

`python -m tests.pipeline.quick_java` makes an archive of Spark's classes, with which a JVM needs half the CPU time for
its first jobs. Without an archive, and where a class path is another one, JVMs load their classes as usual.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import tempfile
import time
from pathlib import Path

from pipeline import read_image
from pipeline.errors import PipelineSetupError
from pipeline.java import find_java_home
from pipeline.session import build_session, settings
from tests.interop.hadoop_home import CACHE
from tests.interop.hadoop_jars import pyspark_jars
from tests.recorded_cases import RECORDED, Case

_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""A JVM that cannot use an archive would say so on standard output."""


def quick_start() -> tuple[str, ...]:
    """Return the flags of a JVM for small jobs."""
    archive = _archive()
    return (
        (*_FLAGS, *_QUIET, f"-XX:SharedArchiveFile={archive}") if archive is not None and archive.exists() else _FLAGS
    )


def quick_java() -> dict[str, str]:
    """Return the environment with which the JVMs that a process starts get these flags."""
    return {"JAVA_TOOL_OPTIONS": " ".join(quick_start())}


def class_path() -> str:
    """Return the class path of Spark's own launcher, which an archive is for."""
    jars = pyspark_jars()
    return os.pathsep.join([str(jars.parent / "conf"), *map(str, jars.glob("slf4j-api-*.jar")), f"{jars}/*"])


@functools.cache
def _archive() -> Path | None:
    try:
        java = find_java_home(os.environ) / "bin" / "java"
    except PipelineSetupError:
        return None
    version = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False).stderr
    jars = sorted(f"{jar}:{jar.stat().st_size}" for jar in pyspark_jars().iterdir())
    return CACHE / f"spark-{hashlib.sha256(chr(10).join([version, *jars]).encode()).hexdigest()[:16]}.jsa"


def main() -> None:
    """Run a few jobs once, and keep the classes that they load."""
    archive = _archive()
    if archive is None or archive.exists():
        return
    started = time.monotonic()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="archive-", dir=archive.parent) as work:
        fresh = Path(work) / "fresh"
        options = settings("local[2]", "1g")["spark.driver.extraJavaOptions"]
        flags = [options, *_FLAGS, *_QUIET, f"-XX:ArchiveClassesAtExit={fresh}"]
        conf = {"spark.driver.extraJavaOptions": " ".join(flags), "spark.local.dir": work}
        spark = build_session(master="local[2]", conf=conf)
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        target = f"{work}/inodes"
        image = Case(RECORDED / "hadoop-3.4.1" / "erasure-coding-snapshots").image("after")
        read_image(spark, str(image)).repartition(2, "id").write.parquet(target)
        spark.read.parquet(target).createOrReplaceTempView("inodes")
        spark.sql("select type, count(*), max(path) from inodes group by type order by type").collect()
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        if not fresh.exists():
            print("pipeline: no archive of Spark's classes")
            return
        fresh.replace(archive)
    print(f"pipeline: Spark's classes archived in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
