"""Pace at which a backup node repairs its stream."""

from __future__ import annotations

from checkpointer.roles.backup.stream_upkeep import UpkeepPace
from hadoop_common.back_off import BackOff


def test_waits_double_up_to_a_maximum() -> None:
    now = 100.0
    pace = UpkeepPace(BackOff(2.0, 10.0), BackOff(2.0, 30.0), lambda: now)
    waits = []
    for _ in range(5):
        assert pace.due()
        pace.failed(at_once=False)
        began = now
        while not pace.due():
            now += 0.5
        waits.append(now - began)
    assert waits == [2.0, 4.0, 8.0, 10.0, 10.0]
    pace.failed(at_once=True)
    assert pace.due()
    pace.succeeded()
    pace.failed(at_once=False)
    now += 2.0
    assert pace.due()


def test_stream_is_stalled_if_known_transactions_did_not_arrive() -> None:
    pace = UpkeepPace(BackOff(2.0, 10.0), BackOff(2.0, 30.0), lambda: 0.0)
    assert not pace.stalled(10, 12)
    assert not pace.stalled(11, 12)
    assert pace.stalled(11, 12)
    assert not pace.stalled(12, 12)
    assert not pace.stalled(12, 12)
