from datetime import UTC, datetime, timedelta

import pytest

from checkpointer.daemon.wall_clock import PresentInterval, WallClockWatch
from tests.clock import Clock


@pytest.mark.parametrize(("wall", "seconds"), [(-50.0, 60.0), (5.0, 5.0), (9.5, 0.0), (10.0, 0.0), (3600.0, 0.0)])
def test_set_back_clock_is_reported_once(wall: float, seconds: float) -> None:
    monotonic, clock = Clock(1.0), Clock(1_000_000.0)
    watch = WallClockWatch(monotonic, clock)
    assert watch.set_back() == 0
    monotonic.now += 10
    clock.now += wall
    assert watch.set_back() == seconds
    monotonic.now += 10
    clock.now += 10
    assert watch.set_back() == 0


@pytest.mark.parametrize(
    ("passed", "following"), [(0.0, 2.0), (1.5, 2.0), (2.0, 4.0), (5.0, 7.0), (1_500_000_000.0, 1_500_000_002.0)]
)
def test_missed_runs_are_skipped(passed: float, following: float) -> None:
    last = datetime(2026, 1, 1, tzinfo=UTC)
    next_run = PresentInterval(2.0).get_next_fire_time(last, last + timedelta(seconds=passed))
    assert next_run == last + timedelta(seconds=following)
