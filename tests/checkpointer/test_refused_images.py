"""Images that no NameNode accepted: the reason from the status line, the time of the next attempt, and all reports."""

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
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.daemon.upload_outcome import Acceptance, outcome_of
from checkpointer.errors import TransferError
from checkpointer.transfer import UploadResult
from checkpointer.transfer.common import reason_of
from checkpointer.transfer.image_acceptance import (
    ImageAcceptance,
    TooRecent,
    ask_acceptance,
    has_image,
    longer_period,
    min_image_age,
    refuses_recent,
    too_recent,
)
from checkpointer.transfer.namenode_settings import NamenodeSettings
from checkpointer.transfer.upload_target import STANDBY, Upload, UploadTarget
from hadoop_common.names import ImageKind
from hadoop_common.process_control import Control
from hadoop_rpc.ha_protocol import HAState
from namenode_stub.ports import free_port
from servlets.status import TriggerState
from site_config.keys import CHECKPOINT_PERIOD, CHECKPOINT_TXNS
from tests.checkpointer.secondary_support import Secondary, secondary_config
from tests.checkpointer.service_support import Clock, standby_config
from tests.cli_runner import run_cli
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.stub_support import wait_until
from tests.site_files import write_site

OLD, TAKEN = UploadResult.OLD_TRANSACTION_ID_FAILURE.name, UploadResult.SUCCESS.name
INACTIVE = UploadResult.NOT_ACTIVE_NAMENODE_FAILURE.name
# messages of Hadoop 3.4.1 and 2.7.3
RECENT = (
    "Rejecting a fsimage due to small time delta and txnid delta. Time since previous checkpoint is 395 expecting at "
    "least 2700 txnid delta since previous checkpoint is 2 expecting at least 1000000"
)
HAS = "Either current namenode has checkpointed or another checkpointer already uploaded an checkpoint for txid 120"
BUSY = (
    "Another checkpointer is already in the process of uploading a checkpoint made up to transaction ID "
    "ImageRequest{txId=120, address='127.0.0.1'}"
)


# ---- messages of refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "body", "expected_message"),
    [
        (RECENT, b"", RECENT),
        (RECENT, b"<html><title>Error 409</title><body>HTTP ERROR 409: " + RECENT.encode() + b"</body></html>", RECENT),
        ("Conflict", b"fsimage_12 is stored here already\n", "fsimage_12 is stored here already"),
        ("CONFLICT", b"", "CONFLICT"),
        ("", b"", "HTTP 409"),
        ("", b"busy", "busy"),
        ("Refused", b"no room", "Refused: no room"),
        ("no room on /data", b"no room", "no room on /data"),
    ],
)
def test_reason_is_read_from_the_status_line_or_the_body(reason: str, body: bytes, expected_message: str) -> None:
    assert reason_of(409, reason, body) == expected_message


def test_numbers_in_a_refusal_are_parsed() -> None:
    assert too_recent(RECENT) == TooRecent(395, 2700)
    assert TooRecent(395, 2700).seconds_left == 2305
    assert TooRecent(3000, 2700).seconds_left == 0
    assert too_recent(HAS) is too_recent(BUSY) is None


@pytest.mark.parametrize(
    ("expected_message", "txid", "has"),
    [
        (HAS, 120, True),
        (HAS, 12, False),
        (BUSY, 120, False),
        (RECENT, 2, False),
        ("fsimage_0000000000000000120 is stored here already, expected an image of another txid", 120, True),
        ("fsimage_0000000000000000120 is stored here already, expected an image of another txid", 121, False),
        ("fsimage_rollback_0000000000000000120 is stored here already, expected an image of another txid", 120, True),
    ],
)
def test_refusal_tells_whether_the_namenode_has_the_image(expected_message: str, txid: int, has: bool) -> None:
    assert has_image(expected_message, txid) is has


@pytest.mark.parametrize(
    ("version", "refuses"),
    [
        ("2.7.3", False),
        ("2.10.1", True),
        ("3.0.3", False),
        ("3.1.3", False),
        ("3.1.4", True),
        ("3.2.1", False),
        ("3.2.2", True),
        ("3.3.0", True),
        ("3.4.1", True),
        ("3.5.0-SNAPSHOT", True),
        ("", False),
    ],
)
def test_releases_that_refuse_recent_images(version: str, refuses: bool) -> None:
    assert refuses_recent(version) is refuses


@pytest.mark.parametrize(("period", "least"), [(3600, 2700), (1, 1), (2, 2), (10, 8), (60, 45)])
def test_minimum_image_age_is_three_quarters_of_the_period(period: int, least: int) -> None:
    assert min_image_age(period) == least


# ---- forecasts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "takes_from"),
    [
        ({}, 1045.0),
        ({"version": "2.7.3"}, None),
        ({"version": ""}, None),
        ({"state": "standby"}, None),
        ({"state": "observer"}, 1045.0),
        ({"last_at": None}, None),
    ],
)
def test_earliest_time_at_which_a_namenode_accepts_an_image(
    changes: dict[str, object], takes_from: float | None
) -> None:
    known = replace(ImageAcceptance("3.4.1", "active", 1000.0, 100), **changes)  # type: ignore[arg-type]
    assert known.takes_from(60.0) == takes_from


