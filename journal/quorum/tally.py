"""Counts how the nodes of a quorum answered one call (QuorumCall): no waiting, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")


class Verdict(Enum):
    """What may be concluded from the answers so far."""

    OPEN = "open"
    REACHED = "reached"
    MISSED = "missed"


def majority(nodes: int) -> int:
    """How many of `nodes` any other such group shares a node with."""
    return nodes // 2 + 1


class Tally(Generic[T]):
    """The answers to one call; `need` of them decide it. A node's first word counts.

    Attributes:
        nodes: all that were asked.
        answers, faults: by node, as they came; late ones are noted too.
    """

    def __init__(self, nodes: Sequence[str], need: int) -> None:
        self.nodes = tuple(nodes)
        self.need = need
        self.answers: dict[str, T] = {}
        self.faults: dict[str, Exception] = {}
        self.abandoned = False

    def answer(self, node: str, value: T) -> None:
        if not self._told(node):
            self.answers[node] = value

    def fail(self, node: str, fault: Exception) -> None:
        if not self._told(node):
            self.faults[node] = fault

    def abandon(self) -> None:
        """Nobody waits any longer: what was not sent yet need not be."""
        self.abandoned = True

    @property
    def verdict(self) -> Verdict:
        """MISSED as soon as too many have failed: the others cannot change it."""
        if len(self.answers) >= self.need:
            return Verdict.REACHED
        if len(self.nodes) - len(self.faults) < self.need:
            return Verdict.MISSED
        return Verdict.OPEN

    @property
    def complete(self) -> bool:
        """Every node has answered or failed."""
        return len(self.answers) + len(self.faults) == len(self.nodes)

    @property
    def silent(self) -> tuple[str, ...]:
        """Nodes that have not answered."""
        return tuple(node for node in self.nodes if not self._told(node))

    def _told(self, node: str) -> bool:
        return node in self.answers or node in self.faults
