"""Sections of a report: each runs its queries and describes the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.reports.model import ReportSection
from pipeline.reports.sections import cold, files, growth, operations, owners, small_files, snapshots, space
from pipeline.reports.work import ReportData


@dataclass(frozen=True, slots=True)
class SectionMaker:
    """A section and its maker.

    Attributes:
        needs: required input: "" for only an image, "edits", "before", or "file" for an image outside of a lake.
    """

    id: str
    make: Callable[[ReportData], ReportSection]
    needs: str = ""


SECTIONS = (
    SectionMaker("space", space.section),
    SectionMaker("owners", owners.section),
    SectionMaker("files", files.section),
    SectionMaker("small-files", small_files.section),
    SectionMaker("cold", cold.section),
    SectionMaker("growth", growth.section, needs="before"),
    SectionMaker("operations", operations.section, needs="edits"),
    SectionMaker("snapshots", snapshots.section, needs="file"),
)
"""All sections made from tables, in the order of a report."""
