from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.transfer import Throttle


class FakeTime:
    """A clock that only moves when someone sleeps; each sleep overshoots by `overshoot` seconds."""

    def __init__(self, overshoot: float = 0.0) -> None:
        self.now = 100.0
        self.overshoot = overshoot
        self.sleeps = 0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.sleeps += 1
        self.now += seconds + self.overshoot


def make(rate: int, time: FakeTime) -> Throttle:
    return Throttle(rate, clock=time.clock, sleep=time.sleep)


def test_zero_is_off():
    time = FakeTime()
    make(0, time).acquire(1 << 40)
    assert time.sleeps == 0


def test_negative_rate_is_refused():
    with pytest.raises(ValueError, match="0 \\(off\\)"):
        Throttle(-1)


@pytest.mark.parametrize("overshoot", [0.0, 0.001, 0.02])
def test_long_run_rate_is_exact(overshoot):
    time = FakeTime(overshoot)
    throttle = make(1_000_000, time)
    for _ in range(1000):
        throttle.acquire(10_000)
    assert time.now - 100.0 == pytest.approx(10.0, rel=0.03)


@given(st.lists(st.integers(1, 500_000), min_size=30, max_size=100))
def test_any_sizes_give_the_rate(sizes):
    time = FakeTime()
    throttle = make(100_000, time)
    for size in sizes:
        throttle.acquire(size)
    assert time.now - 100.0 <= sum(sizes) / 100_000 + 1e-6
    assert time.now - 100.0 >= sum(sizes) / 100_000 - 0.25 - 1e-6


def test_a_pause_is_not_followed_by_a_flood():
    time = FakeTime()
    throttle = make(1000, time)
    throttle.acquire(1000)
    time.now += 3600
    began = time.now
    for _ in range(10):
        throttle.acquire(1000)
    assert time.now - began >= 9.7


def test_cancel_ends_a_long_wait():
    time = FakeTime()
    throttle = make(1, time)
    throttle.acquire(1000, cancelled=lambda: time.sleeps >= 3)
    assert time.sleeps == 3


def test_callers_share_the_budget():
    lock = threading.Lock()
    time = FakeTime()

    def sleep(seconds: float) -> None:
        with lock:
            time.now += seconds

    throttle = Throttle(1_000_000, clock=time.clock, sleep=sleep)
    threads = [threading.Thread(target=lambda: [throttle.acquire(10_000) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.now - 100.0 >= 2.0 - 0.25 - 1e-6


def test_another_limit_holds_at_once():
    time = FakeTime()
    throttle = make(1, time)

    def lift(seconds: float) -> None:
        time.sleep(seconds)
        throttle.change(1_000_000)

    throttle._sleep = lift
    throttle.acquire(1_000_000)
    assert time.sleeps == 1
    throttle._sleep = time.sleep
    began = time.now
    for _ in range(100):
        throttle.acquire(100_000)
    assert time.now - began == pytest.approx(10.0, rel=0.03)
    throttle.change(0)
    before = time.sleeps
    throttle.acquire(1 << 40)
    assert time.sleeps == before
