"""A service whose role fails: attempts, alarms and log lines."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.errors import RoleGaveUpError, TransferError
from checkpointer.storage.usable_images import UNUSABLE_HINT
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.image_acceptance import ImageAcceptance
from checkpointer.transfer.upload_target import Upload
from engine.healing import HealedFault
from engine.merge import Observer
from hadoop_common.errors import StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.json_log import JsonFormatter
from hadoop_common.names import ImageKind, image_name, md5_name
from hadoop_common.recurring_fault import Alarm
from hadoop_rpc.errors import RpcConnectionError
from node_state.text import status_lines
from servlets.status import TriggerState
from tests.checkpointer.service_support import (
    PERIOD,
    START,
    TRANSACTIONS,
    Clock,
    FakeRole,
    clock,
    role,
    service,
    standby_config,
)
from tests.checkpointer.storage_support import IMAGE_TXID, recorded_directory
from tests.servlets.support import INFO

__all__ = ["clock", "role", "service"]


def test_repeated_failures_are_an_alarm_and_waits_grow(
    service: CheckpointService, role: FakeRole, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon polls every second; the log contains one line when the fault begins and one when it ends."""
    caplog.set_level("INFO")
    service.reconfigure(replace(standby_config(), poll_interval=1.0))
    role.journal, role.fault = TRANSACTIONS, StorageError("disk full", hint="Free space.")
    tries = []
    for _ in range(60):
        if service.poll().state is TriggerState.FAILED:
            tries.append(clock.now)
        if len(tries) == 1:
            assert service.ready().ok
        clock.now += 1
    assert tries == [0, 1, 3, 7, 15, 31, 56]
    alarm = "checkpoint failed: disk full (7 attempts in a row, in 1 min 0 s)"
    assert service.status()["alarms"] == [alarm]
    assert service.status()["nextSteps"] == {alarm: "Free space."}
    assert service.status()["clusterId"] == INFO.cluster_id
    assert service.ready().message == alarm
    assert (service.status()["failuresInRow"], service.status()["retryAt"]) == (7, START + 81)
    role.fault = None
    # a manual request does not wait
    assert service.request(force=True, wait=True).state is TriggerState.DONE
    assert service.ready().ok
    assert (service.status()["failuresInRow"], service.status()["retryAt"]) == (0, None)
    reported = [line for line in caplog.messages if "upload" not in line and "checkpoint at txid" not in line]
    assert reported == [
        "checkpoint at the transaction limit: 50 transactions since the last image",
        "checkpoint failed: disk full; next: Free space.",
        "checkpoints succeed again after 1 min 0 s, 7 attempts",
    ]


