"""Column headers that several sections use."""

from __future__ import annotations

from pipeline.reports.model import Column


def path(name: str = "path", title: str = "Directory") -> Column:
    return Column(name, "path", title)


def text(name: str, title: str) -> Column:
    return Column(name, "text", title)


def count(name: str, title: str) -> Column:
    return Column(name, "count", title)


def bytes_(name: str, title: str) -> Column:
    return Column(name, "bytes", title)


def percent(name: str, title: str) -> Column:
    return Column(name, "percent", title)


def time(name: str, title: str) -> Column:
    return Column(name, "time", title)


CONTENT = (
    bytes_("raw", "Space with replicas"),
    bytes_("length", "Size of files"),
    count("files", "Files"),
    count("directories", "Directories"),
    count("blocks", "Blocks"),
)
"""Columns for the content of a directory or an owner."""
