"""Opens images for commands: the parameter type for an image, and the warning for unknown layouts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hadoop_common.cli.output import EXISTING, echo
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import file_faults
from hadoop_common.names import newest_image, parse_image
from image_format.layout import NEWEST_LAYOUT, is_unknown

if TYPE_CHECKING:
    from image_format.reader import ImageFile


class _ImageParam(click.ParamType[Path]):
    name = "image"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path: Path = EXISTING.convert(value, param, ctx)
        return newest_in(path) if path.is_dir() else path


def newest_in(directory: Path) -> Path:
    """Return the newest image of a storage directory or of a folder of images.

    Raises:
        StorageError: no image was found, or the folder cannot be listed.
    """
    current = directory / "current"
    folder = current if current.is_dir() else directory
    with file_faults(folder, "cannot be listed"):
        newest = newest_image(path.name for path in folder.iterdir() if path.is_file())
    if newest is None:
        raise StorageError(
            f"no image in {folder}", hint="Specify an image, or a storage directory that contains an image."
        )
    return folder / newest


def newest_of(directories: Iterable[Path]) -> Path:
    """Return the newest image of several storage directories, some of which may contain no image.

    Raises:
        StorageError: no directory contains an image.
    """
    found, faults = [], []
    for directory in directories:
        try:
            found.append(newest_in(directory))
        except FileNotFoundError:
            hint = "The daemon creates it. Specify another directory, or run the command on the daemon's host."
            faults.append(StorageError(f"no image: {directory} does not exist", hint=hint))
        except StorageError as error:
            faults.append(error)
    if not found:
        raise faults[0]
    return max(found, key=lambda path: path.name)


def check_target_name(target: Path, txid: int, source: str) -> None:
    """Refuse a file name whose transaction id is not the last transaction id of `source`.

    Raises:
        click.BadParameter: the name contains a different transaction id.
    """
    named = parse_image(target.name)
    if named is not None and named.txid != txid:
        raise click.BadParameter(f"{target.name} names transaction {named.txid}, but {source} ends with {txid}")


IMAGE = _ImageParam()
"""Parameter type: the `Path` of an existing image."""


def open_image(path: Path, *, spool_dir: Path | None = None) -> ImageFile:
    """Open an image without checking its digest; for an unknown newer layout, print a warning to standard error.

    Raises:
        ImageFormatError, ImageStorageError: see `ImageFile.open`.
    """
    # Help texts do not need NumPy.
    from image_format.reader import ImageFile

    image = ImageFile.open(path, verify_md5=False, allow_unknown_layout=True, spool_dir=spool_dir)
    if is_unknown(image.layout_version):
        echo(
            f"warning: {path} has layout version {image.layout_version}, newer than the newest known version "
            f"({NEWEST_LAYOUT.value}); the output may be incomplete",
            err=True,
        )
    return image
