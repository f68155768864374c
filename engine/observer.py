"""Whoever watches a merge: a progress bar, a daemon's status, or nobody."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """Told of the phases of a merge, and asked whether it may go on."""

    def phase(self, name: str, total: int | None) -> None:
        """A phase begins: load (`total` bytes), replay (transactions), save or measure (bytes, about)."""

    def advance(self, done: int) -> None:
        """How much of the phase is done."""

    def saved(self) -> None:
        """The new image has its name; what comes after is for the next one."""

    def cancelled(self) -> bool:
        """Asked now and then; True stops the merge without a trace."""


class SilentObserver:
    """An observer that shows nothing and never cancels."""

    def phase(self, name: str, total: int | None) -> None:
        """Nobody watches."""

    def advance(self, done: int) -> None:
        """Nobody watches."""

    def saved(self) -> None:
        """Nobody watches."""

    def cancelled(self) -> bool:
        return False
