"""Converts an image to a temporary image in memory or, if large, in an unlinked file."""

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
    """Return `image` converted to another layout version, uncompressed and open; errors name the original's path.

    The result is independent of `image`; the caller must close it.

    Raises:
        ImageFormatError: see `convert_image`.
        ImageStorageError: not enough disk space.
    """
    with Spool(spool_dir, SPOOL_LIMIT) as spool:
        convert_image(image, lambda buffer: spool.write(memoryview(buffer)), layout_version=layout_version, codec="")
        return ImageFile(image.path, spool.finish(), spool_dir)


@contextmanager
def at_layout(image: ImageFile, layout_version: int | None, *, spool_dir: Path | None = None) -> Iterator[ImageFile]:
    """Return `image`, or a converted copy if the requested layout is newer or needs another string table.

    A Hadoop 2 NameNode does not load the string table that Hadoop 3 writes during a rolling upgrade. For an older
    layout, `write_at_layout` converts the result of the merge instead, because a merge may remove content that the
    older layout cannot represent.

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
    """Convert the image that `write` writes to a sink; keep the codec and approximately the number of sub-sections.

    Args:
        path: path of the image, for errors.

    Raises:
        UnsupportedConversionError: the layout cannot represent the image; nothing was written.
        ImageStorageError: not enough disk space for the image before the conversion.
    """
    with Spool(spool_dir, SPOOL_LIMIT) as spool:
        write(lambda buffer: spool.write(memoryview(buffer)))
        data = spool.finish()
    with ImageFile(path, data, spool_dir) as image:
        convert_image(image, sink, layout_version=layout_version, parallel_compressed=True)
