"""Breakdowns by dimension for several sections."""

from __future__ import annotations

from typing import Any

from pipeline.reports.rows import Record
from pipeline.reports.work import ReportData

_LIMIT = 500


def of_dimension(work: ReportData, dimension: str) -> list[Record]:
    """Return the rows of one dimension, the largest first.

    Only owner and group include directories and symlinks.
    """
    return work.image.dimension(dimension, max(work.options.top + 1, _LIMIT))


def classes(work: ReportData, dimension: str, labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows of a dimension of classes, one for each label in order; zeros for classes without files."""
    found = {int(record["value"]): record for record in of_dimension(work, dimension) if record["value"] is not None}
    zeros = {"files": 0, "length": 0, "raw": 0, "blocks": 0}
    return [{**found.get(position, zeros), "value": label} for position, label in enumerate(labels)]
