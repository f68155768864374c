"""A throttle: for any rate, piece sizes and costs, a transfer takes bytes / rate seconds, without bursts."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hadoop_common.throttle import Throttle
from tests.clock import SleepingClock

CREDIT_SECONDS = 1.0
PIECE_SECONDS = 0.05
LEAST_PIECE = 4096


class Transfer:
    """A transfer of pieces through a throttle; the transfer records when each piece was sent."""

    def __init__(self, rate: int, idle: float = 0.0) -> None:
        self.time = SleepingClock()
        self.throttle = Throttle(rate, clock=self.time, sleep=self.time.sleep)
        self.time.now += idle
        self.began = self.time.now
        self.moved: list[tuple[float, int]] = []

    def run(self, pieces: list[int], costs: list[float]) -> float:
        """Return the duration of the transfer in seconds; `costs` are fractions of a piece's time at the throttle's
        rate.
        """
        self.began = self.time.now
        with self.throttle.transfer():
            for number, size in enumerate(pieces):
                self.throttle.acquire(size)
                self.moved.append((self.time.now, size))
                self.time.now += costs[number % len(costs)] * size / self.throttle.bytes_per_second
        return self.time.now - self.began

    def assert_no_flood(self, rate: int, largest: int) -> None:
        """Check that no time span contains more bytes than its share, the credit, and two pieces."""
        worst = low = total = 0.0
        for at, size in self.moved:
            before = total - rate * (at - self.began)
            low = min(low, before)
            total += size
            worst = max(worst, total - rate * (at - self.began) - low)
        assert worst <= rate * CREDIT_SECONDS + 2 * largest + rate * 1e-6


rates = st.one_of(st.integers(1, 10_000), st.integers(10_000, 10**7), st.integers(10**7, 10**10))
costs = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20)


@given(rate=rates, seconds=st.floats(1.0, 5.0), parts=st.lists(st.floats(0.01, 0.04), min_size=1, max_size=20),
       costs=costs, idle=st.floats(0.0, 1e6), overshoot=st.floats(0.0, 0.002))  # fmt: skip
def test_pieces_of_any_size_keep_the_rate(rate, seconds, parts, costs, idle, overshoot):
    """At the rate, a piece takes up to 0.04 s; sending the piece costs up to all of this time."""
    pieces: list[int] = []
    while sum(pieces) < rate * seconds:
        pieces.append(max(1, int(rate * parts[len(pieces) % len(parts)])))
    transfer = Transfer(rate, idle)
    transfer.time.overshoot = overshoot
    took = transfer.run(pieces, costs)
    # sending the last piece, at least one byte, takes additional time
    assert took == pytest.approx(sum(pieces) / rate, rel=0.05, abs=1.001 * pieces[-1] / rate)
    transfer.assert_no_flood(rate, max(pieces))


@example(rate=1, seconds=10.0, most=1, costs=[1.0], idle=0.0)
@example(rate=2250357117, seconds=1.0, most=1, costs=[1.0], idle=261144.0)
@given(rate=rates, seconds=st.floats(1.0, 20.0), most=st.integers(1, 1 << 20), costs=costs, idle=st.floats(0.0, 1e6))
def test_suggested_piece_sizes_keep_the_rate(rate, seconds, most, costs, idle):
    transfer = Transfer(rate, idle)
    piece = transfer.throttle.piece(most)
    # with tiny pieces at a high rate, a part of the transfer is sufficient
    count = min(int(rate * seconds / piece) + 1, 500)
    took = transfer.run([piece] * count, costs)
    # the resolution of a float time, for each piece
    blur = count * math.ulp(transfer.time.now)
    # sending the last piece takes additional time
    assert took == pytest.approx(count * piece / rate, rel=0.05, abs=1.001 * piece / rate + blur)
    assert took >= count * piece / rate * 0.95 - blur
    assert piece <= max(LEAST_PIECE, rate * PIECE_SECONDS)
    transfer.assert_no_flood(rate, piece)


@given(rate=st.integers(1000, 10**9), stall=st.floats(0.0, 100.0))
def test_stall_is_compensated_up_to_the_credit(rate, stall):
    transfer = Transfer(rate)
    piece = max(1, rate // 50)
    with transfer.throttle.transfer():
        for number in range(500):
            transfer.throttle.acquire(piece)
            transfer.moved.append((transfer.time.now, piece))
            if number == 250:
                transfer.time.now += stall
    lost = max(0.0, stall - CREDIT_SECONDS)
    assert transfer.time.now - transfer.began == pytest.approx(500 * piece / rate + lost, rel=0.01)
    transfer.assert_no_flood(rate, piece)


def test_short_transfers_gain_no_credit_from_pauses():
    """A pause of 0.2 s between two transfers earns no credit for the next transfer."""
    transfer = Transfer(1_000_000)
    for _ in range(5):
        assert transfer.run([10_000] * 100, [0.5]) == pytest.approx(1.0, rel=0.05)
        transfer.time.now += 0.2


def test_second_transfer_has_no_credit_of_its_own():
    time = SleepingClock()
    throttle = Throttle(1000, clock=time, sleep=time.sleep)
    with throttle.transfer():
        throttle.acquire(1000)
        with throttle.transfer():
            throttle.acquire(1000)
        throttle.acquire(1000)
    assert time.now - 1000.0 == pytest.approx(3.0)


def test_unlimited_throttle_does_not_split_pieces():
    assert Throttle(0).piece(1 << 20) == 1 << 20


# ---- outside of transfers ------------------------------------------------------------------------------------


def make(rate: int, time: SleepingClock) -> Throttle:
    return Throttle(rate, clock=time, sleep=time.sleep)


def test_rate_0_disables_the_throttle():
    time = SleepingClock()
    make(0, time).acquire(1 << 40)
    assert time.sleeps == 0


def test_negative_rate_is_refused():
    with pytest.raises(ValueError, match="0 \\(off\\)"):
        Throttle(-1)


@pytest.mark.parametrize("overshoot", [0.0, 0.001, 0.02])
def test_long_run_rate_is_exact(overshoot):
    time = SleepingClock(overshoot)
    throttle = make(1_000_000, time)
    for _ in range(1000):
        throttle.acquire(10_000)
    assert time.now - 1000.0 == pytest.approx(10.0, rel=0.03)


@given(st.lists(st.integers(1, 500_000), min_size=30, max_size=100))
def test_requests_of_any_size_keep_the_rate(sizes):
    time = SleepingClock()
    throttle = make(100_000, time)
    for size in sizes:
        throttle.acquire(size)
    assert time.now - 1000.0 <= sum(sizes) / 100_000 + 1e-6
    assert time.now - 1000.0 >= sum(sizes) / 100_000 - 0.25 - 1e-6


def test_pause_is_not_followed_by_a_burst():
    time = SleepingClock()
    throttle = make(1000, time)
    throttle.acquire(1000)
    time.now += 3600
    began = time.now
    for _ in range(10):
        throttle.acquire(1000)
    assert time.now - began >= 9.7


def test_cancellation_ends_a_long_wait():
    time = SleepingClock()
    throttle = make(1, time)
    throttle.acquire(1000, cancelled=lambda: time.sleeps >= 3)
    assert time.sleeps == 3


def test_concurrent_callers_share_the_rate():
    lock = threading.Lock()
    time = SleepingClock()

    def sleep(seconds: float) -> None:
        with lock:
            time.now += seconds

    throttle = Throttle(1_000_000, clock=time, sleep=sleep)
    threads = [threading.Thread(target=lambda: [throttle.acquire(10_000) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.now - 1000.0 >= 2.0 - 0.25 - 1e-6


def test_changed_limit_applies_at_once():
    time = SleepingClock()
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
