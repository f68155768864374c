"""A secondary that has not made a checkpoint."""

from __future__ import annotations

from tests.checkpointer.secondary_support import secondary

__all__ = ["secondary"]