@pytest.mark.parametrize(
    ("txid", "now", "refuses"), [(149, 1044.9, True), (150, 1044.9, False), (149, 1045.0, False), (101, 900.0, True)]
)
def test_refusal_depends_on_time_and_transactions(txid: int, now: float, refuses: bool) -> None:
    known = ImageAcceptance("3.4.1", "active", 1000.0, 100)
    assert known.refuses(txid, now, period=60.0, transactions=50) is refuses


def test_acceptance_is_read_from_jmx(tmp_path: Path) -> None:
    with NamenodeDouble(tmp_path / "name") as node:
        node.checkpointed_at = 1000.25
        found = ask_acceptance(node.url, timeout=600)
        assert found == ImageAcceptance("2.7.3", "active", 1000.25, node.image_txids()[-1])
        node.recent = 3600, 1000
        assert ask_acceptance(node.url, timeout=600).version == "3.4.1"
    with pytest.raises(TransferError, match="no answer"):
        ask_acceptance(node.url, timeout=600)


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


def test_state_is_not_that_before_a_failover(tmp_path: Path) -> None:
    """A NameNode updates its metrics only every 10 s, but NameNodeStatus immediately."""
    with NamenodeDouble(tmp_path / "name") as node:
        node.state = HAState.STANDBY
        assert ask_acceptance(node.url, timeout=600).state == "standby"


def test_upload_forecast_uses_the_last_response() -> None:
    wall = Clock()
    wall.now = 1000.0
    answers: dict[str, ImageAcceptance | None] = {
        "http://a": ImageAcceptance("3.4.1", "active", 990.0, 100),
        "http://b": ImageAcceptance("2.7.3", "active", 990.0, 100),
        "http://c": None,
    }

    def ask(address: str, **_: object) -> ImageAcceptance:
        found = answers[address]
        if found is None:
            raise TransferError(address, "no answer")
        return found

    # an image is accepted after three quarters of the period of 100 s
    subject = UploadForecast(standby_config(), ask=ask, wall=wall)
    assert subject.expected_refusals(101) == []
    subject.update(list(answers), lambda: False)
    assert [subject.takes_from(each) for each in answers] == [1065.0, None, None]
    (sentence,) = subject.expected_refusals(101)
    assert sentence.startswith("http://a (Hadoop 3.4.1) will refuse the image at txid 101 as too recent")
    assert subject.expected_refusals(150) == []
    subject.note_upload(Upload("http://a", TAKEN, txid=150))
    assert subject.takes_from("http://a") == 1075.0
    # the NameNode's keys decide; our keys do not matter
    subject.note_upload(Upload("http://a", OLD, refusal=RECENT))
    assert subject.takes_from("http://a") == 1000.0 + 2305
    subject.note_upload(Upload("http://a", TAKEN, txid=160, kind=ImageKind.ROLLBACK))
    assert subject.takes_from("http://a") == 1000.0 + 2305
    wall.now += 2305
    assert subject.takes_from("http://a") is None
    answers["http://a"] = None
    subject.update(list(answers), lambda: False)
    assert subject.expected_refusals(101) == []


@pytest.mark.parametrize(
    ("theirs", "takes_from", "refused_below"),
    [
        ({CHECKPOINT_PERIOD.name: "2h", CHECKPOINT_TXNS.name: " 0x10 "}, 990.0 + 5400, 116),
        # our period is 100 s, our number of transactions 50
        ({CHECKPOINT_PERIOD.name: "soon"}, 1065.0, 150),
        ({}, 1065.0, 150),
    ],
)
def test_upload_forecast_uses_the_keys_of_the_namenode(
    theirs: dict[str, str], takes_from: float, refused_below: int
) -> None:
    wall = Clock()
    wall.now = 1000.0
    subject = UploadForecast(
        standby_config(),
        ask=lambda address, **_: ImageAcceptance("3.4.1", "active", 990.0, 100),
        ask_settings=lambda address, **_: NamenodeSettings("3.4.1", theirs),
        wall=wall,
    )
    subject.update(["http://a"], lambda: False)
    assert subject.settings_fault(lambda: False) == ""
    assert subject.takes_from("http://a") == takes_from
    assert subject.expected_refusals(refused_below) == []
    (sentence,) = subject.expected_refusals(refused_below - 1)
    assert f"or {refused_below - 100} transactions" in sentence


def test_upload_forecast_has_times_by_the_clock_of_this_host(caplog: pytest.LogCaptureFixture) -> None:
    """Measurements of one difference vary slightly; the time of an image does not."""
    wall = Clock()
    wall.now = 1000.0
    leads = [7200.0, 7201.5, 7199.0, 30.0]

    def ask(address: str, **_: object) -> ImageAcceptance:
        return ImageAcceptance("3.4.1", "active", 990.0 + 7200.0, 100, clock_ahead=leads.pop(0))

    subject = UploadForecast(standby_config(), ask=ask, wall=wall)
    while len(leads) > 1:
        subject.update(["http://a"], lambda: False)
        assert subject.last_image_at() == subject.reported_at("http://a") == 990.0
        assert subject.takes_from("http://a") == 1065.0
    assert [each.message for each in caplog.records] == [
        "the clock of http://a is 2 h 0 min ahead of this host's clock"
    ]
    # the clock of this host is corrected
    wall.now += 7200.0
    subject.update(["http://a"], lambda: False)
    assert subject.last_image_at() == 990.0 + 7200.0


# ---- outcomes ----------------------------------------------------------------------------------------------

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


# ---- the daemon --------------------------------------------------------------------------------------------


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
        assert "but no NameNode accepted the image" in answer.message
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
        assert "but no NameNode accepted the image" in fault
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
