"""Deep verification of an fsimage that may be damaged, and its repair into a new file."""

from __future__ import annotations
