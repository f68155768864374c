"""`checkpointer edits load`: creates a binary segment from XML or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import click

from hadoop_common.cli.output import EXISTING_FILE, echo, echo_json, json_option, refuse_input
from hadoop_common.file_kind import HEAD_BYTES, file_kind
from hadoop_common.names import parse_segment
from hadoop_common.quantities import counted
from hadoop_common.regular_file import open_regular
from journal.edits_text import EditsDocument, existing_values, fields_without_xml, fitting, renumbered
from journal.errors import EditsTextError, JournalError, JournalStorageError, TransactionGapError
from journal.json_codec import parse_json
from journal.operation import EditOp
from journal.segment_output import WrittenSegment, write_ops
from journal.xml_reader import parse_xml

_CHUNK = 1 << 18
_GAP_HINT = "Add the missing operations to the text, or renumber the operations with --fix-txids."
_BLANK = b"\xef\xbb\xbf \t\r\n"


@click.command("load")
@click.argument("source", metavar="INPUT", type=EXISTING_FILE)
@click.argument("output", metavar="OUTPUT", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["xml", "json"]),
    help="Format of INPUT (default: detected from the first character).",
)
@click.option("--layout", type=int, metavar="N", help="Layout version to write (default: from INPUT).")
@click.option("--force", is_flag=True, help="Replace the segment if it exists.")
@click.option("--fix-txids", is_flag=True, help="Renumber operations with gaps in their ids (oev -f).")
@json_option
def command(
    source: Path, output: Path, form: str | None, layout: int | None, force: bool, fix_txids: bool, as_json: bool
) -> None:
    """Create a finalized segment from the output of `edits dump` or `hdfs oev`.

    OUTPUT is a file, or an existing directory; the segment in a directory is named edits_FIRST-LAST. Transaction ids
    must be consecutive. --fix-txids renumbers them, but the result is then not part of a NameNode's history. XML does
    not contain the xattrs and the storage policy of OP_ADD, so they are lost.

    \b
    Example: checkpointer edits load --format xml edits.xml /tmp/edits_0000000000000000001-0000000000000000042

    Exit codes: 0 done, 4 INPUT is not an edit log, 5 unknown layout, 6 OUTPUT exists or cannot be written
    """
    refuse_input(output, source, "OUTPUT")
    with open_regular(source) as stream:
        chosen = form or _format_of(stream, str(source))
        document = _parse(stream, chosen, str(source))
        layout_version = document.layout_version if layout is None else layout
        counts: Counter[str] = Counter()
        read = renumbered(document.ops) if fix_txids else document.ops
        ops = fitting(existing_values(_counted(read, counts)), layout_version)
        try:
            written = write_ops(output, _of_name(ops, output), layout_version, overwrite=force)
        except JournalStorageError:
            raise
        except JournalError as error:
            if isinstance(error, TransactionGapError):
                error.hint = _GAP_HINT
            error.locate(file=str(source))
            raise
    lost = {name: fields for name, fields in fields_without_xml().items() if name in counts} if chosen == "xml" else {}
    _report(written, layout_version, lost, as_json=as_json)


def _format_of(stream: BinaryIO, name: str) -> str:
    """Return `xml` or `json`, as the first character shows, and rewind the stream."""
    head = stream.read(_CHUNK)
    stream.seek(0)
    first = head.lstrip(_BLANK)[:1]
    if first in (b"<", b"{"):
        return "xml" if first == b"<" else "json"
    if (kind := file_kind(head[:HEAD_BYTES])) is not None:
        raise EditsTextError(f"the file is {kind.name}, not the XML or JSON of edits", file=name, hint=kind.hint)
    raise click.UsageError("INPUT does not begin like XML or JSON; name its format with --format.")


def _parse(stream: BinaryIO, form: str, name: str) -> EditsDocument:
    if form == "json":
        return parse_json(stream, file=name)
    return parse_xml(iter(lambda: stream.read(_CHUNK), b""), file=name)


def _counted(ops: Iterable[EditOp], counts: Counter[str]) -> Iterator[EditOp]:
    for op in ops:
        counts[op.name] += 1
        yield op


def _of_name(ops: Iterable[EditOp], output: Path) -> Iterator[EditOp]:
    """Yield `ops`; then refuse a file name with other transaction ids, because readers trust the name.

    Raises:
        click.BadParameter: `output` has the name of another segment.
    """
    named = None if output.is_dir() else parse_segment(output.name)
    first = last = None
    for op in ops:
        first, last = op.txid if first is None else first, op.txid
        yield op
    if named is not None and first is not None and (named.first, named.last or last) != (first, last):
        problem = f"{output.name} is the name of another segment: INPUT has transactions {first} to {last}"
        raise click.BadParameter(f"{problem}. Specify its directory instead.", param_hint="OUTPUT")


def _report(written: WrittenSegment, layout_version: int, lost: dict[str, tuple[str, ...]], *, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "file": str(written.path),
                "layoutVersion": layout_version,
                "firstTxid": written.first_txid,
                "lastTxid": written.last_txid,
                "transactions": written.transactions,
                "size": written.size,
                "notInXml": lost,
            }
        )
        return
    echo(f"{written.path}: {counted(written.transactions, 'transaction')}, {written.first_txid} to {written.last_txid}")
    for name, fields in lost.items():
        echo(f"note: XML lacks {' and '.join(fields)} of {name}, so they have their default values", err=True)
