"""`checkpointer image info`: prints the FileSummary and NS_INFO of an fsimage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hadoop_common.cli.output import EXISTING_FILE, echo, echo_json, json_option
from image_format.proto.fsimage_pb2 import INodeSection
from image_format.reader import ImageFile
from image_tools.cli.image_file import open_image


@click.command("info")
@click.argument("path", metavar="FSIMAGE", type=EXISTING_FILE)
@json_option
def command(path: Path, as_json: bool) -> None:
    """Print the layout, transaction id, codec, number of inodes and sections of an image.

    \b
    Example: checkpointer image info /data/nn/current/fsimage_0000000000000000042
    """
    with open_image(path) as image:
        names = image.ns_info()
        content: dict[str, Any] = {
            "file": str(path),
            "size": image.size,
            "layoutVersion": image.layout_version,
            "codec": image.codec,
            "txid": image.txid,
            "inodes": _inodes(image),
            "namespaceId": names.namespaceId,
            "generationStamp": names.genstampV2,
            "lastAllocatedBlockId": names.lastAllocatedBlockId,
            "sections": [
                {"name": section.name, "offset": section.offset, "length": section.length} for section in image.sections
            ],
        }
    if as_json:
        echo_json(content)
        return
    sections = content.pop("sections")
    for name, value in content.items():
        echo(f"{name:<22} {value if value != '' else 'none'}")
    for section in sections:
        echo(f"  {section['name']:<24} {section['length']:>14} bytes at {section['offset']}")


def _inodes(image: ImageFile) -> int | None:
    """Return the inode count in the header of INODE; None if the section is absent."""
    return image.first_record("INODE", INodeSection).numInodes if image.has_section("INODE") else None
