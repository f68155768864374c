"""PySpark's worker daemon, which kills one of its workers during a task that merges a part of INODE, but only once.

`spark.python.daemon.module` selects this module. HDFS_CHECKPOINTER_TEST_DEATH names a file; the first worker that
creates this file dies.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark import daemon

from engine.section_delta import merged_inodes
from pipeline.merge import tasks

DEATH = "HDFS_CHECKPOINTER_TEST_DEATH"


def _cut_short(*arguments: Any) -> Iterator[Any]:
    chunks = iter(merged_inodes(*arguments))
    yield from islice(chunks, 1)
    try:
        Path(os.environ[DEATH]).touch(exist_ok=False)
    except FileExistsError:
        yield from chunks
        return
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with mock.patch.object(tasks, "merged_inodes", _cut_short):
        daemon.manager()
