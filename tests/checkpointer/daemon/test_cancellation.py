"""Cancellation of checkpoints by an operator or at the end of the daemon."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from checkpointer.daemon.service import CheckpointService
from engine.errors import CheckpointCancelledError
from engine.merge import Observer
from hadoop_common.errors import StorageError
from servlets.status import TriggerState
from tests.checkpointer.service_support import PERIOD, TRANSACTIONS, Clock, FakeRole
from tests.namenode_stub.stub_support import wait_until


def test_cancellation_drops_a_pending_forced_checkpoint(
    service: CheckpointService, role: FakeRole, clock: Clock
) -> None:
    role.journal, role.fault = 3, StorageError("disk full")
    assert service.request(force=True, wait=True).state is TriggerState.FAILED
    service.cancel("enough", prevent_for=0.0)
    role.fault = None
    clock.now += 50
    assert service.poll().state is TriggerState.SKIPPED
    assert role.merges == 0


def test_refused_request_names_the_command_that_ends_the_block(service: CheckpointService, role: FakeRole) -> None:
    role.journal = 1
    service.cancel("maintenance", prevent_for=1800.0)
    refused = service.request(force=True, wait=True)
    assert refused.message == "no checkpoint may begin for 30 min 0 s: maintenance"
    assert "--cancel --minutes 0" in refused.details["hint"]


def wait_for_cancellation(role: FakeRole) -> tuple[threading.Event, threading.Event]:
    """Make the checkpoint run until it is cancelled; the events are set when the checkpoint runs and when it has
    ended.
    """
    begun, ended = threading.Event(), threading.Event()

    def during(observer: Observer) -> None:
        begun.set()
        wait_until("the cancellation", observer.cancelled)
        ended.set()
        raise CheckpointCancelledError("cancelled")

    role.during = during
    return begun, ended


def test_alarm_of_a_late_checkpoint_names_the_command_that_ends_the_block(
    service: CheckpointService, role: FakeRole, clock: Clock
) -> None:
    role.journal = 1
    service.cancel("maintenance", prevent_for=5 * PERIOD)
    clock.now += 4 * PERIOD
    (alarm,) = service.status()["alarms"]
    assert alarm.startswith("no checkpoint for")
    assert "--cancel --minutes 0" in service.status()["nextSteps"][alarm]
    clock.now += PERIOD
    (alarm,) = service.status()["alarms"]
    assert "checkpoint --force" in service.status()["nextSteps"][alarm]


def test_cancellation_ends_a_checkpoint_and_blocks_others(
    service: CheckpointService, role: FakeRole, clock: Clock
) -> None:
    role.journal = TRANSACTIONS
    begun, ended = wait_for_cancellation(role)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(service.poll)
        assert begun.wait(600)
        service.cancel("this node becomes active")
        assert ended.is_set()
        cancelled = running.result()
    assert (cancelled.state, cancelled.message) == (TriggerState.UNAVAILABLE, "cancelled: this node becomes active")
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


def test_cancellation_can_be_revoked(
    service: CheckpointService, role: FakeRole, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "checkpointer.daemon.cancellation")
    role.journal = TRANSACTIONS
    service.cancel("maintenance", prevent_for=1800.0)
    assert service.poll().state is TriggerState.UNAVAILABLE
    service.cancel("it is over", prevent_for=0.0)
    assert caplog.messages == [
        "no checkpoint is running, and none can begin for 30 min 0 s: maintenance",
        "no checkpoint is running, and the next checkpoint may begin immediately",
    ]
    assert service.status()["cancelled"] is None
    assert service.poll().state is TriggerState.DONE


def test_stop_ends_a_checkpoint_and_prevents_others(service: CheckpointService, role: FakeRole) -> None:
    role.journal = TRANSACTIONS
    begun, _ = wait_for_cancellation(role)
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
