"""When a checkpoint is due: decisions without I/O, and a service that decides at its polls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.clock
from checkpointer.daemon.checkpoint_schedule import TriggerReason, decide
from checkpointer.daemon.service import CheckpointService
from checkpointer.roles.role import Progress
from engine.merge import Observer
from hadoop_common.configuration import Configuration
from hadoop_common.errors import StorageError
from node_state.text import status_lines
from servlets.status import TriggerResult, TriggerState
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.checkpointer.service_support import PERIOD, START, TRANSACTIONS, Clock, FakeRole, standby_config

CONFIG = CheckpointConfig.from_configuration(
    Configuration.from_mapping(
        {
            "fs.defaultFS": "hdfs://nn",
            "dfs.namenode.checkpoint.dir": "/x",
            "dfs.namenode.checkpoint.period": "100",
            "dfs.namenode.checkpoint.txns": "10",
        },
        {},
    ),
    Role.SECONDARY,
)


@pytest.mark.parametrize(
    ("image", "journal", "behind"), [(-1, 7, 7), (-1, -1, 0), (-1, 0, 0), (0, 7, 7), (5, 7, 2), (9, 7, 0)]
)
def test_number_of_transactions_without_an_image(image: int, journal: int, behind: int) -> None:
    assert Progress(image, journal, None).behind == behind


@pytest.mark.parametrize(
    ("age", "transactions", "forced", "expected"),
    [
        (99.9, 9, False, None),
        (100, 0, False, TriggerReason.PERIOD),
        (0, 10, False, TriggerReason.TRANSACTIONS),
        (100, 10, False, TriggerReason.TRANSACTIONS),
        (0, 0, True, TriggerReason.FORCED),
        (100, 10, True, TriggerReason.FORCED),
    ],
)
def test_trigger_reasons(age: float, transactions: int, forced: bool, expected: TriggerReason | None) -> None:
    reason = decide(now=1000 + age, last_checkpoint=1000, transactions=transactions, config=CONFIG, forced=forced)
    assert reason is expected


@given(st.integers(-(10**9), 10**9), st.integers(0, 10**4), st.integers(0, 10**4), st.integers(0, 50))
def test_trigger_depends_on_the_age_and_remains_due(start: int, age: int, more: int, transactions: int) -> None:
    def at(origin: int, elapsed: int) -> TriggerReason | None:
        return decide(now=origin + elapsed, last_checkpoint=origin, transactions=transactions, config=CONFIG)

    assert at(start, age) is at(0, age)
    if at(0, age) is not None:
        assert at(0, age + more) is not None


def test_checkpoint_by_transactions(service: CheckpointService, role: FakeRole) -> None:
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


def test_checkpoint_by_period_requires_new_edits(service: CheckpointService, role: FakeRole, clock: Clock) -> None:
    clock.now = PERIOD
    assert service.poll().state is TriggerState.SKIPPED
    role.journal = 1
    result = service.poll()
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "period")
    role.journal += 1
    clock.now += PERIOD - 1
    assert service.poll().state is TriggerState.SKIPPED


def test_period_includes_the_time_for_which_the_host_slept(role: FakeRole, clock: Clock) -> None:
    """A monotonic clock does not count this time."""
    role.wall = wall = tests.clock.Clock(START)
    service = CheckpointService(role, standby_config(), clock=clock, wall=wall)
    role.journal = 1
    for slept, state in ((0.0, TriggerState.SKIPPED), (PERIOD - 1, TriggerState.SKIPPED), (2.0, TriggerState.DONE)):
        wall.now += slept
        assert service.poll().state is state


def test_sleep_during_a_checkpoint_does_not_belong_to_the_next_period(role: FakeRole, clock: Clock) -> None:
    role.wall = wall = tests.clock.Clock(START)
    service = CheckpointService(role, standby_config(), clock=clock, wall=wall)

    def sleep(observer: Observer) -> None:
        wall.now += 72 * PERIOD

    role.during, role.journal = sleep, TRANSACTIONS
    assert service.poll().state is TriggerState.DONE
    role.journal += 1
    clock.now, wall.now = clock.now + 60.0, wall.now + 60.0
    assert service.poll().state is TriggerState.SKIPPED


def test_clock_that_is_set_back_neither_delays_nor_hastens_a_checkpoint(role: FakeRole, clock: Clock) -> None:
    role.wall = wall = tests.clock.Clock(START)
    service = CheckpointService(role, standby_config(), clock=clock, wall=wall)
    role.journal = 1
    # set back by a day and corrected; then two time sources that differ by 30 s
    for step in (0.0, -86_400.0, 86_400.0, *(-30.0, 30.0) * 10):
        wall.now += step
        assert service.poll().state is TriggerState.SKIPPED
    wall.now -= 86_400.0
    clock.now += PERIOD - 1
    assert service.poll().state is TriggerState.SKIPPED
    clock.now += 1
    assert service.poll().state is TriggerState.DONE


def test_period_counts_from_the_image_on_disk(role: FakeRole, clock: Clock) -> None:
    """The age of the image also counts in a process that has just started."""
    role.journal, role.written_at = 1, START - PERIOD + 1
    service = CheckpointService(role, standby_config(), clock=clock, wall=clock.wall)
    assert service.poll().state is TriggerState.SKIPPED
    assert service.status()["secondsSinceCheckpoint"] == PERIOD - 1
    assert service.ready().message == "1 transaction behind, last checkpoint 1 min 39 s ago"
    clock.now += 1
    assert service.poll().details["reason"] == "period"


def test_checkpoint_is_due_without_an_image(service: CheckpointService, role: FakeRole) -> None:
    role.journal, role.image, role.written_at = -1, -1, None
    assert service.request(force=True, wait=True).message == ("no checkpoint is due: 0 transactions without an image")
    role.journal = 5
    assert service.ready().message == "5 transactions behind, no checkpoint yet"
    assert (service.status()["checkpointAt"], service.status()["secondsSinceCheckpoint"]) == (None, None)
    assert service.poll().details["reason"] == "period"
    assert service.status()["checkpointAt"] == START


def test_no_checkpoints_while_disabled(role: FakeRole, clock: Clock) -> None:
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
    status = service.status()
    assert status["enabled"] is False
    lines = status_lines(status | {"url": "http://here"}, START, None)
    assert f"{'checkpoints':<16}switched off by the configuration" in lines


def test_faults_before_checkpoints_were_disabled_are_no_alarms(role: FakeRole, clock: Clock) -> None:
    service = CheckpointService(role, standby_config(), clock=clock, wall=clock.wall)
    role.journal, role.fault, role.raised = TRANSACTIONS, StorageError("disk full"), ["edits are not followed"]
    for _ in range(2):
        service.request(force=True, wait=True)
    assert [alarm.partition(" ")[0] for alarm in service.status()["alarms"]] == ["edits", "checkpoint"]
    service.reconfigure(standby_config(**{"dfs.ha.standby.checkpoints": "false"}))
    assert service.status()["alarms"] == []
    assert service.ready().ok


def test_urgent_checkpoint_is_made_at_once(service: CheckpointService, role: FakeRole) -> None:
    role.journal, role.urgent = 1, "a rollback image is due"
    result = service.poll()
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "urgent")
