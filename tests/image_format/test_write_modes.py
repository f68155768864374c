"""Each disk is written in the faster mode; tests use simulated disks with a rate for each mode."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from image_format.direct_file import WriteModeChooser
from tests.depth import examples

STRETCH = 64 << 20


def write(ways: WriteModeChooser, stretches: int, direct: float, cached: float, producer: float) -> float:
    """Return the seconds that `stretches` take; rates are in bytes per second."""
    seconds = 0.0
    for _ in range(stretches):
        disk = STRETCH / (direct if ways.direct else cached)
        took = max(disk, STRETCH / producer)
        ways.ended(STRETCH, took, took if disk == took else 0.0)
        seconds += took
    return seconds


RATES = st.floats(50e6, 5e9)


@examples(200)
@given(direct=RATES, cached=RATES, producer=RATES)
def test_no_disk_is_written_much_slower_than_in_the_better_mode(direct: float, cached: float, producer: float) -> None:
    stretches = 400
    seconds = write(WriteModeChooser(direct=True), stretches, direct, cached, producer)
    best = stretches * STRETCH / min(producer, max(direct, cached))
    # three of 67 pieces use the slower mode, and a gain of a tenth does not justify the cache
    worst = 6 * 3 * STRETCH / min(direct, cached, producer)
    assert seconds <= 1.1 * best + worst + 1e-6


def test_direct_writes_are_kept_if_the_disk_keeps_up() -> None:
    ways = WriteModeChooser(direct=True)
    for _ in range(1000):
        assert ways.direct
        assert ways.measures
        ways.ended(STRETCH, 0.1, 0.01)


def test_a_disk_that_is_faster_with_the_page_cache_uses_it() -> None:
    ways = WriteModeChooser(direct=True)
    write(ways, 3, 330e6, 580e6, 1e9)
    assert not ways.direct
    assert not ways.measures


def test_the_other_mode_is_measured_again_later() -> None:
    ways = WriteModeChooser(direct=True)
    write(ways, 3, 330e6, 580e6, 1e9)
    write(ways, 64, 330e6, 100e6, 1e9)
    assert ways.direct
    assert ways.measures


def test_without_direct_writes_no_mode_is_measured() -> None:
    ways = WriteModeChooser(direct=False)
    write(ways, 100, 1.0, 1e8, 1e9)
    assert not ways.direct
    assert not ways.measures
