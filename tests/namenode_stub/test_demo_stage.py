"""Demos wait for states while there is progress; a failure is reported in one sentence that names the logs."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from namenode_stub import demo_stage
from namenode_stub.demo import Demo, show_console
from namenode_stub.demo_conf import DemoPorts
from namenode_stub.demo_progress import ProgressWatch
from namenode_stub.demo_stage import DemoError, DemoStage, run_demo
from node_state.state import CheckpointRecord, NodeState, TargetState
from tests.clock import Clock


@pytest.fixture(autouse=True)
def sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def _wait(silence: ProgressWatch, clock: Clock, seconds: int) -> float:
    for _ in range(seconds):
        clock.now += 1
        silence.seconds()
    return silence.seconds()


def test_a_changed_file_counts_as_progress(tmp_path: Path) -> None:
    clock = Clock()
    (tmp_path / "below").mkdir()
    log = tmp_path / "below" / "log"
    log.write_text("a")
    silence = ProgressWatch(tmp_path, list, clock)
    assert _wait(silence, clock, 50) == 50
    log.write_text("ab")
    assert _wait(silence, clock, 1) == 0
    assert _wait(silence, clock, 5) == 5
    (tmp_path / "new").touch()
    assert _wait(silence, clock, 1) == 0
    log.unlink()
    assert _wait(silence, clock, 1) == 0


def test_a_suspended_machine_does_not_count_as_silence(tmp_path: Path) -> None:
    clock = Clock()
    silence = ProgressWatch(tmp_path, list, clock)
    clock.now += 1000
    assert silence.seconds() == 2


def test_processor_time_above_a_minimum_counts_as_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, spent = Clock(), {7: 3.0}
    monkeypatch.setattr("namenode_stub.demo_progress._spent", lambda processes: dict(spent))
    silence = ProgressWatch(tmp_path, lambda: [7], clock)
    spent[7] += 1
    assert _wait(silence, clock, 30) == 30
    spent[7] += 4
    assert _wait(silence, clock, 1) == 0
    spent[8] = 0.0
    assert _wait(silence, clock, 1) == 0


def test_processor_time_includes_child_processes(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        silence = ProgressWatch(tmp_path, lambda: [os.getpid(), 1 << 30], Clock())
        child.kill()
    assert silence._spent.keys() >= {os.getpid(), child.pid}
    assert silence._spent[os.getpid()] > 0


@pytest.fixture
def stage(tmp_path: Path) -> DemoStage:
    return DemoStage(tmp_path, Console(file=io.StringIO(), width=200))


def test_a_wait_fails_if_its_process_ends_or_nothing_progresses(
    stage: DemoStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = stage.start_process("one", "json.tool", "/nowhere")
    with pytest.raises(DemoError, match="waited for rain, but the process exited with code"):
        stage.wait("rain", lambda: False, process)
    monkeypatch.setattr(demo_stage, "SILENCE_SECONDS", -1.0)
    with pytest.raises(DemoError, match="waited for rain: no progress for"):
        stage.wait("rain", lambda: False)


def test_a_failed_command_is_reported_in_one_sentence(stage: DemoStage) -> None:
    code, printed = stage.run_process("json.tool", "--help")
    assert (code, printed.splitlines()[0][:6]) == (0, "usage:")
    assert stage.processes == []
    with pytest.raises(DemoError, match=r"json.tool exited with code 2: .*error"):
        stage.run_process("json.tool", "-x")
    assert stage.run_process("json.tool", "-x", accept=(0, 2))[0] == 2


def test_only_a_failed_demo_keeps_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail(stage: DemoStage) -> None:
        stage.start_process("one", "http.server", "--bind", "127.0.0.1", "0")
        raise DemoError("it rains [here]")

    with pytest.raises(SystemExit) as ended:
        run_demo(DemoStage, fail, "well")
    assert ended.value.code == 1
    (kept,) = tmp_path.iterdir()
    assert capsys.readouterr().out == f"failed: it rains [here]; the logs are in {kept}\n"
    assert (kept / "one.log").exists()
    run_demo(Demo, lambda stage: None, "well", show_console)
    assert list(tmp_path.iterdir()) == [kept]
    end, address = capsys.readouterr().out.splitlines()
    assert end.endswith("well")
    assert re.search(r"console at http://[\d.:]+/$", address)


# ---- the images of `make demo` -----------------------------------------------------------------------------


def _state(txid: int, reason: str, result: str = "SUCCESS", outcome: str = "taken") -> NodeState:
    target = TargetState(address="nn1", txid=txid, result=result)
    seconds = {"load": 0.1, "replay": 0.1, "save": 0.1}
    record = CheckpointRecord(saved_txid=txid, last_reason=reason, last_outcome=outcome, last_seconds=seconds)
    return NodeState(role="standby", targets=(target,), record=record)


TOO_RECENT = _state(8, "period", "OLD_TRANSACTION_ID_FAILURE", "too recent")
UPLOADING = replace(_state(9, "period"), targets=(TargetState(address="nn1", txid=5, result="SUCCESS"),))


@pytest.mark.parametrize(
    ("reason", "states", "more"),
    [
        ("txns", [None, NodeState(role="standby"), _state(5, "txns")], 0),
        ("period", [_state(5, "txns"), TOO_RECENT, TOO_RECENT, UPLOADING, _state(9, "period")], 2),
        ("txns", [UPLOADING, _state(9, "period"), _state(9, "period"), _state(4000, "txns")], 1),
    ],
)
def test_the_wait_for_an_image_continues_after_refused_images(
    stage: DemoStage, reason: str, states: list[NodeState | None], more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = iter(states)
    calls: list[int] = []
    monkeypatch.setattr(Demo, "_daemon_state", lambda self: next(report))
    monkeypatch.setattr(demo_stage, "_POLL_SECONDS", 0.0)
    demo = Demo(stage.scratch, stage.console, ports=DemoPorts(1, 2, 3))
    demo.processes.append(demo.start_process("one", "http.server", "--bind", "127.0.0.1", "0"))
    try:
        assert demo.wait_for_image(reason, lambda: calls.append(1)) == states[-1]
    finally:
        demo.kill_all()
    assert len(calls) == more


def test_sigterm_ends_the_processes_of_a_demo() -> None:
    ended: list[Path] = []

    class Stage(DemoStage):
        def kill_all(self) -> None:
            ended.append(self.scratch)

    with pytest.raises(KeyboardInterrupt):
        run_demo(Stage, lambda stage: os.kill(os.getpid(), signal.SIGTERM), "done")
    assert len(ended) == 1
    assert not ended[0].exists()
