"""One log line each when a fault begins, changes and ends; a fault ends when the failed operation succeeds."""

from __future__ import annotations

import logging

import pytest

from hadoop_common.errors import StorageError
from hadoop_common.quantities import duration
from hadoop_common.recurring_fault import PeerFaults, RecurringFault, with_next
from tests.clock import Clock

LOG = logging.getLogger("the.fault")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fault(clock: Clock, caplog: pytest.LogCaptureFixture) -> RecurringFault:
    caplog.set_level("INFO")
    return RecurringFault(LOG, "the disk has room again", unit="polls", clock=clock)


@pytest.fixture
def peer(clock: Clock, caplog: pytest.LogCaptureFixture) -> PeerFaults:
    caplog.set_level("INFO")
    return PeerFaults(LOG, "nn1", clock=clock)


def test_each_change_of_a_fault_is_logged_once(
    fault: RecurringFault, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    fault.ended()
    for free in (7, 5, 3):
        fault.occurred(f"{free} bytes are free", hint="Free some.", txid=9)
        clock.now += 55
    assert (fault.text, fault.hint, fault.count, fault.seconds) == ("3 bytes are free", "Free some.", 3, 165)
    # the severity of the fault increases, then the fault changes
    fault.occurred("2 bytes are free", level=logging.CRITICAL)
    fault.occurred("the disk is gone")
    clock.now += 55
    fault.ended()
    fault.ended()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "7 bytes are free; next: Free some."),
        ("CRITICAL", "2 bytes are free"),
        ("ERROR", "the disk is gone"),
        ("INFO", "the disk has room again after 3 min 40 s, 5 polls"),
    ]
    assert caplog.records[0].__dict__["txid"] == 9
    assert (fault.text, fault.hint, fault.count, fault.seconds) == ("", "", 0, 0.0)


def test_forgotten_fault_has_no_end_and_is_logged_again(
    fault: RecurringFault, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        fault.occurred("full")
        fault.forget()
    fault.ended()
    assert caplog.messages == ["full", "full"]


def test_bug_is_logged_with_its_traceback(fault: RecurringFault, caplog: pytest.LogCaptureFixture) -> None:
    bug = KeyError("x")
    fault.occurred("KeyError: 'x'", bug=bug)
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is bug


def test_response_to_another_request_does_not_end_a_fault(
    peer: PeerFaults, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    peer.occurred("last transaction", "timed out", hint="Check it.")
    clock.now += 7
    peer.answered("state")
    assert caplog.messages == ["nn1 does not report its last transaction: timed out; next: Check it."]
    peer.answered("last transaction")
    assert caplog.messages[1:] == ["nn1 reports its last transaction again after 7 s, 1 times"]


def test_one_cause_is_logged_once_for_all_requests(peer: PeerFaults, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        for question in ("state", "newest image"):
            peer.occurred(question, "connection refused")
    assert caplog.messages == ["nn1 does not report its state: connection refused"]
    # the other fault continues
    peer.answered("state")
    peer.occurred("newest image", "connection refused")
    peer.answered("newest image")
    assert [line.split(" again")[0] for line in caplog.messages[1:]] == [
        "nn1 reports its state",
        "nn1 does not report its newest image: connection refused",
        "nn1 reports its newest image",
    ]


def test_fault_of_an_unrepeated_request_does_not_hide_a_later_fault(
    peer: PeerFaults, caplog: pytest.LogCaptureFixture
) -> None:
    peer.occurred("rolling upgrade", "connection refused")
    peer.occurred("state", "connection refused")
    peer.answered("state")
    peer.occurred("state", "connection refused")
    assert caplog.messages == [
        "nn1 does not report its rolling upgrade: connection refused",
        "nn1 does not report its state: connection refused",
    ]


def test_next_step_is_the_hint_of_the_error() -> None:
    assert with_next(StorageError("it is full", hint="Free some.")) == "it is full; next: Free some."
    assert with_next(StorageError("it is full")) == "it is full"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (220, "3 min 40 s"), (93_900, "26 h 5 min")]
)
def test_durations_as_text(seconds: float, text: str) -> None:
    assert duration(seconds) == text
