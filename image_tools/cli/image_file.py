"""Opens images for commands that only read or copy them."""

from __future__ import annotations

from pathlib import Path

from hadoop_common.cli.output import echo
from image_format.layout import NEWEST_LAYOUT, is_unknown
from image_format.reader import ImageFile


def open_image(path: Path, *, verify_md5: bool = True, spool_dir: Path | None = None) -> ImageFile:
    """Open an image; for an unknown newer layout, print a warning to standard error.

    Raises:
        ImageFormatError, ImageStorageError: see `ImageFile.open`.
    """
    image = ImageFile.open(path, verify_md5=verify_md5, allow_unknown_layout=True, spool_dir=spool_dir)
    if is_unknown(image.layout_version):
        echo(
            f"warning: {path} has layout version {image.layout_version}, newer than the newest known version "
            f"({NEWEST_LAYOUT.value}); the output may be incomplete",
            err=True,
        )
    return image
