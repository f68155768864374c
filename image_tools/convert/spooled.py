"""A converted image that has no file of its own: in memory, or in an unlinked temporary file where it is large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from image_format.reader import ImageFile
from image_format.spool import SPOOL_LIMIT, Spool
from image_tools.convert.image import convert_image


def convert_to_spool(image: ImageFile, layout_version: int, *, spool_dir: Path | None = None) -> ImageFile:
    """`image` at another layout version, uncompressed, open for reading; errors name the original's path.

    The two are independent; whoever calls closes the result.

    Raises:
        ImageFormatError: see `convert_image`.
        ImageStorageError: there is no room for it.
    """
    with Spool(spool_dir, SPOOL_LIMIT) as spool:
        convert_image(image, lambda buffer: spool.write(memoryview(buffer)), layout_version=layout_version, codec="")
        return ImageFile(image.path, spool.finish(), spool_dir)


@contextmanager
def at_layout(image: ImageFile, layout_version: int | None, *, spool_dir: Path | None = None) -> Iterator[ImageFile]:
    """`image` itself where it has the layout version or None is asked for, else what `convert_to_spool` makes of it.

    Raises:
        ImageFormatError, ImageStorageError: see `convert_to_spool`.
    """
    if layout_version is None or layout_version == image.layout_version:
        yield image
        return
    with convert_to_spool(image, layout_version, spool_dir=spool_dir) as converted:
        yield converted
