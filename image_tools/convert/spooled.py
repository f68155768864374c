"""A converted image that has no file of its own: in memory, or in an unlinked temporary file where it is large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from image_format.layout import newer_layout
from image_format.reader import ImageFile
from image_format.spool import SPOOL_LIMIT, Spool
from image_format.writer import Sink
from image_tools.convert.image import convert_image, plan_conversion


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
    """`image` itself, or what `convert_to_spool` makes of it where the layout version asked for is newer or has another
    string table: a NameNode of Hadoop 2 does not load what one of Hadoop 3 writes in a rolling upgrade.

    An older layout may lack a place for what a merge removes from the image, so the result is converted: see
    `write_at_layout`.

    Raises:
        ImageFormatError, ImageStorageError: see `convert_to_spool`.
    """
    plan = plan_conversion(image, layout_version=layout_version)
    newer = plan.changes_layout and newer_layout(image.layout_version, plan.layout_version) == plan.layout_version
    if not newer and not plan.joins_strings:
        yield image
        return
    with convert_to_spool(image, plan.layout_version, spool_dir=spool_dir) as converted:
        yield converted


def write_at_layout(
    write: Callable[[Sink], object], sink: Sink, layout_version: int, path: Path, *, spool_dir: Path | None = None
) -> None:
    """Convert the image that `write` writes to a sink; its codec stays, and about its number of sub-sections.

    Args:
        path: stands for the image in errors.

    Raises:
        UnsupportedConversionError: the layout has no place for something in the image; nothing was written.
        ImageStorageError: there is no room for the image before the conversion.
    """
    with Spool(spool_dir, SPOOL_LIMIT) as spool:
        write(lambda buffer: spool.write(memoryview(buffer)))
        data = spool.finish()
    with ImageFile(path, data, spool_dir) as image:
        convert_image(image, sink, layout_version=layout_version, parallel_compressed=True)
