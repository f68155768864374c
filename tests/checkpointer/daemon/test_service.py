"""A service with a role that a test controls: requests for checkpoints, and the status."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.transfer.image_acceptance import ImageAcceptance
from checkpointer.transfer.upload_target import Upload
from engine.merge import Observer
from hadoop_common.errors import StorageError
from hadoop_common.names import ImageKind
from node_state.text import status_lines
from servlets.status import TriggerState
from tests.checkpointer.service_support import PERIOD, START, TRANSACTIONS, Clock, FakeRole, service_of, standby_config
from tests.namenode_stub.stub_support import wait_until


class WatchedRole(FakeRole):
    """Recorder of the daemon's phase before an offer and after each upload."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: list[object] = []
        self.phase: Callable[[], object] = lambda: None

    def upload(self, cancelled: Callable[[], bool], began: Callable[[], None], *, force: bool) -> Iterator[Upload]:
        self.phases.append(self.phase())
        for upload in super().upload(cancelled, began, force=force):
            self.phases.append(self.phase())
            yield upload


def test_phase_is_upload_only_during_an_upload(clock: Clock) -> None:
    role = WatchedRole()
    service = service_of(role, clock)
    role.phase = lambda: service.status()["phase"]
    role.journal = TRANSACTIONS
    assert service.poll().state is TriggerState.DONE
    assert role.phases == ["idle", "upload"]
    role.uploads = []
    assert service.poll().state is TriggerState.SKIPPED
    assert role.phases[2:] == ["idle"]


def test_latency_from_the_trigger_to_the_image_is_reported(
    service: CheckpointService, role: FakeRole, clock: Clock
) -> None:
    def during(observer: Observer) -> None:
        clock.now += 5
        observer.saved()
        # opening the next base image does not count
        clock.now += 100

    assert service.status()["latencySeconds"] is None
    role.journal, role.during = TRANSACTIONS, during
    assert service.poll().state is TriggerState.DONE
    assert service.status()["latencySeconds"] == 5


def test_age_is_that_of_the_image_of_the_namenode(role: FakeRole, clock: Clock) -> None:
    """Our image may be newer if the NameNode has not accepted our image."""
    config = standby_config()
    known = ImageAcceptance(version="2.7.3", state="active", last_at=START - 1000.0, last_txid=0)
    forecast = UploadForecast(config, ask=lambda address, **_: known, wall=clock.wall)
    service = CheckpointService(role, config, clock=clock, wall=clock.wall, forecast=forecast)
    job, *_ = service.jobs()
    job.run()
    role.journal = 1
    assert service.status()["secondsSinceCheckpoint"] == 1000.0
    alarm = "no checkpoint for 16 min 40 s, 1 transaction without an image; a checkpoint is due every 1 min 40 s"
    assert service.ready().message == alarm
    assert service.status()["alarms"] == [alarm]
    # an accepted image resets the age immediately, although the NameNode's beans are cached
    assert service.request(force=True, wait=True).state is TriggerState.DONE
    job.run()
    assert service.status()["secondsSinceCheckpoint"] == 0.0
    assert service.ready().ok


def test_forced_checkpoint(service: CheckpointService, role: FakeRole) -> None:
    assert service.request(force=True, wait=True).state is TriggerState.SKIPPED
    role.journal = 1
    assert service.request(force=False, wait=True).state is TriggerState.SKIPPED
    result = service.request(force=True, wait=True)
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "forced")
    assert result.details["uploads"] == {"http://nn1:9870": "SUCCESS"}
    assert role.forced == [True, False, True]


def test_ignored_operations_are_counted(service: CheckpointService, role: FakeRole) -> None:
    for ignored, total in ((2, 2), (3, 5), (0, 5)):
        role.journal, role.ignored = role.journal + 5, ignored
        assert service.request(force=True, wait=True).details["ignored"] == ignored
        status = service.status()
        assert (status["ignored"], status["ignoredTotal"]) == (ignored, total)


def test_request_without_waiting(service: CheckpointService, role: FakeRole) -> None:
    role.journal = 1
    assert service.request(force=True, wait=False).state is TriggerState.STARTED
    wait_until("the checkpoint", lambda: service.status()["checkpoints"] == 1)


def test_only_one_checkpoint_runs_and_waiters_get_its_result(service: CheckpointService, role: FakeRole) -> None:
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


def test_waiter_makes_its_own_attempt_after_a_failure(service: CheckpointService, role: FakeRole) -> None:
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


def test_service_without_timely_checkpoints_is_not_ready(
    service: CheckpointService, role: FakeRole, clock: Clock
) -> None:
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


def test_status_has_separate_times_of_polls_saves_and_uploads(
    service: CheckpointService, role: FakeRole, clock: Clock
) -> None:
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
    # the period begins at the end of the checkpoint, regardless of its duration
    role.journal += 1
    clock.now += PERIOD - 1
    assert service.poll().state is TriggerState.SKIPPED


def test_new_settings_apply_to_the_next_poll(service: CheckpointService, role: FakeRole) -> None:
    role.journal = 1
    assert service.poll().state is TriggerState.SKIPPED
    service.reconfigure(replace(standby_config(), transactions=1))
    assert service.poll().state is TriggerState.DONE


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
