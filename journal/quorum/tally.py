"""Count of the nodes' answers to one call (QuorumCall): no waiting, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")


class TallyState(Enum):
    """Conclusion from the answers so far."""

    OPEN = "open"
    REACHED = "reached"
    MISSED = "missed"


def majority(nodes: int) -> int:
    """Return the size of the smallest groups of `nodes` of which any two share a node."""
    return nodes // 2 + 1


class Tally(Generic[T]):
    """The answers to one call; `need` of them decide it. The first answer of a node counts.

    Attributes:
        nodes: all that were asked.
        answers, faults: by node, in the order of arrival; late ones are recorded too.
    """

    def __init__(self, nodes: Sequence[str], need: int) -> None:
        self.nodes = tuple(nodes)
        self.need = need
        self.answers: dict[str, T] = {}
        self.faults: dict[str, Exception] = {}
        self.abandoned = False

    def answer(self, node: str, value: T) -> None:
        if not self._has_answered(node):
            self.answers[node] = value

    def fail(self, node: str, fault: Exception) -> None:
        if not self._has_answered(node):
            self.faults[node] = fault

    def abandon(self) -> None:
        """Mark that no caller waits: unsent calls need not be sent."""
        self.abandoned = True

    @property
    def verdict(self) -> TallyState:
        """MISSED as soon as too many nodes have failed for the others to decide."""
        if len(self.answers) >= self.need:
            return TallyState.REACHED
        if len(self.nodes) - len(self.faults) < self.need:
            return TallyState.MISSED
        return TallyState.OPEN

    @property
    def complete(self) -> bool:
        """Whether every node has answered or failed."""
        return len(self.answers) + len(self.faults) == len(self.nodes)

    @property
    def silent(self) -> tuple[str, ...]:
        """Nodes that have not answered."""
        return tuple(node for node in self.nodes if not self._has_answered(node))

    def _has_answered(self, node: str) -> bool:
        return node in self.answers or node in self.faults
