"""Comparison of the contents of two fsimages, independent of the order of records, string serials and compression."""

from __future__ import annotations
