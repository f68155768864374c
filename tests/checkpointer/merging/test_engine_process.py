"""A merge in a separate process: its reports to the parent, and the files that remain."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from multiprocessing.connection import Pipe
from pathlib import Path

import psutil
import pytest

from checkpointer.merging import engine_process
from checkpointer.merging.engine_process import merge_in_process
from checkpointer.merging.engines import MergeTask
from engine.errors import CheckpointCancelledError, CheckpointError
from engine.observer import SilentObserver
from hadoop_common.names import checkpoint_name
from image_format.known_digests import identity_at, known_digest
from journal.errors import OpTooLargeError
from site_config.engine_settings import EngineChoice, EngineSettings, SparkSettings
from tests.checkpointer.scripted_engine import MD5, SCRIPT, install

_ROOT = Path(__file__).resolve().parents[3]
_ON_SPARK = EngineSettings(EngineChoice.SPARK, spark=SparkSettings("local[7]"))


class Recorder(SilentObserver):
    """Recorder of calls that cancels when the engine waits."""

    def __init__(self, log: pytest.LogCaptureFixture) -> None:
        self.calls: list[tuple[object, ...]] = []
        self._log = log

    def phase(self, name: str, total: int | None) -> None:
        self.calls.append(("phase", name, total))

    def advance(self, done: int) -> None:
        self.calls.append(("advance", done))

    def saved(self) -> None:
        self.calls.append(("saved",))

    def cancelled(self) -> bool:
        return "waiting" in self._log.messages


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MergeTask:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(install(tmp_path / "engine")), str(_ROOT)]))
    (tmp_path / "fsimage_1").write_bytes(b"x")
    return MergeTask(tmp_path / "fsimage_1", 1, (), 8, (tmp_path,))


def test_parent_receives_phases_log_and_result(
    task: MergeTask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(SCRIPT, "make")
    caplog.set_level(logging.INFO)
    observer = Recorder(caplog)
    result = merge_in_process(_ON_SPARK, task, observer)
    assert (result.txid, result.engine, result.saved.paths) == (8, "spark", (task.image,))
    assert observer.calls == [("phase", "load", None), ("phase", "replay", 7), ("advance", 3), ("saved",)]
    (record,) = [each for each in caplog.records if each.name == "engine.test"]
    left, _, master = record.getMessage().partition(" left with master ")
    assert (record.levelno, master) == (logging.INFO, "local[7]")
    assert not psutil.pid_exists(int(left))
    assert (identity := identity_at(task.image)) is not None
    assert known_digest(identity) == bytes.fromhex(MD5)


@pytest.mark.parametrize(
    ("script", "kind", "text"),
    [
        ("refuse", OpTooLargeError, "edits"),
        ("fail", RuntimeError, "KeyError: 'a bug'"),
        ("die", CheckpointError, "the merge process was killed by SIGKILL"),
        ("wait", CheckpointCancelledError, "cancelled in the test"),
    ],
)
def test_error_is_raised_in_the_parent(
    task: MergeTask,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    script: str,
    kind: type[Exception],
    text: str,
) -> None:
    monkeypatch.setenv(SCRIPT, script)
    with pytest.raises(kind, match=text) as caught:
        merge_in_process(_ON_SPARK, task, Recorder(caplog))
    if script == "refuse":
        assert vars(caught.value) == vars(OpTooLargeError(9, 8, file="edits", offset=5))
    if script == "fail":
        assert "scripted_engine.py" in caught.value.__notes__[0]
    if script == "die":
        assert not (task.folders[0] / checkpoint_name(task.last_txid)).exists()


def test_frozen_process_is_killed_at_cancellation(
    task: MergeTask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(SCRIPT, "freeze")
    monkeypatch.setattr(engine_process, "_END_SECONDS", 0.0)
    with pytest.raises(
        CheckpointCancelledError, match=r"^cancelled; the merge process did not end within 0 s and was killed$"
    ):
        merge_in_process(_ON_SPARK, task, Recorder(caplog))
    assert not (task.folders[0] / checkpoint_name(task.last_txid)).exists()


def test_process_ends_with_its_parent(task: MergeTask) -> None:
    connection, other = Pipe()
    with connection, other:
        child = subprocess.Popen(
            [sys.executable, "-m", "checkpointer.merging.engine_process", str(other.fileno())],
            env={**os.environ, SCRIPT: "wait"},
            pass_fds=(other.fileno(),),
        )
        other.close()
        connection.send((logging.INFO, _ON_SPARK, task))
        assert connection.recv() == ("phase", "load", None)
    assert child.wait() == -signal.SIGKILL


def test_errors_keep_their_fields_between_processes() -> None:
    error = OpTooLargeError(9, 8, file="edits", offset=5, txid=3)
    error.add_note("a note")
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), copied.args, vars(copied)) == (type(error), str(error), error.args, vars(error))
