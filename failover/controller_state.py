"""The state of a failover controller: a frozen value that threads replace atomically, and for which they can wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from failover.electability import ExpectedState
from failover.health import HealthReport
from failover.transitions import ActivationAttempt
from hadoop_rpc.ha_protocol import HAState


@dataclass(frozen=True, slots=True)
class ControllerState:
    """The known facts about the controller's NameNode, and the controller's last decision.

    Attributes:
        observer: whether the NameNode's last reported state was observer.
        joined: whether the NameNode is in the election; `decision`: the last decision about its participation.
        changing: whether the controller is changing the NameNode's state.
        predecessor: whether an earlier controller of this NameNode owns the lock.
        out_until, out_reason: end of a pause outside the election, in monotonic seconds, and its reason.
        blocked: reason why transitions are blocked; "" if they are not blocked.
        fatal: reason why the election failed; "" if it did not fail.
    """

    report: HealthReport = field(default_factory=HealthReport)
    expected: ExpectedState = field(default_factory=ExpectedState)
    attempt: ActivationAttempt = field(default_factory=ActivationAttempt)
    observer: bool = False
    joined: bool = False
    changing: bool = False
    predecessor: bool = False
    out_until: float = 0.0
    out_reason: str = ""
    blocked: str = ""
    fatal: str = ""
    decision: str = ""

    def compared(self, reported: HAState) -> ControllerState:
        """Return the state after the NameNode reported `reported`; repeated contradictions clear the expected state."""
        expected = self.expected.compared(reported)
        if expected.disappointed:
            expected = ExpectedState()
        return replace(self, observer=reported is HAState.OBSERVER, expected=expected)

    def why_out(self, now: float) -> str:
        """Return the reason why the NameNode stays out of the election; "" if it may take part."""
        return self.blocked or (self.out_reason if now < self.out_until else "")


class SharedState:
    """The current state; all threads may read `now`."""

    def __init__(self) -> None:
        self.now = ControllerState()
        self._news = threading.Condition()

    def change(self, step: Callable[[ControllerState], ControllerState]) -> ControllerState:
        """Replace the state with the result of `step`, and return the previous state; other changes wait."""
        with self._news:
            before = self.now
            self.now = step(before)
            self._news.notify_all()
        return before

    def wait_for(self, condition: Callable[[ControllerState], bool], seconds: float) -> tuple[bool, ControllerState]:
        """Wait until the state meets `condition`; return whether it did in time, and the state."""
        with self._news:
            return self._news.wait_for(lambda: condition(self.now), seconds), self.now
