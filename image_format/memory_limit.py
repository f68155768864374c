"""Memory limit for large arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from image_format.array_allocator import ArrayAllocator

MIN_MEMORY = 64 << 20
"""A lower limit would save nothing, because the interpreter and the kernels need more memory than that."""

TOO_LITTLE = "must be at least 64m"


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Memory limit for the large arrays of a merge.

    Attributes:
        size: size in bytes; None if unlimited.
        folder: folder for arrays beyond the limit and for large decompressed sections; None means the system's default.
    """

    size: int | None = None
    folder: Path | None = None

    def allocator(self, *, taken: int = 0) -> ArrayAllocator:
        """Return an allocator with this limit minus the bytes `taken` by other arrays."""
        # A command that only reads its options does not need NumPy.
        from image_format.array_allocator import ArrayAllocator

        return ArrayAllocator(None if self.size is None else max(0, self.size - taken), self.folder)
