"""The breakdown of which several sections show parts."""

from __future__ import annotations

from typing import Any

from pipeline.reports.queries.breakdown import DIMENSIONS, breakdown, effective_policies
from pipeline.reports.rows import Record, collect
from pipeline.reports.work import ReportData

_LIMIT = 500


def of_dimension(work: ReportData, dimension: str) -> list[Record]:
    """Return the rows of one dimension, the largest first; the first call computes all dimensions.

    Only owner and group include directories and symlinks.
    """
    return [dict(record) for record in work.once("breakdown", _all)[dimension]]


def _all(work: ReportData) -> dict[str, list[Record]]:
    policies = effective_policies(work.image.directories)
    limit = max(work.options.top + 1, _LIMIT)
    found: dict[str, list[Record]] = {dimension: [] for dimension in DIMENSIONS}
    for record in collect(breakdown(work.image.facts, policies, limit=limit)):
        found[record["dimension"]].append(record)
    for records in found.values():
        records.sort(key=lambda record: (-record["raw"], -record["files"], record["value"] or ""))
    return found


def classes(work: ReportData, dimension: str, labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows of a dimension of classes, one for each label in order; classes without files have zeros."""
    found = {int(record["value"]): record for record in of_dimension(work, dimension) if record["value"] is not None}
    zeros = {"files": 0, "length": 0, "raw": 0, "blocks": 0}
    return [{**found.get(position, zeros), "value": label} for position, label in enumerate(labels)]
