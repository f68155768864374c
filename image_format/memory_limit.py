"""How much memory large arrays may take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from image_format.array_allocator import ArrayAllocator

MIN_MEMORY = 64 << 20
"""A lower limit would save nothing: interpreter and kernels take more."""

TOO_LITTLE = "must be at least 64m"


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """How much memory the large arrays of a merge may take.

    Attributes:
        size: in bytes; None is without a limit.
        folder: for what goes beyond it, and for large sections that are decompressed; None is the system's default.
    """

    size: int | None = None
    folder: Path | None = None

    def allocator(self, *, taken: int = 0) -> ArrayAllocator:
        """Room under this limit, so many bytes of which are taken by other arrays."""
        # a command that only reads its options does without NumPy
        from image_format.array_allocator import ArrayAllocator

        return ArrayAllocator(None if self.size is None else max(0, self.size - taken), self.folder)
