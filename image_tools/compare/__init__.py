"""Two fsimages compared by what they mean: not by the order of records, string numbers or compression."""

from __future__ import annotations
