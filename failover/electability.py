"""Whether the NameNode may take part in the election, as tables without I/O (recheckElectability and its kin)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from failover.health import Health, Report
from hadoop_rpc.ha_protocol import HAState

BAD_STATE_SECONDS: Final = 1.0
"""How long a NameNode stays out that has another state than its controller brought about."""


class Step(Enum):
    """What is done about the election."""

    JOIN = "takes part in the election"
    QUIT = "leaves the election, no fencing is needed"
    QUIT_TO_BE_FENCED = "leaves the election, and is to be fenced by the next active"
    WAIT = "changes nothing"


@dataclass(frozen=True, slots=True)
class Decision:
    """A step, and why."""

    step: Step
    reason: str


def electability(report: Report, *, out: str, observer: bool, changing: bool) -> Decision:
    """What follows from the NameNode's health.

    Args:
        out: why it stays out for some time, "" where it does not.
        observer: it was one when it last told its state.
        changing: a change of its state by us is under way; it may answer nothing else meanwhile.
    """
    if out:
        return Decision(Step.WAIT, out)
    match report.health:
        case Health.INITIALIZING:
            return Decision(Step.QUIT, "its health is not known yet")
        case Health.HEALTHY if observer:
            return Decision(Step.QUIT_TO_BE_FENCED, "it is an observer")
        case Health.HEALTHY:
            return Decision(Step.JOIN, "it is healthy")
        case Health.NOT_RESPONDING if changing:
            return Decision(Step.WAIT, "it does not respond while it changes its state")
        case Health.UNHEALTHY:
            return Decision(Step.QUIT_TO_BE_FENCED, f"it is unhealthy: {report.reason}")
        case Health.NOT_RESPONDING:
            return Decision(Step.QUIT_TO_BE_FENCED, f"it does not respond: {report.reason}")


@dataclass(frozen=True, slots=True)
class Expectation:
    """The state that the NameNode should have by what its controller did; `differed` counts answers in a row.

    INITIALIZING expects nothing.
    """

    state: HAState = HAState.INITIALIZING
    differed: int = 0

    @property
    def disappointed(self) -> bool:
        """Whether it has another state for good: a single answer may be older than the last change."""
        return self.differed > 1

    def compared(self, told: HAState) -> Expectation:
        """What follows from an answer."""
        if HAState.OBSERVER in (told, self.state):
            return Expectation()
        if self.state in (HAState.INITIALIZING, told):
            return Expectation(self.state)
        return Expectation(self.state, self.differed + 1)
