"""Observers of a merge, for example a progress bar or the status of a daemon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Observer(Protocol):
    """Observer of a merge's phases, which can cancel the merge."""

    def phase(self, name: str, total: int | None) -> None:
        """Handle the start of a phase: load, save or measure (`total` in bytes), or replay (in transactions)."""

    def advance(self, done: int) -> None:
        """Handle progress in the phase."""

    def saved(self) -> None:
        """Handle the rename of the new image to its final name; later phases belong to the next image."""

    def cancelled(self) -> bool:
        """Return True to cancel the merge and remove its files; called regularly."""


class SilentObserver:
    """An observer that shows nothing and never cancels."""

    def phase(self, name: str, total: int | None) -> None:
        """Do nothing."""

    def advance(self, done: int) -> None:
        """Do nothing."""

    def saved(self) -> None:
        """Do nothing."""

    def cancelled(self) -> bool:
        return False


class CancellableObserver(SilentObserver):
    """A silent observer that cancels the merge when `cancelled` returns True."""

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled

    def cancelled(self) -> bool:
        return self._cancelled()
