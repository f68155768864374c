"""An engine named `spark` in another package, which `install` makes; an environment variable selects its behaviour."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from pathlib import Path

from checkpointer.merging.engines import MergeTask
from engine.errors import CheckpointCancelledError
from engine.observer import Observer
from engine.saver import MergeResult, SaveResult, Timings
from hadoop_common.names import checkpoint_name
from journal.errors import OpTooLargeError
from site_config.engine_settings import SparkSettings

SCRIPT = "HDFS_CHECKPOINTER_TEST_ENGINE"
MD5 = "00" * 16


def install(folder: Path) -> Path:
    """Return a folder for PYTHONPATH with an entry point that precedes the entry point of `pipeline`."""
    metadata = folder / "scripted_engine-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted-engine\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[checkpointer.engines]\nspark = {__name__}:ScriptedEngine\n")
    return folder


class ScriptedEngine:
    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings

    def refusal(self, task: MergeTask) -> str:
        return ""

    def merge(self, task: MergeTask, observer: Observer) -> MergeResult:
        observer.phase("load", None)
        (task.folders[0] / checkpoint_name(task.last_txid)).write_bytes(b"unfinished")
        script: dict[str, object] = {
            "make": self._make,
            "refuse": self._refuse,
            "fail": self._fail,
            "die": self._die,
            "wait": self._wait,
            "freeze": self._freeze,
        }
        result: MergeResult = script[os.environ[SCRIPT]](task, observer)  # type: ignore[operator]
        return result

    def _make(self, task: MergeTask, observer: Observer) -> MergeResult:
        # a process that the engine leaves behind
        left = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
        observer.phase("replay", 7)
        observer.advance(3)
        observer.advance(4)
        logging.getLogger("engine.test").info("%s left with master %s", left.pid, self._settings.master)
        observer.saved()
        saved = SaveResult(task.last_txid, (task.image,), MD5, 1, ())
        return MergeResult(task.base_txid, task.last_txid, 7, 1, saved, Timings(0, 0, 0), -63, engine="spark")

    def _refuse(self, task: MergeTask, observer: Observer) -> MergeResult:
        raise OpTooLargeError(9, 8, file="edits", offset=5)

    def _fail(self, task: MergeTask, observer: Observer) -> MergeResult:
        raise KeyError("a bug")

    def _die(self, task: MergeTask, observer: Observer) -> MergeResult:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def _wait(self, task: MergeTask, observer: Observer) -> MergeResult:
        logging.getLogger("engine.test").warning("waiting")
        while not observer.cancelled():
            signal.sigtimedwait((), 0.02)
        raise CheckpointCancelledError("cancelled in the test")

    def _freeze(self, task: MergeTask, observer: Observer) -> MergeResult:
        logging.getLogger("engine.test").warning("waiting")
        os.kill(os.getpid(), signal.SIGSTOP)
        raise AssertionError
