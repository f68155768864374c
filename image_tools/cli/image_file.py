"""Opens images for commands that only look at them or copy them."""

from __future__ import annotations

from pathlib import Path

from hadoop_common.cli.output import echo
from image_format.layout import NEWEST_LAYOUT, is_unknown
from image_format.reader import ImageFile


def open_image(path: Path, *, verify_md5: bool = True, spool_dir: Path | None = None) -> ImageFile:
    """`ImageFile.open`; an image newer than every known layout is opened too, with a warning on standard error.

    Raises:
        ImageFormatError, ImageStorageError: see `ImageFile.open`.
    """
    image = ImageFile.open(path, verify_md5=verify_md5, allow_unknown_layout=True, spool_dir=spool_dir)
    if is_unknown(image.layout_version):
        echo(
            f"warning: {path} is of layout version {image.layout_version}, newer than the newest known one "
            f"({NEWEST_LAYOUT.value}); what is shown may not be all it holds",
            err=True,
        )
    return image
