"""Alarms and readiness of a service whose checkpoints or uploads fail."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

import tests.clock
from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.transfer.image_acceptance import ImageAcceptance
from checkpointer.transfer.upload_target import Upload, UploadTarget
from engine.healing import HealedFault
from engine.merge import Observer
from hadoop_common.errors import StorageError
from hadoop_common.names import ImageKind
from servlets.status import TriggerState
from tests.checkpointer.service_support import PERIOD, START, TRANSACTIONS, Clock, FakeRole, standby_config
from tests.servlets.support import INFO


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


@pytest.mark.parametrize(("image_at", "late"), [(START, "no checkpoint for"), (None, "no checkpoint yet, after")])
def test_checkpoint_is_late_although_the_clock_was_set_back(
    role: FakeRole, clock: Clock, image_at: float | None, late: str
) -> None:
    """The time of the newest image is then in the future."""
    wall = tests.clock.Clock(START)
    service = CheckpointService(role, standby_config(), clock=clock, wall=wall)
    role.journal, role.written_at, role.fault = 1, image_at, StorageError("disk full")
    service.poll()
    wall.now -= 86_400
    assert service.status()["secondsSinceCheckpoint"] == (None if image_at is None else 0)
    clock.now, wall.now = clock.now + 4 * PERIOD, wall.now + 4 * PERIOD
    assert service.status()["secondsSinceCheckpoint"] == (None if image_at is None else 4 * PERIOD)
    assert any(alarm.startswith(f"{late} 6 min 40 s") for alarm in service.status()["alarms"])


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


def test_image_of_another_namenode_does_not_end_the_alarm_of_the_active_namenode(role: FakeRole, clock: Clock) -> None:
    """Without an image, the active NameNode purges no edits."""
    states = {"http://nn1:9870": "active", "http://nn2:9870": "observer"}
    forecast = UploadForecast(
        standby_config(),
        ask=lambda address, **_: ImageAcceptance("3.4.1", states[address], START, TRANSACTIONS),
        wall=clock.wall,
    )
    service = CheckpointService(role, standby_config(), clock=clock, wall=clock.wall, forecast=forecast)
    active, observer = role.targets[0], UploadTarget("http://nn2:9870").holds(0, ImageKind.IMAGE)
    for _ in range(2):
        active = active.failed(ImageKind.IMAGE, "it was interrupted", at=START, now=0.0, wait=0.0)
    role.targets = (active, observer)
    forecast.update(list(states), lambda: False)
    assert service.ready().message.startswith("http://nn1:9870 does not receive the image at txid 0")
    states["http://nn1:9870"], states["http://nn2:9870"] = "standby", "active"
    forecast.update(list(states), lambda: False)
    assert service.ready().ok
    # the image of a NameNode that was active before the failover
    states["http://nn1:9870"], states["http://nn2:9870"] = "active", "standby"
    forecast.update(list(states), lambda: False)
    assert not service.ready().ok


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
