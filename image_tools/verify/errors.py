"""The error of an impossible repair."""

from __future__ import annotations

from image_format.errors import ImageFormatError


class UnrepairableError(ImageFormatError):
    """Damage that cannot be repaired; nothing was written."""
