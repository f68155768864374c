"""Comparison of two fsimages by meaning, independent of the order of records, string serials and compression."""

from __future__ import annotations
