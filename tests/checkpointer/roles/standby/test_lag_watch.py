"""The alarm for edits that wait too long to be applied."""

from __future__ import annotations

import pytest

from checkpointer.roles.standby.lag_watch import LagWatch
from tests.checkpointer.service_support import Clock


def test_lag_recovery_is_logged_only_after_edits_were_applied(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    lag = LagWatch(60.0, clock=clock)
    lag.note(5, source=9, active=-1)
    clock.now = 61.0
    lag.note(5, source=9, active=-1)
    assert lag.alarm
    # the newer transactions are no longer known
    lag.note(5, source=5, active=-1)
    assert lag.alarm == ""
    assert not [line for line in caplog.messages if "again" in line]
    lag.note(5, source=9, active=-1)
    clock.now = 200.0
    lag.note(5, source=9, active=-1)
    lag.note(6, source=9, active=-1)
    assert caplog.messages[-1].startswith("edits are applied again after")


def test_lag_alarm_for_waiting_edits() -> None:
    clock = Clock()
    watch = LagWatch(300.0, clock=clock)
    watch.note(10, source=10, active=-1)
    clock.now += 10_000
    watch.note(10, source=15, active=-1)
    assert watch.alarm == ""
    clock.now += 300
    watch.note(10, source=15, active=-1)
    assert watch.alarm == ""
    clock.now += 1
    watch.note(10, source=15, active=12)
    assert watch.alarm == (
        "no edit was applied for 301 s: the last applied transaction is 10, but the journal contains transaction 15"
    )
    # slow progress is not a failure
    watch.note(11, source=20, active=12)
    assert watch.alarm == ""
    clock.now += 301
    watch.note(12, source=20, active=30)
    assert watch.alarm == ""
    clock.now += 301
    watch.note(12, source=20, active=30)
    assert "the active NameNode wrote transaction 30" in watch.alarm
    watch.note(30, source=30, active=31)
    assert watch.alarm == ""


def test_start_of_a_segment_causes_no_lag_alarm() -> None:
    clock = Clock()
    watch = LagWatch(300.0, clock=clock)
    for _ in range(3):
        watch.note(10, source=10, active=11)
        clock.now += 301
    assert watch.alarm == ""
    watch.threshold = 0.0
    for _ in range(3):
        watch.note(10, source=20, active=20)
        clock.now += 301
    assert watch.alarm == ""
