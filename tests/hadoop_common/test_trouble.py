"""A trouble is told when it begins, when it becomes another one, and when it ends."""

from __future__ import annotations

import logging

import pytest

from hadoop_common.errors import StorageError
from hadoop_common.quantities import duration
from hadoop_common.trouble import Trouble, with_next

LOG = logging.getLogger("the.trouble")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trouble(clock: Clock, caplog: pytest.LogCaptureFixture) -> Trouble:
    caplog.set_level("INFO")
    return Trouble(LOG, "the disk has room again", unit="polls", clock=clock)


def test_a_line_at_each_change(trouble: Trouble, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    trouble.over()
    for free in (7, 5, 3):
        trouble.met(f"{free} bytes are free", hint="Free some.", txid=9)
        clock.now += 55
    assert (trouble.text, trouble.count, trouble.seconds) == ("3 bytes are free", 3, 165)
    # it is worse now, and then another one
    trouble.met("2 bytes are free", level=logging.CRITICAL)
    trouble.met("the disk is gone")
    clock.now += 55
    trouble.over()
    trouble.over()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "7 bytes are free; next: Free some."),
        ("CRITICAL", "2 bytes are free"),
        ("ERROR", "the disk is gone"),
        ("INFO", "the disk has room again after 3 min 40 s, 5 polls"),
    ]
    assert caplog.records[0].__dict__["txid"] == 9
    assert (trouble.text, trouble.count, trouble.seconds) == ("", 0, 0.0)


def test_what_is_forgotten_has_no_end_and_begins_anew(trouble: Trouble, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        trouble.met("full")
        trouble.forget()
    trouble.over()
    assert caplog.messages == ["full", "full"]


def test_a_fault_of_the_program_has_its_stack(trouble: Trouble, caplog: pytest.LogCaptureFixture) -> None:
    fault = KeyError("x")
    trouble.met("KeyError: 'x'", bug=fault)
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is fault


def test_the_next_step_is_that_of_the_error() -> None:
    assert with_next(StorageError("it is full", hint="Free some.")) == "it is full; next: Free some."
    assert with_next(StorageError("it is full")) == "it is full"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (220, "3 min 40 s"), (93_900, "26 h 5 min")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text
