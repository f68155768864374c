"""`checkpointer edits dump`: prints every operation of a segment as XML or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, refuse_input
from image_format.layout import NEWEST_LAYOUT
from journal.cli.edits_argument import EDITS, journal_edits
from journal.cli.torn_tail import torn_bytes, warn_of_tail
from journal.edits_text import renumbered
from journal.json_codec import dump_json
from journal.operation import EditOp
from journal.segment_file import map_file, segment_ops
from journal.segment_format import decode_header, unchecked_ops
from journal.segment_output import write_new_file
from journal.xml_codec import RELEASES, dump_xml


@click.command("dump")
@click.argument("edits", metavar="EDITS", type=EDITS)
@click.option("--format", "form", type=click.Choice(["xml", "json"]), default="xml", show_default=True)
@click.option("--release", type=click.Choice([*RELEASES]), help="Release of the XML (default: the edits' release).")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write (default: stdout).")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
@click.option("--fix-txids", is_flag=True, help="Renumber operations with gaps in their ids (oev -f); files only.")
@conf_option(required=False)
def command(
    edits: Path | str,
    form: str,
    release: str | None,
    output: Path | None,
    force: bool,
    fix_txids: bool,
    conf_dir: Path | None,
) -> None:
    """Print every operation as XML, as Hadoop's OfflineEditsViewer does, or as JSON Lines.

    Like the output of Hadoop's viewer, XML omits the xattrs and the storage policy of OP_ADD; JSON is complete. `edits
    load` reads both. An output file appears only if the segment is intact. Bytes after the last complete transaction,
    which a crash can leave, are omitted with a warning. If EDITS is the URI of a journal (see `edits info`), all its
    transactions are printed.

    \b
    Example: checkpointer edits dump --format json edits_0000000000000000001-0000000000000000042

    Exit codes: 0 done, 4 damaged edits, 5 unknown layout, 6 the output exists or cannot be written
    """
    if fix_txids and isinstance(edits, str):
        raise click.UsageError(
            "--fix-txids is for the file of a segment. It does not apply to a journal, which is read by transaction id."
        )
    if release and form == "json":
        raise click.UsageError("--release requires --format xml.")
    if output is not None and isinstance(edits, Path):
        refuse_input(output, edits, "--output")
    with _opened(edits, conf_dir, fix_txids=fix_txids) as (ops, layout_version):
        dialect = RELEASES[release] if release else None
        pieces = dump_json(ops, layout_version) if form == "json" else dump_xml(ops, layout_version, dialect)
        if output is None:
            for piece in pieces:
                click.echo(piece.encode(), nl=False)
        else:
            _write(output, pieces, force)


@contextmanager
def _opened(edits: Path | str, conf_dir: Path | None, *, fix_txids: bool) -> Iterator[tuple[Iterable[EditOp], int]]:
    """Yield the operations, and the layout version to print; after them, warn of a torn tail."""
    if isinstance(edits, str):
        with journal_edits(edits, conf_dir, NEWEST_LAYOUT) as found:
            yield found.ops(), found.layout_version
    else:
        with map_file(edits) as content:
            layout_version = decode_header(content, file=str(edits))
            if fix_txids:
                yield renumbered(unchecked_ops(content, str(edits))), layout_version
                return
            ops = segment_ops(edits, content)
            yield ops, layout_version
            warn_of_tail(edits, torn_bytes(content, ops.position), ops.position)


def _write(output: Path, pieces: Iterator[str], force: bool) -> None:
    def fill(out: BufferedWriter) -> Path:
        out.writelines(piece.encode("utf-8") for piece in pieces)
        return output

    write_new_file(output, fill, overwrite=force)
