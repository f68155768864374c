"""Results of uploads that a NameNode refuses: hints, and all reports of the refusal."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from checkpointer.daemon.process import serve
from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.upload_outcome import Acceptance, outcome_of
from checkpointer.transfer import UploadResult
from checkpointer.transfer.image_acceptance import longer_period
from checkpointer.transfer.upload_target import STANDBY, Upload, UploadTarget
from hadoop_common.names import ImageKind
from hadoop_common.process_control import Control
from namenode_stub.ports import free_port
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import Secondary, secondary_config
from tests.checkpointer.service_support import Clock
from tests.checkpointer.upload_support import BUSY, HAS, OLD, RECENT, TAKEN
from tests.cli_runner import run_cli
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.stub_support import wait_until
from tests.site_files import write_site

INACTIVE = UploadResult.NOT_ACTIVE_NAMENODE_FAILURE.name


def test_a_longer_period_of_the_namenode_is_the_next_step() -> None:
    """`RECENT` is the refusal of a NameNode whose period is an hour."""
    assert longer_period(RECENT, 3600.0) == longer_period("busy", 60.0) == ""
    text = longer_period(RECENT, 60.0)
    assert "dfs.namenode.checkpoint.period is 1 h 0 min, but this daemon's is 1 min 0 s" in text
    targets = [UploadTarget("http://a").answered(7, ImageKind.IMAGE, UploadResult[OLD], at=0, now=0, quiet_period=0)]
    made = [Upload("http://a", OLD, txid=7, refusal=RECENT)]
    then = time.mktime((2026, 11, 30, 12, 0, 0, 0, 0, -1))
    outcome = outcome_of(
        7, ImageKind.IMAGE, made, targets, takes_from=lambda address: then + 90_000, now=then, period=60.0
    )
    assert outcome.hint.startswith(text)
    assert "from 2026-12-01 13:00:00 on, in 25 h 0 min" in outcome.hint


A, B = UploadTarget("http://a"), UploadTarget("http://b")


A_REFUSED = replace(A, settled={ImageKind.IMAGE: 7}, refused={ImageKind.IMAGE: 7}, result=OLD, error=BUSY)


A_HAS = replace(A, settled={ImageKind.IMAGE: 7}, result=TAKEN)


B_DOWN = replace(B, result="failed", error="connection refused")


DOWN = Upload("http://b", "failed", "connection refused")


@pytest.mark.parametrize(
    ("made", "targets", "taking", "code", "warnings", "words"),
    [
        ([Upload("http://a", TAKEN)], [A_HAS], Acceptance.ACCEPTED, 0, 0, ""),
        # another NameNode of the nameservice is down
        ([Upload("http://a", TAKEN), DOWN], [A_HAS, B_DOWN], Acceptance.ACCEPTED, 0, 1, ""),
        ([DOWN], [A_HAS, B_DOWN], Acceptance.ACCEPTED, 0, 1, ""),
        ([Upload("http://a", TAKEN), Upload("http://b", OLD, refusal=BUSY)], [A_HAS, B], Acceptance.ACCEPTED, 0, 1, ""),
        ([], [A_HAS, replace(B, result=STANDBY)], Acceptance.ACCEPTED, 0, 0, ""),
        ([Upload("http://a", OLD, refusal=RECENT)], [A_REFUSED], Acceptance.TOO_RECENT, 8, 0, "Rejecting a fsimage"),
        ([Upload("http://a", OLD, refusal=BUSY)], [A_REFUSED], Acceptance.REFUSED, 8, 0, "in the process of"),
        # at a second request, nothing is offered, and the NameNode still lacks the image
        ([], [A_REFUSED], Acceptance.REFUSED, 8, 0, "in the process of"),
        (
            [Upload("http://a", OLD, refusal=BUSY), DOWN],
            [A_REFUSED, B_DOWN],
            Acceptance.REFUSED,
            8,
            1,
            "in the process",
        ),
        ([DOWN], [replace(A, result=STANDBY), B_DOWN], Acceptance.FAILED, 7, 0, "connection refused"),
        (
            [],
            [replace(A, result=STANDBY), B],
            Acceptance.NOBODY,
            8,
            0,
            "http://a is not active; http://b was not offered",
        ),
        (
            [Upload("http://a", INACTIVE, refusal="State: standby")],
            [replace(A, result=INACTIVE, error="State: standby")],
            Acceptance.NOBODY,
            8,
            0,
            "http://a is not active (State: standby)",
        ),
        ([], [], Acceptance.KEPT, 0, 1, ""),
    ],
)
def test_upload_outcomes(
    made: list[Upload], targets: list[UploadTarget], taking: Acceptance, code: int, warnings: int, words: str
) -> None:
    outcome = outcome_of(7, ImageKind.IMAGE, made, targets, takes_from=lambda address: None, now=0.0, period=60.0)
    assert (outcome.acceptance, outcome.exit_code, len(outcome.warnings)) == (taking, code, warnings)
    assert words in outcome.problem
    assert bool(outcome.hint) is bool(code)
    assert outcome.details()["outcome"] == taking.value


_B_HAS = replace(B, settled={ImageKind.IMAGE: 7}, result=TAKEN)


@pytest.mark.parametrize(
    ("made", "targets", "taking", "warnings"),
    [
        ([Upload("http://a", "failed", "connection refused"), Upload("http://b", TAKEN)], [A, _B_HAS], "FAILED", 0),
        ([Upload("http://a", OLD, refusal=RECENT)], [A_REFUSED, _B_HAS], "TOO_RECENT", 0),
        ([Upload("http://b", TAKEN)], [replace(A, result=STANDBY), _B_HAS], "NOBODY", 0),
        ([DOWN], [replace(A, result=STANDBY), B_DOWN], "NOBODY", 0),
        ([Upload("http://a", TAKEN), DOWN], [A_HAS, B_DOWN], "ACCEPTED", 1),
    ],
)
@pytest.mark.parameters(5)
def test_observer_does_not_decide_the_outcome(
    made: list[Upload], targets: list[UploadTarget], taking: str, warnings: int
) -> None:
    """`b` is an observer."""
    outcome = outcome_of(
        7, ImageKind.IMAGE, made, targets, takes_from=lambda address: None, now=0.0, period=60.0, observers={"http://b"}
    )
    assert (outcome.acceptance, len(outcome.warnings)) == (Acceptance[taking], warnings)
    assert "http://b" not in outcome.problem


def test_reason_if_all_namenodes_are_observers() -> None:
    outcome = outcome_of(
        7,
        ImageKind.IMAGE,
        [Upload("http://b", TAKEN)],
        [_B_HAS],
        takes_from=lambda address: None,
        now=0.0,
        period=60.0,
        observers={"http://b"},
        inactive={"http://b"},
    )
    assert (outcome.acceptance, outcome.problem) == (Acceptance.NOBODY, "all NameNodes are observers; none is active")


@pytest.mark.parametrize(
    ("made", "acceptance"), [([DOWN], Acceptance.FAILED), ([Upload("http://a", TAKEN)], Acceptance.ACCEPTED)]
)
def test_earlier_image_of_a_standby_does_not_count(made: list[Upload], acceptance: Acceptance) -> None:
    """`a` was active when it accepted the image; a standby that accepts an image now has become active."""
    outcome = outcome_of(
        7,
        ImageKind.IMAGE,
        made,
        [A_HAS, B_DOWN],
        takes_from=lambda address: None,
        now=0.0,
        period=60.0,
        inactive={"http://a"},
    )
    assert outcome.acceptance is acceptance


def test_refusal_of_an_image_already_there_counts_as_accepted() -> None:
    after = A.answered(120, ImageKind.IMAGE, UploadResult(409), at=1.0, now=1.0, quiet_period=10.0, refusal=HAS)
    assert (after.has(120, ImageKind.IMAGE), after.error, after.result) == (True, "", OLD)
    refused = A.answered(120, ImageKind.IMAGE, UploadResult(409), at=1.0, now=1.0, quiet_period=10.0, refusal=BUSY)
    assert (refused.has(120, ImageKind.IMAGE), refused.error, refused.txid) == (False, BUSY, 120)
    assert refused.holds(120, ImageKind.IMAGE).has(120, ImageKind.IMAGE)
    away = refused.answered(
        121, ImageKind.IMAGE, UploadResult(417), at=1.0, now=1.0, quiet_period=10.0, refusal="standby"
    )
    assert not away.has(120, ImageKind.IMAGE)


@pytest.mark.parametrize(("uploaded", "primary"), [(1000.0, True), (500.0, False), (None, False)])
def test_refusal_because_of_our_own_image_keeps_us_primary(uploaded: float | None, primary: bool) -> None:
    """The refusal names a recent image that is 395 s old, which is our own image."""
    before = replace(A, uploaded=uploaded)
    after = before.answered(9, ImageKind.IMAGE, UploadResult(409), at=1.0, now=1395.0, quiet_period=1.0, refusal=RECENT)
    assert after.primary is primary


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NamenodeDouble]:
    with NamenodeDouble(tmp_path / "name", "hadoop-3.4.1/segments", per_roll=2, release=3) as running:
        running.recent = 3600, 1000
        yield running


def test_early_forced_checkpoint_is_refused_and_later_accepted(
    node: NamenodeDouble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with Secondary.of(tmp_path, node) as secondary:
        answer = secondary.checkpoint()
        assert answer.state is TriggerState.DONE
        assert "but no active NameNode has the image" in answer.message
        assert "Rejecting a fsimage due to small time delta" in answer.message
        assert (answer.details["outcome"], answer.details["exitCode"]) == ("too recent", 8)
        assert "The NameNode accepts the next image from" in answer.details["hint"]
        assert secondary.service.status()["lastOutcome"] == "too recent"
        left = answer.details["takesFrom"] - node.checkpointed_at
        assert left == pytest.approx(2700, abs=2)
        (target,) = secondary.service.status()["targets"]
        assert target["result"] == OLD
        assert "Rejecting a fsimage" in target["error"]
        assert target["takesFrom"] == answer.details["takesFrom"]
        # forecast first, then confirmed by the response
        lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert any("will refuse the image" in line for line in lines)
        assert any("Rejecting a fsimage" in line for line in lines)
        # Hadoop 3.4.1 has recorded the txid; it accepts a newer image as soon as the last image is old enough.
        node.checkpointed_at -= 2700
        again = secondary.checkpoint()
        assert (again.details["outcome"], again.details["warnings"]) == ("taken", [])
        assert secondary.service.status()["lastOutcome"] == "taken"
        (target,) = secondary.service.status()["targets"]
        assert (target["result"], target["error"]) == (TAKEN, "")
        assert target["takesFrom"] == pytest.approx(node.checkpointed_at + 2700, abs=2)


def test_next_checkpoint_is_due_when_the_namenode_accepts_it(node: NamenodeDouble, tmp_path: Path) -> None:
    clock = Clock()
    with Secondary.of(tmp_path, node) as secondary:
        service = CheckpointService(secondary.role, secondary.config, clock=clock)
        clock.now = 1000.0
        assert service.request(force=True, wait=True).details["outcome"] == "too recent"
        clock.now += 2690.0
        assert service.poll().state is TriggerState.SKIPPED
        clock.now += 15.0
        node.checkpointed_at -= 2705.0
        result = service.poll()
        assert (result.state, result.details["reason"]) == (TriggerState.DONE, "period")
        assert list(result.details["uploads"].values()) == [TAKEN]
        clock.now += 3590.0
        assert service.poll().state is TriggerState.SKIPPED


@contextmanager
def daemon(tmp_path: Path, node: NamenodeDouble) -> Iterator[Path]:
    """Run a daemon in a thread; yield its configuration directory."""
    port = free_port()
    values = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{node.rpc_port}",
        "dfs.namenode.http-address": f"127.0.0.1:{node.http_port}",
        "dfs.namenode.checkpoint.dir": str(tmp_path / "secondary"),
        "dfs.namenode.secondary.http-address": f"127.0.0.1:{port}",
    }
    conf = write_site(tmp_path / "conf", values)
    config = secondary_config(tmp_path, node.rpc_port, node.http_port, **values)
    role, control = Secondary(config).role, Control(stop_within=30.0)
    role.open()
    running = threading.Thread(target=serve, args=(role, config, control))
    running.start()
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until("the daemon", lambda: _takes_from(url) is not None)
        yield conf
    finally:
        control.stop()
        running.join()
        role.close()


def _takes_from(url: str) -> float | None:
    try:
        found: float | None = requests.get(f"{url}/status", timeout=600).json()["targets"][0]["takesFrom"]
    except requests.ConnectionError:
        return None
    return found


def test_output_of_a_refused_forced_checkpoint(node: NamenodeDouble, tmp_path: Path) -> None:
    with daemon(tmp_path, node) as conf:
        reported = run_cli("checkpoint", "--conf", conf, "--role", "secondary", "--force")
        assert (reported.code, reported.out) == (8, "")
        note, fault, following = reported.err.splitlines()
        assert f", {node.url} refuses an image with few new transactions" in note
        assert "but no active NameNode has the image" in fault
        assert "Rejecting a fsimage due to small time delta" in fault
        assert following.startswith("  next: The NameNode accepts the next image from ")
        as_json = run_cli("checkpoint", "--conf", conf, "--role", "secondary", "--force", "--json")
        answer = json.loads(as_json.out)
        assert as_json.code == answer["exitCode"] == 8
        assert "Rejecting a fsimage" in answer["refusals"][node.url]
        assert answer["takesFrom"] > node.checkpointed_at
        blocked = ("checkpoint", "--conf", conf, "--role", "secondary")
        assert run_cli(*blocked, "--cancel", "--minutes", "30").code == 0
        assert run_cli(*blocked, "--force").err.startswith("checkpointer: no checkpoint may begin for ")
        assert run_cli(*blocked, "--cancel", "--minutes", "0").code == 0
        node.checkpointed_at -= 2700
        taken = run_cli("checkpoint", "--conf", conf, "--role", "secondary", "--force")
        assert (taken.code, taken.out.startswith("checkpoint at txid")) == (0, True)
