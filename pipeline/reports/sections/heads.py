"""Column headers that several sections use."""

from __future__ import annotations

from pipeline.reports.model import ReportColumn


def path(name: str = "path", title: str = "Directory") -> ReportColumn:
    return ReportColumn(name, "path", title)


def text(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "text", title)


def count(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "count", title)


def bytes_(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "bytes", title)


def percent(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "percent", title)


def time(name: str, title: str) -> ReportColumn:
    return ReportColumn(name, "time", title)


CONTENT = (
    bytes_("raw", "Space with replicas"),
    bytes_("length", "Size of files"),
    count("files", "Files"),
    count("directories", "Directories"),
    count("blocks", "Blocks"),
)
"""Columns for the content of a directory or an owner."""
