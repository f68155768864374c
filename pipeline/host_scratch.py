"""The folder that the tasks of a job share on their host, and the setting for its location."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_SHARED_FOLDERS = (
    (
        "SPARK_EXECUTOR_DIRS",
        "SPARK_EXECUTOR_DIRS",
        os.pathsep,
        "SPARK_LOCAL_DIRS or spark.local.dir of Spark's workers",
    ),
    ("CONTAINER_ID", "LOCAL_DIRS", ",", "yarn.nodemanager.local-dirs"),
)
"""Rows for a standalone Worker and for YARN's NodeManager: a variable that only executors have, the variable with the
application's folders on the host, the folders' separator, and the setting.

Worker and NodeManager remove the folders when the application ends.
"""


def host_scratch() -> Path:
    """Return a folder that the tasks of a job share on their host; Spark removes the folder with its files."""
    from pyspark import SparkFiles

    own = Path(SparkFiles.getRootDirectory())
    if own.is_absolute():
        return own / "fsimage"  # in a driver or a local session; executors have a relative path
    shared = next((folder for folder, _ in _folders_of_application()), own)
    return shared / "fsimage"


def scratch_setting(scratch: Path) -> str:
    """Return the setting for the location of a folder of `host_scratch`."""
    for folder, setting in _folders_of_application():
        if scratch.is_relative_to(folder):
            return setting
    return "SPARK_LOCAL_DIRS" if "SPARK_LOCAL_DIRS" in os.environ else "spark.local.dir"


def _folders_of_application() -> Iterator[tuple[Path, str]]:
    for mark, name, separator, setting in _SHARED_FOLDERS:
        if os.environ.get(mark) and (folders := os.environ.get(name)):
            yield Path(folders.split(separator)[0]), setting
