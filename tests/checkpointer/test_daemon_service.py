"""When checkpoints are made, one at a time, and what is recorded of them; with a simulated role."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.errors import RoleGaveUpError
from checkpointer.roles.role import Upload
from checkpointer.transfer.image_acceptance import ImageAcceptance
from engine.errors import CheckpointCancelledError
from engine.healing import HealedFault
from engine.merge import Observer
from hadoop_common.errors import StorageError
from hadoop_common.json_log import JsonFormatter
from hadoop_common.names import ImageKind
from hadoop_rpc.errors import RpcConnectionError
from servlets.status import TriggerResult, TriggerState
from tests.checkpointer.service_support import PERIOD, START, TRANSACTIONS, Clock, FakeRole, standby_config
from tests.namenode_stub.stub_support import wait_until
from tests.servlets.support import INFO


@pytest.fixture
def role() -> FakeRole:
    return FakeRole()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(role: FakeRole, clock: Clock) -> CheckpointService:
    role.wall = clock.wall
    return CheckpointService(role, standby_config(), clock=clock, wall=clock.wall)


def test_by_transactions(service: CheckpointService, role: FakeRole) -> None:
    role.journal = TRANSACTIONS - 1
    assert service.poll().state is TriggerState.SKIPPED
    role.journal += 1
    result = service.poll()
    assert (result.state, result.details["reason"], result.details["txid"]) == (TriggerState.DONE, "txns", 50)
    assert service.poll().state is TriggerState.SKIPPED
    status = service.status()
    assert (status["checkpoints"], status["savedTxid"], status["lastReason"]) == (1, 50, "txns")
    assert status["lastSeconds"] == {"load": 1.0, "replay": 2.0, "save": 3.0, "upload": 0.5}
    assert (status["imageTxid"], status["journalTxid"], status["transactionsBehind"]) == (50, 50, 0)
    assert (status["phase"], status["lastError"]) == ("idle", "")


def test_the_time_from_the_trigger_to_the_image_is_told(
    service: CheckpointService, role: FakeRole, clock: Clock
) -> None:
    def during(observer: Observer) -> None:
        clock.now += 5
        observer.saved()
        # the next base is opened
        clock.now += 100

    assert service.status()["latencySeconds"] is None
    role.journal, role.during = TRANSACTIONS, during
    assert service.poll().state is TriggerState.DONE
    assert service.status()["latencySeconds"] == 5


def test_by_period_but_not_for_nothing(service: CheckpointService, role: FakeRole, clock: Clock) -> None:
    clock.now = PERIOD
    assert service.poll().state is TriggerState.SKIPPED
    role.journal = 1
    result = service.poll()
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "period")
    role.journal += 1
    clock.now += PERIOD - 1
    assert service.poll().state is TriggerState.SKIPPED


def test_the_period_counts_from_the_image_on_disk(role: FakeRole, clock: Clock) -> None:
    """Also in a process that has just started."""
    role.journal, role.written_at = 1, START - PERIOD + 1
    service = CheckpointService(role, standby_config(), clock=clock, wall=clock.wall)
    assert service.poll().state is TriggerState.SKIPPED
    assert service.status()["secondsSinceCheckpoint"] == PERIOD - 1
    assert service.ready().message == "1 transactions behind, last checkpoint 1 min 39 s ago"
    clock.now += 1
    assert service.poll().details["reason"] == "period"


def test_without_an_image_one_is_due_and_none_is_told(service: CheckpointService, role: FakeRole) -> None:
    role.journal, role.image, role.written_at = 5, -1, None
    assert service.ready().message == "6 transactions behind, no checkpoint yet"
    assert (service.status()["checkpointAt"], service.status()["secondsSinceCheckpoint"]) == (None, None)
    assert service.poll().details["reason"] == "period"
    assert service.status()["checkpointAt"] == START


def test_the_age_is_that_of_the_namenodes_image(role: FakeRole, clock: Clock) -> None:
    """Ours may be newer if the NameNode did not accept it."""
    config = standby_config()
    known = ImageAcceptance(version="2.7.3", state="active", last_at=START - 1000.0, last_txid=0)
    forecast = UploadForecast(config, ask=lambda address, **_: known, wall=clock.wall)
    service = CheckpointService(role, config, clock=clock, wall=clock.wall, forecast=forecast)
    job, *_ = service.jobs()
    job.run()
    role.journal = 1
    assert service.status()["secondsSinceCheckpoint"] == 1000.0
    alarm = "no checkpoint for 16 min 40 s, 1 transactions are in no image; one is due every 1 min 40 s"
    assert service.ready().message == alarm
    assert service.status()["alarms"] == [alarm]
    # an image that it accepts from us is newer at once, whatever its cached beans report
    assert service.request(force=True, wait=True).state is TriggerState.DONE
    job.run()
    assert service.status()["secondsSinceCheckpoint"] == 0.0
    assert service.ready().ok


# ---- failures ----------------------------------------------------------------------------------------------


def test_failures_in_a_row_are_an_alarm_and_wait_longer_and_longer(
    service: CheckpointService, role: FakeRole, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Polls come every second; the log has a line at the start and one at the end."""
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
    told = [line for line in caplog.messages if "upload" not in line and "checkpoint at txid" not in line]
    assert told == [
        "checkpoint by txns: 50 transactions behind",
        "checkpoint failed: disk full; next: Free space.",
        "a checkpoint was made again after 1 min 0 s, 7 attempts",
    ]


