"""Options of Spark's JVM: flags for short jobs, and the archive of classes, which `pipeline.class_archive` makes."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
from pathlib import Path

LOCAL_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM flags for short jobs on this host: the garbage collector and the compiler that start fastest."""

NO_WARNINGS = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Without these flags, a JVM that cannot use an archive prints the reason on standard output."""


def spark_jars() -> Path | None:
    """Return the folder of PySpark's jars; None without PySpark, and for a PySpark that uses the jars of SPARK_HOME."""
    found = importlib.util.find_spec("pyspark")
    jars = None if found is None or found.origin is None else Path(found.origin).with_name("jars")
    return jars if jars is not None and jars.is_dir() else None


@functools.cache
def archive_file(home: Path) -> Path:
    """Return the archive for the Java in `home` and the installed PySpark; the file may be missing.

    The archive is in NUMBA_CACHE_DIR, as compiled kernels are, or in the user's cache folder.
    """
    release = home / "release"
    java = release.read_text(errors="replace") if release.is_file() else str(home)
    folder = spark_jars()
    jars = [] if folder is None else [str(folder.resolve()), *sorted(map(_identity, folder.iterdir()))]
    key = hashlib.sha256("\n".join([java, *jars]).encode()).hexdigest()[:16]
    return cache_folder() / f"spark-{key}.jsa"


def _identity(jar: Path) -> str:
    """Return the properties of a jar that the JVM compares before it uses an archive."""
    found = jar.stat()
    return f"{jar.name}:{found.st_size}:{found.st_mtime_ns}"


def cache_folder() -> Path:
    """Return NUMBA_CACHE_DIR or the user's cache folder; the folder may be missing."""
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
    return (*NO_WARNINGS, f"-XX:SharedArchiveFile={archive}")
