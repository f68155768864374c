"""Deep verification of a possibly damaged fsimage, and its repair into a new file."""

from __future__ import annotations
