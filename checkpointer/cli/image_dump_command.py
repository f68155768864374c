"""`checkpointer image dump`: an fsimage as XML, delimited rows or JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from checkpointer.cli.existing_path import EXISTING_FILE
from checkpointer.cli.output import ProgressObserver, echo
from checkpointer.cli.text_file import check_output, emit
from image_format.layout import NEWEST_LAYOUT
from image_format.reader import ImageFile
from image_tools.dump.delimited import dump_delimited, header_row
from image_tools.dump.json_lines import dump_json
from image_tools.dump.records import ImageRecords
from image_tools.dump.xml_dump import XmlForm, dump_xml

_RELEASES = [form.value for form in XmlForm]


@click.command("dump")
@click.argument("path", metavar="FSIMAGE", type=EXISTING_FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(["xml", "delimited", "json"]),
    default="xml",
    show_default=True,
    help="xml and delimited as Hadoop's OfflineImageViewer prints them, or one JSON object a record.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write (default: stdout).")
@click.option("--force", is_flag=True, help="Replace the output file.")
@click.option("--release", type=click.Choice(_RELEASES), help="xml: of which release (default: the image's).")
@click.option("--delimiter", default="\t", help="delimited: separator of columns (default: tab).")
@click.option("--header", is_flag=True, help="delimited: print the columns' names first, as Hadoop 3.x does.")
def command(
    path: Path, form: str, output: Path | None, force: bool, release: str | None, delimiter: str, header: bool
) -> None:
    """Print every record of an image; exit 3 where the image is damaged.

    The XML of 2.7 has no place for ACLs, extended attributes, keys, tokens and snapshot copies; json has all of an
    image. The rows of delimited are the files and directories of the current tree, times in the local time zone.
    An output file appears whole or not at all.

    \b
    Examples:
      checkpointer image dump /data/nn/current/fsimage_0000000000000000042
      checkpointer image dump --format delimited --output rows.tsv fsimage_0000000000000000042
    """
    if not delimiter:
        raise click.BadParameter("must not be empty", param_hint="--delimiter")
    check_output(output, path, force=force)
    with (
        ImageFile.open(path, verify_md5=False, allow_unknown_layout=True) as image,
        ProgressObserver(show=output is not None) as observer,
    ):
        records = ImageRecords(image, observer.advance)
        _warn(records)
        observer.phase("dump", records.inode_header().numInodes)
        emit(_pieces(records, form, release, delimiter, header=header), output)


def _pieces(records: ImageRecords, form: str, release: str | None, delimiter: str, *, header: bool) -> Iterator[str]:
    if form == "json":
        yield from dump_json(records)
    elif form == "delimited":
        if header:
            yield header_row(delimiter)
        yield from dump_delimited(records, delimiter)
    else:
        yield from dump_xml(records, XmlForm(release) if release else None)


def _warn(records: ImageRecords) -> None:
    image = records.image
    if image.layout_version < NEWEST_LAYOUT:
        text = f"layout version {image.layout_version} is newer than {NEWEST_LAYOUT.value}, the newest known one"
        echo(f"checkpointer: warning: {text}; what came with it is left out", err=True)
    for name in records.unknown_sections:
        echo(f"checkpointer: warning: section {name} is unknown and left out", err=True)
