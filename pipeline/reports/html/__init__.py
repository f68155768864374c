"""A report as one self-contained HTML page."""

from __future__ import annotations

from pipeline.reports.html.page import render

__all__ = ["render"]
