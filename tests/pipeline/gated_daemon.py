"""PySpark's worker daemon with a gate: a task waits at its start until the test opens the gate.

`spark.python.daemon.module` selects this module. HDFS_CHECKPOINTER_TEST_GATE names a folder. Its file `free` contains
the number of tasks that pass at the same time. Each further task creates a file `waiting-PID`, named after the
executor's process, and waits for the file `open`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from pyspark import daemon

GATE = "HDFS_CHECKPOINTER_TEST_GATE"
_DEADLINE_SECONDS = 600.0
_POLL_SECONDS = 0.05
_plain_worker = daemon.worker


def _passes_at_once(folder: Path) -> bool:
    for number in range(int((folder / "free").read_text())):
        try:
            (folder / f"passed-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False


def _wait(folder: Path) -> None:
    if (folder / "open").exists() or _passes_at_once(folder):
        return
    executor = next(each.pid for each in psutil.Process().parents() if each.name() == "java")
    (folder / f"waiting-{executor}").touch()
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not (folder / "open").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("nobody opened the gate")
        time.sleep(_POLL_SECONDS)


def _gated(main: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def run(infile: Any, outfile: Any) -> None:
        # idle workers also wait here: the first byte shows that a task has arrived
        if infile.peek(1):
            _wait(Path(os.environ[GATE]))
        main(infile, outfile)

    run.is_gated = True  # type: ignore[attr-defined]
    return run


def _worker(sock: Any, authenticated: bool) -> int:
    from pyspark import worker

    if GATE in os.environ and not hasattr(worker.main, "is_gated"):
        worker.main = _gated(worker.main)
    return _plain_worker(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = _worker
    daemon.manager()
