"""`checkpointer edits dump`: every operation of a segment as XML or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedWriter
from pathlib import Path

import click

from hadoop_common.cli.existing_path import EXISTING_FILE
from journal.atomic_output import write_new_file
from journal.json_codec import dump_json
from journal.segment import decode_header
from journal.segment_file import map_file, segment_ops
from journal.xml_codec import dump_xml


@click.command("dump")
@click.argument("path", metavar="EDITS", type=EXISTING_FILE)
@click.option("--format", "form", type=click.Choice(["xml", "json"]), default="xml", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write (default: stdout).")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def command(path: Path, form: str, output: Path | None, force: bool) -> None:
    """Print every operation: XML as Hadoop's OfflineEditsViewer, or JSON, one object a line after the layout's.

    XML leaves out xattrs and storage policy of OP_ADD, as Hadoop's does; JSON holds everything. `edits load`
    reads both. An output file appears only when the whole segment is good.

    \b
    Example: checkpointer edits dump --format json edits_0000000000000000001-0000000000000000042
    Exit codes: 0 done, 4 damaged edits, 5 unknown layout, 6 the output exists or cannot be written
    """
    with map_file(path) as content:
        layout_version = decode_header(content, file=str(path))
        ops = segment_ops(path, content)
        pieces = dump_json(ops, layout_version) if form == "json" else dump_xml(ops, layout_version)
        if output is None:
            for piece in pieces:
                click.echo(piece, nl=False)
        else:
            _write(output, pieces, force)


def _write(output: Path, pieces: Iterator[str], force: bool) -> None:
    def fill(out: BufferedWriter) -> Path:
        out.writelines(piece.encode("utf-8") for piece in pieces)
        return output

    write_new_file(output, fill, overwrite=force)
