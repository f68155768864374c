"""A report as one HTML page that needs nothing but a browser."""

from __future__ import annotations

from pipeline.reports.html.page import render

__all__ = ["render"]