def test_missing_answers_are_logged_once_and_no_error_unless_due(
    service: CheckpointService, role: FakeRole, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    role.journal = 1
    assert service.poll().state is TriggerState.SKIPPED
    role.read_fault = RpcConnectionError("nn1:8020: cannot connect", hint="Is it up?")
    for _ in range(5):
        clock.now += 10
        assert service.poll().state is TriggerState.FAILED
    assert service.status()["failures"] == 0
    status = service.status()
    assert (status["imageTxid"], status["journalTxid"], status["error"]) == (0, 1, "nn1:8020: cannot connect")
    clock.now = PERIOD
    assert service.poll().state is TriggerState.FAILED
    clock.now += 10
    assert service.poll().state is TriggerState.FAILED
    assert service.status()["failures"] == 2
    role.read_fault = None
    clock.now += 10
    assert service.poll().state is TriggerState.DONE
    assert [(record.levelname, record.message) for record in caplog.records[1:4]] == [
        ("WARNING", "no checkpoint can be made now: nn1:8020: cannot connect; next: Is it up?"),
        ("ERROR", "a checkpoint is due, but cannot be made: nn1:8020: cannot connect; next: Is it up?"),
        ("INFO", "the NameNode answers again after 1 min 50 s, 7 polls"),
    ]


def test_repeated_transfer_failures_are_an_alarm(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    role.journal = TRANSACTIONS
    role.uploads = [Upload("http://nn1:9870", "failed", "it was interrupted")]
    target = role.targets[0]
    for _ in range(3):
        service.poll()
        target = target.failed(ImageKind.IMAGE, "it was interrupted", at=START, now=0.0, wait=0.0)
        role.targets = (target,)
    assert service.ready().message == (
        f"http://nn1:9870 does not receive the image at txid {TRANSACTIONS}: failed transfers since the last "
        "success: 3; last error: it was interrupted"
    )
    role.uploads = [Upload("http://nn1:9870", "SUCCESS")]
    service.poll()
    role.targets = (target.holds(TRANSACTIONS, ImageKind.IMAGE),)
    assert service.ready().ok
    lines = [line for line in caplog.messages if "nn1" in line]
    assert lines[0].startswith("upload to http://nn1:9870 failed: it was interrupted; next: ")
    assert lines[1:] == [
        "http://nn1:9870 accepts images again after 0 s, 3 transfers",
        "upload to http://nn1:9870: SUCCESS in 0.00 s",
    ]


def test_a_namenode_that_dropped_its_directories_must_not_be_restarted(
    service: CheckpointService, role: FakeRole
) -> None:
    """The NameNode's newest image is old, and the edits after this image may be purged."""
    error = "PutImage failed. java.io.IOException: No targets in destination storage!?"
    role.journal = TRANSACTIONS
    role.uploads = [Upload("http://nn1:9870", "failed", error)]
    assert "Do not restart" in service.request(force=True, wait=True).details["hint"]
    target = role.targets[0]
    for _ in range(2):
        target = target.failed(ImageKind.IMAGE, error, at=START, now=0.0, wait=0.0)
    role.targets = (target,)
    service.poll()
    (alarm,) = service.status()["alarms"]
    assert "-restoreFailedStorage" in service.status()["nextSteps"][alarm]


def test_a_forced_attempt_that_failed_is_retried(
    service: CheckpointService, role: FakeRole, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """No checkpoint is due, but the operator's request is pending."""
    caplog.set_level("INFO")
    service.reconfigure(replace(standby_config(), poll_interval=1.0))
    role.journal, role.fault = 3, StorageError("disk full", hint="Free space.")
    assert service.request(force=True, wait=True).state is TriggerState.FAILED
    assert service.status()["failuresInRow"] == 1
    assert service.poll().state is TriggerState.SKIPPED
    clock.now += 1
    assert service.poll().state is TriggerState.FAILED
    assert service.status()["failuresInRow"] == 2
    assert not service.ready().ok
    role.fault = None
    clock.now += 2
    result = service.poll()
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "forced")
    assert service.ready().ok
    assert "forced checkpoint: 3 transactions since the last image" in caplog.messages
    assert not [line for line in caplog.messages if "by forced" in line]
    # the forced checkpoint is made only once
    role.journal += 1
    assert service.poll().state is TriggerState.SKIPPED


def test_missing_disk_space_is_reported_before_a_failure(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    role.no_room = "no space for a checkpoint: /name has 0 bytes free, but 9 are needed"
    for _ in range(2):
        assert service.poll().state is TriggerState.SKIPPED
        assert service.ready().message == role.no_room
        assert service.status()["alarms"] == [role.no_room]
    role.no_room = ""
    assert service.ready().ok
    service.poll()
    first, last = (line for line in caplog.messages if "space" in line)
    assert first.startswith("the next checkpoint will fail: no space for a checkpoint: /name has 0 bytes free")
    assert "; next: Free space" in first
    assert last.startswith("there is space for a checkpoint again after")


def test_recovery_is_logged_only_after_the_failed_operation_succeeds(
    service: CheckpointService, role: FakeRole, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def again() -> list[str]:
        return [line for line in caplog.messages if "again after" in line and "next:" not in line]

    # an image that cannot be offered
    role.journal, role.uploads = TRANSACTIONS, []
    role.upload_fault = StorageError("the digest file is unreadable")
    assert service.poll().state is TriggerState.FAILED
    # this poll offers no image, so the fault of the offers remains
    role.upload_fault = None
    assert service.poll().state is TriggerState.SKIPPED
    assert again() == []
    # a transfer fails; then the NameNode refuses the image
    role.uploads = [Upload("http://nn1:9870", "failed", "it was interrupted")]
    service.poll()
    role.uploads = [Upload("http://nn1:9870", "OLD_TRANSACTION_ID_FAILURE", refusal="too recent")]
    service.poll()
    assert again() == []
    # no transactions are pending, but no checkpoint was made in time
    clock.now, role.journal = 4 * PERIOD, TRANSACTIONS + 1
    role.fault = StorageError("disk full")
    service.poll()
    assert [line for line in caplog.messages if line.startswith("no checkpoint for")]
    role.journal = TRANSACTIONS
    service.poll()
    assert again() == []


def test_unknown_values_are_null(service: CheckpointService, role: FakeRole) -> None:
    role.journal = 7
    assert service.status()["transactionsBehind"] == 7
    role.read_fault = StorageError("no storage directory is left")
    status = service.status()
    assert (status["transactionsBehind"], status["journalTxid"]) == (None, 7)


def test_healed_faults_are_reported_everywhere(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    role.journal = 1
    role.healed = (
        HealedFault("diff-deleted", "SNAPSHOT_DIFF", 16391, "/s/l", "a link: kept"),
        HealedFault("diff-created", "SNAPSHOT_DIFF", 16386, "/s", "a name: dropped"),
    )
    result = service.request(force=True, wait=True)
    reported = [asdict(healed) for healed in role.healed]
    assert result.state is TriggerState.DONE
    assert result.details["healed"] == reported
    following = "; next: Make sure that the NameNode has this image before it is restarted."
    assert [record.message for record in caplog.records if "healed" in record.message] == [
        f"fsimage_{1:019d}: healed: diff-deleted [SNAPSHOT_DIFF, inode 16391, /s/l]: a link: kept{following}",
        f"fsimage_{1:019d}: healed: diff-created [SNAPSHOT_DIFF, inode 16386, /s]: a name: dropped{following}",
    ]
    status = service.status()
    (alarm,) = status["alarms"]
    assert alarm.startswith("the snapshots of the image at txid 1 had 2 inconsistencies")
    assert (status["healed"], status["healedTotal"]) == (reported, 2)
    # healed inconsistencies do not affect readiness
    assert service.ready().ok
    role.journal, role.healed = 2, ()
    assert service.request(force=True, wait=True).details["healed"] == []
    status = service.status()
    assert (status["alarms"], status["healed"], status["healedTotal"]) == ([], [], 2)


@pytest.mark.parametrize(
    ("fault", "code"), [(StorageError("disk full", hint="Buy another."), 6), (OSError(5, "bad"), 6), (KeyError("x"), 1)]
)
def test_last_error_is_kept_after_the_next_poll_succeeds(
    service: CheckpointService, role: FakeRole, clock: Clock, fault: Exception, code: int
) -> None:
    role.journal = TRANSACTIONS
    role.fault = fault
    result = service.poll()
    assert (result.state, result.details["exitCode"]) == (TriggerState.FAILED, code)
    assert result.details["hint"]
    status = service.status()
    assert (status["failures"], status["phase"]) == (1, "idle")
    assert status["lastError"] == result.message
    assert status["lastErrorAt"] is not None
    role.fault = None
    clock.now += PERIOD
    assert service.poll().state is TriggerState.DONE
    assert service.status()["lastErrorAt"] < service.status()["savedAt"]


def test_failed_job_is_reported_like_a_failed_checkpoint(
    service: CheckpointService, caplog: pytest.LogCaptureFixture
) -> None:
    service.job_failed("tail", OSError(5, "Input/output error", "/edits"))
    assert service.status()["lastError"] == "/edits cannot be used: Input/output error"
    service.job_failed("tail", OSError(5, "Input/output error", "/edits"))
    assert [record.exc_info for record in caplog.records] == [None]
    service.job_failed("tail", KeyError("x"))
    assert service.status()["lastError"] == "KeyError: 'x'"
    assert caplog.records[-1].exc_info is not None
    assert service.status()["failures"] == 0
    caplog.set_level("INFO")
    service.job_done("tail")
    assert caplog.messages[-1].startswith("the job tail runs again after")
    assert caplog.messages[-1].endswith(", 3 runs")


def test_no_checkpoint_is_due_before_the_age_of_the_image_is_known(
    service: CheckpointService, role: FakeRole, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon is started while the NameNode is down."""
    role.read_fault = RpcConnectionError("nn1:8020: cannot connect")
    assert service.poll().state is TriggerState.FAILED
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert service.status()["failures"] == 0
    clock.now += PERIOD
    assert service.poll().state is TriggerState.FAILED
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]


def test_unreadable_journal_is_reported_everywhere(service: CheckpointService, role: FakeRole) -> None:
    role.read_fault = StorageError("not mounted", hint="Mount it.")
    assert service.poll().state is TriggerState.FAILED
    status = service.status()
    assert (status["error"], status["alarms"], status["ready"]) == ("not mounted", ["not mounted"], False)
    assert (status["alarmKinds"], status["nextSteps"]) == ({"not mounted": "unreadable"}, {"not mounted": "Mount it."})
    shown = list(status_lines(status | {"url": "http://here"}, START, None))
    assert shown[-2:] == [f"{'alarm':<16}not mounted", f"{'':<16}next: Mount it."]
    role.read_fault = OSError(5, "Input/output error")
    assert set(service.status()["nextSteps"]) == set(service.status()["alarms"])
    assert not service.ready().ok
    assert service.live().ok
    role.read_fault = None
    assert service.ready().ok


def test_failed_upload_is_reported(service: CheckpointService, role: FakeRole) -> None:
    role.journal = TRANSACTIONS
    role.uploads = [Upload("http://nn1:9870", "failed", "connection refused")]
    result = service.poll()
    assert result.state is TriggerState.DONE
    assert result.details["uploadErrors"] == {"http://nn1:9870": "connection refused"}
    status = service.status()
    assert (status["lastError"], status["uploadedAt"]) == ("connection refused", None)


def test_service_with_an_alarm_is_not_ready(service: CheckpointService, role: FakeRole) -> None:
    role.raised = ["transactions from 7 on are missing"]
    assert service.ready().message == role.raised[0]
    assert not service.ready().ok
    assert service.live().ok
    assert service.status()["alarms"] == role.raised
    assert service.status()["nextSteps"] == {role.raised[0]: "See docs/runbook.md#gap-in-the-edits."}


def test_space_that_an_image_occupies_while_it_is_written_is_no_alarm(
    service: CheckpointService, role: FakeRole
) -> None:
    found: dict[str, list[str]] = {}

    def observed(observer: Observer) -> None:
        for phase in ("replay", "save"):
            observer.phase(phase, 1)
            found[phase] = list(service.status()["alarms"])

    role.no_room, role.during, role.journal = "no space for a checkpoint", observed, TRANSACTIONS
    assert service.poll().state is TriggerState.DONE
    assert found == {"replay": ["no space for a checkpoint"], "save": []}


def test_a_request_does_not_succeed_while_edits_are_not_followed(service: CheckpointService, role: FakeRole) -> None:
    """The NameNode may have edits that this node has not read, so that no checkpoint seems to be due."""
    role.raised = [Alarm("edits are not followed: another namespace", "Check the addresses.")]
    assert service.request(force=False, wait=True).details.get("exitCode") is None
    result = service.request(force=True, wait=True)
    assert (result.state, result.details["exitCode"]) == (TriggerState.SKIPPED, ExitCode.FAILURE)
    assert result.details["hint"] == "Check the addresses."
    assert result.message == (
        "no checkpoint is due: 0 transactions since the image at 0, but edits are not followed: another namespace"
    )
    role.raised = []
    assert "exitCode" not in service.request(force=True, wait=True).details


def test_second_missing_answer_of_a_namenode_is_an_alarm(role: FakeRole, clock: Clock) -> None:
    """The NameNode is frozen, but the journal can be read, so the daemon is ready."""
    url, config = "http://nn1:9870/jmx?qry=x", standby_config()
    answers: list[ImageAcceptance | TransferError] = [
        TransferError(url, "no answer: timed out", hint="Check that the NameNode is up."),
        TransferCancelledError(url, "the request was cancelled"),
        TransferError(url, "no answer: timed out", hint="Check that the NameNode is up."),
        ImageAcceptance(version="3.4.2", state="active", last_at=None, last_txid=None),
    ]

    def ask(address: str, **_: object) -> ImageAcceptance:
        answer = answers.pop(0)
        if isinstance(answer, TransferError):
            raise answer
        return answer

    forecast = UploadForecast(config, ask=ask, wall=clock.wall)
    service = CheckpointService(role, config, clock=clock, wall=clock.wall, forecast=forecast)
    alarm = "http://nn1:9870 does not report its state: no answer: timed out"
    for raised in ([], [], [alarm], []):
        service.jobs()[0].run()
        clock.now += config.poll_interval
        status = service.status()
        assert (status["alarms"], status["ready"]) == (raised, True)
        assert status["nextSteps"] == dict.fromkeys(raised, "Check that the NameNode is up.")


def test_unusable_image_files_are_alarms(
    service: CheckpointService, role: FakeRole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = recorded_directory(tmp_path / "name")
    monkeypatch.setattr(role, "image_folders", lambda: [root / "current"])
    edits = recorded_directory(tmp_path / "edits")
    (edits / "current" / md5_name(image_name(IMAGE_TXID))).unlink()
    # directories for edits are not listed
    monkeypatch.setattr(role, "storage", lambda: {str(root): "in use", str(edits): "in use"})
    assert service.status()["alarms"] == []
    (root / "current" / md5_name(image_name(IMAGE_TXID))).unlink()
    status = service.status()
    (alarm,) = status["alarms"]
    assert "1 file with the name of an image cannot be used" in alarm
    assert (status["alarmKinds"][alarm], status["nextSteps"][alarm]) == ("image", UNUSABLE_HINT)
    assert status["ready"]


def test_log_lines_have_fields_for_collectors(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    role.journal = TRANSACTIONS
    role.uploads = [
        Upload("http://nn1:9870", "SUCCESS", "", 2.5, 4096, TRANSACTIONS),
        Upload("http://nn2:9870", "failed", "it was interrupted", 0.5, 100, TRANSACTIONS),
    ]
    assert service.poll().state is TriggerState.DONE
    role.fault = StorageError("no disk")
    role.journal += TRANSACTIONS
    assert service.poll().state is TriggerState.FAILED
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    saved = next(line for line in lines if line["message"].startswith("checkpoint at txid"))
    assert (saved["txid"], saved["phase"], saved["reason"], saved["seconds"]) == (TRANSACTIONS, "save", "txns", 6.0)
    assert {"bytes", "transactions", "inodes"} <= saved.keys()
    taken, failed = (line for line in lines if line["message"].startswith("upload to"))
    assert (taken["target"], taken["result"], taken["seconds"], taken["bytes"], taken["phase"]) == (
        "http://nn1:9870",
        "SUCCESS",
        2.5,
        4096,
        "upload",
    )
    assert (failed["level"], failed["target"], failed["txid"]) == ("ERROR", "http://nn2:9870", TRANSACTIONS)
    broken = next(line for line in lines if line["message"].startswith("checkpoint failed"))
    assert broken["exitCode"] == 6


def test_role_that_gives_up_is_reported(role: FakeRole, clock: Clock) -> None:
    reported: list[bool] = []
    service = CheckpointService(
        role, standby_config(), clock=clock, wall=clock.wall, gave_up=lambda: reported.append(True)
    )
    role.journal, role.fault = TRANSACTIONS, RoleGaveUpError("4 merges failed")
    assert service.poll().state is TriggerState.FAILED
    assert reported == [True]
    assert service.fault is role.fault
