"""Options of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pipeline.reports.queries.facts import Rules

Progress = Callable[[str], None]
"""Callback that receives the name of the current step."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The caller's options of a report.

    Attributes:
        as_of: reference time for ages, UTC.
        depth: levels of directories below the root in a tree.
        top: maximum rows of a table.
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
