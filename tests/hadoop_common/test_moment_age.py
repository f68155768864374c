from __future__ import annotations

from hadoop_common.moment_age import MomentAge
from tests.clock import Clock


def test_age_grows_although_the_clock_was_set_back() -> None:
    monotonic, wall = Clock(5.0), Clock(10_000.0)
    age = MomentAge(monotonic, wall)
    moment = age.now()
    wall.now -= 7200
    assert age.of(moment) == 0
    monotonic.now, wall.now = monotonic.now + 30, wall.now + 30
    assert age.of(moment) == 30
    # a moment that is observed later
    assert age.of(9_000.0) == 0
    monotonic.now, wall.now = monotonic.now + 30, wall.now + 30
    assert age.of(9_000.0) == 30


def test_age_includes_the_time_before_the_first_observation_and_while_the_host_slept() -> None:
    monotonic, wall = Clock(5.0), Clock(10_000.0)
    age = MomentAge(monotonic, wall)
    assert age.of(4_000.0) == 6_000
    wall.now += 3600
    assert age.of(4_000.0) == 9_600
