"""What a report is asked to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pipeline.reports.queries.facts import Rules

Progress = Callable[[str], None]
"""Told what is worked on."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Choices of the caller.

    Attributes:
        as_of: the time that ages are measured at, UTC.
        depth: how many levels of directories a tree shows below the root.
        top: rows of a table.
        small: bytes below which a file is small; None for an eighth of its block size.
        cold_days: days without use after which a file is cold.
        only: ids of sections; empty for all.
    """

    as_of: datetime
    depth: int = 3
    top: int = 20
    small: int | None = None
    cold_days: int = 365
    only: tuple[str, ...] = ()

    def rules(self) -> Rules:
        return Rules(self.as_of, self.small, self.cold_days)
