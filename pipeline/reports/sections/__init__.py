"""Sections of a report: each module selects rows of the counts and describes them.

The section with the id `small-files` is the function `section` of the module `small_files`.
"""

from __future__ import annotations

from importlib import import_module

from pipeline.reports.model import ReportSection
from pipeline.reports.work import ReportData


def make_section(section_id: str, work: ReportData) -> ReportSection:
    """Make a section of `pipeline.reports.model.SECTIONS`."""
    made: ReportSection = import_module(f"{__name__}.{section_id.replace('-', '_')}").section(work)
    return made
