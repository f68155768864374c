"""Starts JVMs that no command starts, such as a cluster's, with the flags and the class archive of commands.

`python -m tests.pipeline.quick_java` makes the archive. Without an archive, and with a different class path, JVMs
load their classes as usual.
"""

from __future__ import annotations

import os

from pipeline.class_archive import archive_classes
from pipeline.errors import PipelineSetupError
from pipeline.java import real_java_home
from pipeline.java_options import LOCAL_FLAGS, archive_file, archive_flags, spark_jars


def quick_start() -> tuple[str, ...]:
    """Return the flags of a JVM for small jobs."""
    try:
        archive = archive_file(real_java_home(os.environ))
    except PipelineSetupError:
        return LOCAL_FLAGS
    return (*LOCAL_FLAGS, *archive_flags(archive)) if archive.exists() else LOCAL_FLAGS


def quick_java() -> dict[str, str]:
    """Return an environment that passes these flags to all JVMs that a process starts."""
    return {"JAVA_TOOL_OPTIONS": " ".join(quick_start())}


def class_path() -> str:
    """Return the class path of Spark's launcher, for which the archive is made."""
    jars = spark_jars()
    assert jars is not None
    return os.pathsep.join([str(jars.parent / "conf"), *map(str, jars.glob("slf4j-api-*.jar")), f"{jars}/*"])


if __name__ == "__main__":
    if message := archive_classes():
        print(f"pipeline: {message}")
