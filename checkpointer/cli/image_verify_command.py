"""`checkpointer image verify`: whether an fsimage is whole."""

from __future__ import annotations

from pathlib import Path

import click

from checkpointer.cli.output import echo_json, json_option
from checkpointer.merge import load_image
from image_format.reader import ImageFile

_IMAGE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("verify")
@click.argument("path", metavar="FSIMAGE", type=_IMAGE)
@json_option
def command(path: Path, as_json: bool) -> None:
    """Check digest, trailer, sections and every inode record's frame; exit 3 where the image is damaged.

    \b
    Example: checkpointer image verify /data/nn/current/fsimage_0000000000000000042
    """
    with ImageFile.open(path) as image:
        loaded = load_image(image)
        index = loaded.index
        for directory_id in index.directory_ids.tolist():
            index.check_directory(directory_id)
        content = {
            "file": str(path),
            "valid": True,
            "txid": image.txid,
            "inodes": index.slot_count,
            "directoriesWithChildren": int(index.directory_ids.size),
        }
    if as_json:
        echo_json(content)
        return
    click.echo(
        f"{path}: valid; txid {content['txid']}, {content['inodes']} inodes, "
        f"{content['directoriesWithChildren']} directories with children"
    )
