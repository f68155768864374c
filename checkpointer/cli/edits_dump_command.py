"""`checkpointer edits dump`: every operation of a segment as XML or JSON."""

from __future__ import annotations

import itertools
from pathlib import Path

import click

from checkpointer.cli.segment_argument import SEGMENT, segment_ops
from journal.json_codec import dump_json
from journal.segment import decode_header
from journal.segment_file import map_file
from journal.xml_codec import dump_xml


@click.command("dump")
@click.argument("path", metavar="EDITS", type=SEGMENT)
@click.option("--format", "form", type=click.Choice(["xml", "json"]), default="xml", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write (default: stdout).")
def command(path: Path, form: str, output: Path | None) -> None:
    """Print every operation: XML as Hadoop's OfflineEditsViewer, or one JSON object a line.

    \b
    Example: checkpointer edits dump --format json edits_0000000000000000001-0000000000000000042
    """
    with map_file(path) as content:
        layout_version = decode_header(content, file=str(path))
        ops = segment_ops(path, content)
        pieces = dump_json(ops) if form == "json" else dump_xml(ops, layout_version)
        if output is None:
            for piece in pieces:
                click.echo(piece, nl=False)
            return
        # The first operation is read before the file is made, so that a damaged header leaves nothing behind.
        head = list(itertools.islice(pieces, 1))
        with output.open("w", encoding="utf-8") as out:
            out.writelines(itertools.chain(head, pieces))
