import pytest

from checkpointer.daemon.wall_clock import WallClockWatch
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
