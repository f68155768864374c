"""Hadoop 3.5.0's merge of an image and edits in a separate JVM, as in its SecondaryNameNode."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bench.phases import Run, run_phases
from tests.interop.hadoop_home import NEWEST
from tests.interop.hadoop_process import java_command

_MAIN = "org.apache.hadoop.hdfs.server.namenode.HadoopMerge"
_FOR_QUICK_STARTS = {"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}


def heap_for(inodes: int, transactions: int) -> str:
    """Return a sufficient heap size for Hadoop: 10,000,000 inodes and 1,000,000 transactions need about 9 GB."""
    return f"{1 + -(-(9 * inodes + 5 * transactions) // 10_000_000)}g"


def merge_by_hadoop(current: Path, work: Path, heap: str) -> tuple[Run, Path]:
    """Merge, below the folder `work`, hard links to the files of `current`; return the parts and the new image.

    Raises:
        MissingHadoopError: Hadoop's jars, Java or the compiled program are missing.
        subprocess.CalledProcessError: Hadoop failed.
    """
    shutil.rmtree(work, ignore_errors=True)
    target = work / "name" / "current"
    target.mkdir(parents=True)
    for path in current.iterdir():
        if path.name == "VERSION":
            # Hadoop rewrites this file in place
            shutil.copyfile(path, target / path.name)
        else:
            os.link(path, target / path.name)
    command = java_command(NEWEST.class_path(), _MAIN, str(work / "name"), heap=heap, work=work)
    run = run_phases([word for word in command if word not in _FOR_QUICK_STARTS])
    return run, max(path for path in target.glob("fsimage_*") if path.suffix != ".md5")
