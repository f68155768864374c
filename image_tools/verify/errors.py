"""The error of a repair that cannot be made."""

from __future__ import annotations

from image_format.errors import ImageFormatError


class UnrepairableError(ImageFormatError):
    """The image has damage that no repair takes away; nothing was written."""
