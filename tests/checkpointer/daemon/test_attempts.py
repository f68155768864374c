"""Attempts that fail: requests, retries, recovery and the last error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.errors import RoleGaveUpError
from checkpointer.transfer.upload_target import Upload
from hadoop_common.errors import StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.recurring_fault import Alarm
from hadoop_rpc.errors import RpcConnectionError
from servlets.status import TriggerState
from tests.checkpointer.service_support import PERIOD, TRANSACTIONS, Clock, FakeRole, standby_config


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


def test_failed_upload_is_reported(service: CheckpointService, role: FakeRole) -> None:
    role.journal = TRANSACTIONS
    role.uploads = [Upload("http://nn1:9870", "failed", "connection refused")]
    result = service.poll()
    assert result.state is TriggerState.DONE
    assert result.details["uploadErrors"] == {"http://nn1:9870": "connection refused"}
    status = service.status()
    assert (status["lastError"], status["uploadedAt"]) == ("connection refused", None)


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


def test_role_that_gives_up_is_reported(role: FakeRole, clock: Clock) -> None:
    reported: list[bool] = []
    service = CheckpointService(
        role, standby_config(), clock=clock, wall=clock.wall, gave_up=lambda: reported.append(True)
    )
    role.journal, role.fault = TRANSACTIONS, RoleGaveUpError("4 merges failed")
    assert service.poll().state is TriggerState.FAILED
    assert reported == [True]
    assert service.fault is role.fault