def test_silence_is_told_once_and_is_no_error_while_nothing_is_due(
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


def test_transfers_that_fail_again_and_again_are_an_alarm(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    role.journal = TRANSACTIONS
    role.uploads = [Upload("http://nn1:9870", "failed", "it broke off")]
    target = role.targets[0]
    for _ in range(3):
        service.poll()
        target = target.failed("it broke off", at=START, not_before=0.0)
        role.targets = (target,)
    assert service.ready().message == (
        f"http://nn1:9870 does not get the image at txid {TRANSACTIONS}: 3 transfers in a row failed, the last: "
        "it broke off"
    )
    role.uploads = [Upload("http://nn1:9870", "SUCCESS")]
    service.poll()
    role.targets = (target.holds(TRANSACTIONS, ImageKind.IMAGE),)
    assert service.ready().ok
    lines = [line for line in caplog.messages if "nn1" in line]
    assert lines[0].startswith("upload to http://nn1:9870 failed: it broke off; next: ")
    assert lines[1:] == [
        "http://nn1:9870 accepts images again after 0 s, 3 transfers",
        "upload to http://nn1:9870: SUCCESS in 0.00 s",
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
    assert "forced checkpoint: 3 transactions behind" in caplog.messages
    assert not [line for line in caplog.messages if "by forced" in line]
    # and no more than once
    role.journal += 1
    assert service.poll().state is TriggerState.SKIPPED


def test_a_cancellation_ends_what_is_owed_by_force(service: CheckpointService, role: FakeRole, clock: Clock) -> None:
    role.journal, role.fault = 3, StorageError("disk full")
    assert service.request(force=True, wait=True).state is TriggerState.FAILED
    service.cancel("enough", prevent_for=0.0)
    role.fault = None
    clock.now += 50
    assert service.poll().state is TriggerState.SKIPPED
    assert role.merges == 0


def test_no_room_is_not_ready_before_anything_failed(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    role.no_room = "no space for a checkpoint: /name has 0 bytes free, 9 are needed"
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


def test_a_recovery_is_logged_only_when_the_operation_that_failed_succeeded(
    service: CheckpointService, role: FakeRole, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def again() -> list[str]:
        return [line for line in caplog.messages if "again after" in line and "next:" not in line]

    # an image that cannot be offered
    role.journal, role.uploads = TRANSACTIONS, []
    role.upload_fault = StorageError("the digest file is unreadable")
    assert service.poll().state is TriggerState.FAILED
    # no image is offered now, which proves nothing
    role.upload_fault = None
    assert service.poll().state is TriggerState.SKIPPED
    assert again() == []
    # a transfer that fails, and a NameNode that refuses the image then
    role.uploads = [Upload("http://nn1:9870", "failed", "it broke off")]
    service.poll()
    role.uploads = [Upload("http://nn1:9870", "OLD_TRANSACTION_ID_FAILURE", refusal="too recent")]
    service.poll()
    assert again() == []
    # no transaction is behind any longer, but no checkpoint was made in time
    clock.now, role.journal = 4 * PERIOD, TRANSACTIONS + 1
    role.fault = StorageError("disk full")
    service.poll()
    assert [line for line in caplog.messages if line.startswith("no checkpoint for")]
    role.journal = TRANSACTIONS
    service.poll()
    assert again() == []


def test_what_is_not_known_is_null(service: CheckpointService, role: FakeRole) -> None:
    role.journal = 7
    assert service.status()["transactionsBehind"] == 7
    role.read_fault = StorageError("no storage directory is left")
    status = service.status()
    assert (status["transactionsBehind"], status["journalTxid"]) == (None, 7)


def test_a_refusal_names_the_way_out(service: CheckpointService, role: FakeRole) -> None:
    role.journal = 1
    service.cancel("maintenance", prevent_for=1800.0)
    refused = service.request(force=True, wait=True)
    assert refused.message == "no checkpoint may begin for 30 min 0 s: maintenance"
    assert "--cancel --minutes 0" in refused.details["hint"]


def test_by_force(service: CheckpointService, role: FakeRole) -> None:
    assert service.request(force=True, wait=True).state is TriggerState.SKIPPED
    role.journal = 1
    assert service.request(force=False, wait=True).state is TriggerState.SKIPPED
    result = service.request(force=True, wait=True)
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "forced")
    assert result.details["uploads"] == {"http://nn1:9870": "SUCCESS"}
    assert role.forced == [True, False, True]


def test_operations_that_changed_nothing_are_counted(service: CheckpointService, role: FakeRole) -> None:
    for ignored, total in ((2, 2), (3, 5), (0, 5)):
        role.journal, role.ignored = role.journal + 5, ignored
        assert service.request(force=True, wait=True).details["ignored"] == ignored
        status = service.status()
        assert (status["ignored"], status["ignoredTotal"]) == (ignored, total)


def test_what_was_healed_is_told_everywhere(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    role.journal = 1
    role.healed = (
        HealedFault("diff-deleted", "SNAPSHOT_DIFF", 16391, "/s/l", "a link: kept"),
        HealedFault("diff-created", "SNAPSHOT_DIFF", 16386, "/s", "a name: dropped"),
    )
    result = service.request(force=True, wait=True)
    told = [asdict(healed) for healed in role.healed]
    assert result.state is TriggerState.DONE
    assert result.details["healed"] == told
    following = "; next: Make sure that the NameNode has this image before it is restarted."
    assert [record.message for record in caplog.records if "healed" in record.message] == [
        f"fsimage_{1:019d}: healed: diff-deleted [SNAPSHOT_DIFF, inode 16391, /s/l]: a link: kept{following}",
        f"fsimage_{1:019d}: healed: diff-created [SNAPSHOT_DIFF, inode 16386, /s]: a name: dropped{following}",
    ]
    status = service.status()
    (alarm,) = status["alarms"]
    assert alarm.startswith("2 inconsistencies of snapshots were healed in the image at txid 1")
    assert (status["healed"], status["healedTotal"]) == (told, 2)
    # the checkpoint is good
    assert service.ready().ok
    role.journal, role.healed = 2, ()
    assert service.request(force=True, wait=True).details["healed"] == []
    status = service.status()
    assert (status["alarms"], status["healed"], status["healedTotal"]) == ([], [], 2)


def test_without_waiting(service: CheckpointService, role: FakeRole) -> None:
    role.journal = 1
    assert service.request(force=True, wait=False).state is TriggerState.STARTED
    wait_until("the checkpoint", lambda: service.status()["checkpoints"] == 1)


def test_one_at_a_time_and_who_waits_gets_its_result(service: CheckpointService, role: FakeRole) -> None:
    role.journal = TRANSACTIONS
    begun, go_on = threading.Event(), threading.Event()

    def during(observer: Observer) -> None:
        begun.set()
        assert go_on.wait(600)

    role.during = during
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(service.poll)
        assert begun.wait(600)
        assert service.status()["phase"] == "replay"
        assert service.poll().state is TriggerState.BUSY
        waiting = [pool.submit(service.request, force=True, wait=True) for _ in range(3)]
        go_on.set()
        results = [each.result() for each in [first, *waiting]]
    assert [result.state for result in results[:1]] == [TriggerState.DONE]
    # a request after the end has nothing left to do
    assert {result.state for result in results} <= {TriggerState.DONE, TriggerState.SKIPPED}
    assert {result.details["txid"] for result in results} == {TRANSACTIONS}
    assert (role.merges, role.most_running) == (1, 1)


def test_who_waited_for_a_failure_tries_itself(service: CheckpointService, role: FakeRole) -> None:
    role.journal = TRANSACTIONS
    begun, go_on = threading.Event(), threading.Event()
    real_fault = StorageError("disk full")

    def during(observer: Observer) -> None:
        role.during = lambda observer: setattr(role, "fault", None)
        role.fault = real_fault
        begun.set()
        assert go_on.wait(600)

    role.during = during
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(service.poll)
        assert begun.wait(600)
        second = pool.submit(service.request, force=True, wait=True)
        go_on.set()
        assert first.result().state is TriggerState.FAILED
        assert second.result().state is TriggerState.DONE


@pytest.mark.parametrize(
    ("fault", "code"), [(StorageError("disk full", hint="Buy another."), 6), (OSError(5, "bad"), 6), (KeyError("x"), 1)]
)
def test_a_fault_is_remembered_and_the_next_poll_succeeds(
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


def test_a_job_that_fails_is_told_as_a_checkpoint_is(
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


def test_an_unreadable_journal_is_told_everywhere(service: CheckpointService, role: FakeRole) -> None:
    role.read_fault = StorageError("not mounted")
    assert service.poll().state is TriggerState.FAILED
    assert service.status()["error"] == "not mounted"
    assert not service.ready().ok
    assert service.live().ok
    role.read_fault = None
    assert service.ready().ok


def test_a_failed_upload_is_told(service: CheckpointService, role: FakeRole) -> None:
    role.journal = TRANSACTIONS
    role.uploads = [Upload("http://nn1:9870", "failed", "connection refused")]
    result = service.poll()
    assert result.state is TriggerState.DONE
    assert result.details["uploadErrors"] == {"http://nn1:9870": "connection refused"}
    status = service.status()
    assert (status["lastError"], status["uploadedAt"]) == ("connection refused", None)


def test_a_stop_ends_a_checkpoint_and_starts_no_other(service: CheckpointService, role: FakeRole) -> None:
    role.journal = TRANSACTIONS
    begun = threading.Event()

    def during(observer: Observer) -> None:
        begun.set()
        wait_until("the cancellation", observer.cancelled)
        raise CheckpointCancelledError("cancelled")

    role.during = during
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(service.poll)
        assert begun.wait(600)
        waiting = pool.submit(service.request, force=True, wait=True)
        service.stop()
        assert running.result().state is TriggerState.UNAVAILABLE
        assert waiting.result().state is TriggerState.UNAVAILABLE
    assert role.merges == 0
    assert service.status()["failures"] == 0
    assert service.poll().state is TriggerState.UNAVAILABLE
    assert not service.live().ok


def test_switched_off(role: FakeRole, clock: Clock) -> None:
    service = CheckpointService(
        role, standby_config(**{"dfs.ha.standby.checkpoints": "false"}), clock=clock, wall=clock.wall
    )
    role.journal = 10 * TRANSACTIONS
    clock.now = 10 * PERIOD
    results: list[TriggerResult] = [service.poll(), service.request(force=True, wait=True)]
    results.append(service.request(force=True, wait=False))
    assert {result.state for result in results} == {TriggerState.UNAVAILABLE}
    assert all("dfs.ha.standby.checkpoints" in result.message for result in results)
    assert role.merges == 0
    assert service.ready().ok
    assert service.status()["enabled"] is False


def test_late_is_not_ready(service: CheckpointService, role: FakeRole, clock: Clock) -> None:
    role.journal = 1
    clock.now = 3 * PERIOD
    assert service.ready().ok
    clock.now += 1
    assert not service.ready().ok
    assert service.request(force=True, wait=True).state is TriggerState.DONE
    assert service.ready().ok


def test_status_lists_targets(service: CheckpointService, role: FakeRole) -> None:
    role.targets = (replace(role.targets[0], settled={ImageKind.IMAGE: 5}, result="SUCCESS", at=7.0),)
    assert service.status()["targets"] == [
        {
            "address": "http://nn1:9870",
            "txid": 5,
            "rollbackTxid": -1,
            "heldTxid": -1,
            "result": "SUCCESS",
            "error": "",
            "at": 7.0,
            "failures": 0,
            "primary": True,
            "takesFrom": None,
            "reportedAt": None,
            "namenodeId": "",
            "state": "",
            "sentBytes": None,
            "totalBytes": None,
        }
    ]
    assert service.status()["storage"] == {"/name": "in use"}
    assert service.status()["appliedTxid"] == 0


def test_stamps_tell_looked_saved_and_uploaded_apart(service: CheckpointService, role: FakeRole, clock: Clock) -> None:
    """An idle poll is not a checkpoint, and a refusal is not an upload."""
    clock.now = PERIOD
    role.uploads = [Upload("http://nn1:9870", "OLD_TRANSACTION_ID_FAILURE")]
    assert service.poll().state is TriggerState.SKIPPED
    status = service.status()
    assert status["lookedAt"] is not None
    assert (status["savedAt"], status["uploadedAt"], status["uploads"]) == (None, None, 0)
    assert status["secondsSinceCheckpoint"] == PERIOD
    role.journal = TRANSACTIONS
    role.uploads = [Upload("http://nn1:9870", "SUCCESS", seconds=2.0, size=10)]
    role.during = lambda observer: setattr(clock, "now", 1000.0)
    assert service.poll().state is TriggerState.DONE
    status = service.status()
    assert status["savedAt"] <= status["uploadedAt"]
    assert (status["uploads"], status["uploadedBytes"], status["secondsSinceCheckpoint"]) == (1, 10, 0.0)
    # the period begins at the end of the checkpoint, however long it took
    role.journal += 1
    clock.now += PERIOD - 1
    assert service.poll().state is TriggerState.SKIPPED


def test_urgent_is_at_once(service: CheckpointService, role: FakeRole) -> None:
    role.journal, role.urgent = 1, "a rollback image is due"
    result = service.poll()
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "urgent")


def test_an_alarm_is_not_ready(service: CheckpointService, role: FakeRole) -> None:
    role.raised = ["transactions from 7 on are missing"]
    assert service.ready().message == role.raised[0]
    assert not service.ready().ok
    assert service.live().ok
    assert service.status()["alarms"] == role.raised


def test_a_cancellation_ends_a_checkpoint_and_holds_others_off(
    service: CheckpointService, role: FakeRole, clock: Clock
) -> None:
    role.journal = TRANSACTIONS
    begun = threading.Event()

    def during(observer: Observer) -> None:
        begun.set()
        wait_until("the cancellation", observer.cancelled)
        raise CheckpointCancelledError("cancelled")

    role.during = during
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(service.poll)
        assert begun.wait(600)
        service.cancel("this node becomes active")
        assert running.done()
        assert running.result().state is TriggerState.UNAVAILABLE
    role.during = lambda observer: None
    assert not service._attempts.cancelled()
    refused = service.request(force=True, wait=True)
    assert refused.state is TriggerState.UNAVAILABLE
    assert "this node becomes active" in refused.message
    assert service.status()["cancelled"] == {"reason": "this node becomes active", "secondsLeft": 120.0}
    assert role.merges == 0
    clock.now += 119.0
    assert service.poll().state is TriggerState.UNAVAILABLE
    clock.now += 1.0
    assert service.status()["cancelled"] is None
    assert service.poll().state is TriggerState.DONE
    assert service.status()["failures"] == 0


def test_a_cancellation_may_be_lifted(service: CheckpointService, role: FakeRole) -> None:
    role.journal = TRANSACTIONS
    service.cancel("maintenance", prevent_for=1800.0)
    assert service.poll().state is TriggerState.UNAVAILABLE
    service.cancel("it is over", prevent_for=0.0)
    assert service.status()["cancelled"] is None
    assert service.poll().state is TriggerState.DONE


def test_log_lines_have_fields_for_collectors(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    role.journal = TRANSACTIONS
    role.uploads = [
        Upload("http://nn1:9870", "SUCCESS", "", 2.5, 4096, TRANSACTIONS),
        Upload("http://nn2:9870", "failed", "it broke off", 0.5, 100, TRANSACTIONS),
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


def test_a_role_that_gives_up(role: FakeRole, clock: Clock) -> None:
    told: list[bool] = []
    service = CheckpointService(role, standby_config(), clock=clock, wall=clock.wall, gave_up=lambda: told.append(True))
    role.journal, role.fault = TRANSACTIONS, RoleGaveUpError("4 merges failed")
    assert service.poll().state is TriggerState.FAILED
    assert told == [True]
    assert service.fault is role.fault


def test_new_settings(service: CheckpointService, role: FakeRole) -> None:
    role.journal = 1
    assert service.poll().state is TriggerState.SKIPPED
    service.reconfigure(replace(standby_config(), transactions=1))
    assert service.poll().state is TriggerState.DONE
