"""Kernels that replay the frequent operations; the functions beside this package are their plain twins."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import journal

__all__ = ["MADE_OF"]

MADE_OF: Final = (
    Path(__file__).parents[1] / "table.py",
    *sorted(Path(journal.__file__).parent.glob("*_ops.py")),
)
"""Sources of numbers in the compiled code, besides this package: they count for what is kept on disk."""
