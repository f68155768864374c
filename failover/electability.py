"""Decides, without I/O, whether the NameNode may be in the election (recheckElectability)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from failover.health import HealthReport, NameNodeHealth
from hadoop_rpc.ha_protocol import HAState

BAD_STATE_SECONDS: Final = 1.0
"""Time for which a NameNode stays out of the election after another program changed its state."""


class ElectionStep(Enum):
    JOIN = "takes part in the election"
    QUIT = "leaves the election; no fencing is needed"
    QUIT_TO_BE_FENCED = "leaves the election; the next active NameNode will fence it"
    WAIT = "changes nothing"


@dataclass(frozen=True, slots=True)
class ElectionDecision:
    step: ElectionStep
    reason: str


def electability(report: HealthReport, *, out: str, observer: bool, changing: bool) -> ElectionDecision:
    """Return the decision for a NameNode's health.

    Args:
        out: reason why the NameNode stays out of the election for some time; "" if it takes part.
        observer: whether the NameNode's last reported state was observer.
        changing: whether the controller is changing the NameNode's state; the NameNode then might not answer.
    """
    if out:
        return ElectionDecision(ElectionStep.WAIT, out)
    match report.health:
        case NameNodeHealth.INITIALIZING:
            return ElectionDecision(ElectionStep.QUIT, "its health is not known yet")
        case NameNodeHealth.HEALTHY if observer:
            return ElectionDecision(ElectionStep.QUIT_TO_BE_FENCED, "it is an observer")
        case NameNodeHealth.HEALTHY:
            return ElectionDecision(ElectionStep.JOIN, "it is healthy")
        case NameNodeHealth.NOT_RESPONDING if changing:
            return ElectionDecision(ElectionStep.WAIT, "it does not respond while it changes its state")
        case NameNodeHealth.UNHEALTHY:
            return ElectionDecision(ElectionStep.QUIT_TO_BE_FENCED, f"it is unhealthy: {report.reason}")
        case NameNodeHealth.NOT_RESPONDING:
            return ElectionDecision(ElectionStep.QUIT_TO_BE_FENCED, f"it does not respond: {report.reason}")


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """The state that the controller requested, and the number of consecutive responses with a different state.

    INITIALIZING means that no particular state is expected.
    """

    state: HAState = HAState.INITIALIZING
    differed: int = 0

    @property
    def disappointed(self) -> bool:
        """Whether the NameNode's state really differs; a single response may be older than the last change."""
        return self.differed > 1

    def compared(self, reported: HAState) -> ExpectedState:
        """Return the expected state after the NameNode reported `reported`."""
        if HAState.OBSERVER in (reported, self.state):
            return ExpectedState()
        if self.state in (HAState.INITIALIZING, reported):
            return ExpectedState(self.state)
        return ExpectedState(self.state, self.differed + 1)
