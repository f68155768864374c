from __future__ import annotations

from hadoop_common.back_off import BackOff


def test_waits_double_up_to_the_maximum() -> None:
    back_off = BackOff(0.5, 5.0)
    assert [back_off.wait(failures) for failures in (1, 2, 3, 4, 5, 10_000)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_first_wait_is_limited_to_the_maximum() -> None:
    assert BackOff(60.0, 10.0).wait(1) == 10.0
