"""`checkpointer edits`: look at edit log segments."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from checkpointer.cli.output import echo_json, json_option
from hadoop_common.names import SegmentName, parse_segment
from journal.json_codec import dump_json
from journal.ops import EditOp
from journal.primitives import Buffer
from journal.segment import decode_header, iter_ops
from journal.segment_file import map_file
from journal.xml_codec import dump_xml

_SEGMENT = click.Path(exists=True, dir_okay=False, path_type=Path)


def _ops(path: Path, content: Buffer) -> Iterator[EditOp]:
    """All operations; what the name promises is checked, an in-progress segment is read to its last good one."""
    name = parse_segment(path.name) or SegmentName(0, None)
    return iter_ops(content, file=str(path), last_txid=name.last, in_progress=name.in_progress)


@click.group("edits")
def command() -> None:
    """Look at edit log segments."""


@command.command("info")
@click.argument("path", metavar="EDITS", type=_SEGMENT)
@json_option
def info(path: Path, as_json: bool) -> None:
    """Print layout, transaction ids and the count of each operation; exit 4 where the segment is damaged.

    \b
    Example: checkpointer edits info /data/nn/current/edits_0000000000000000001-0000000000000000042
    """
    with map_file(path) as content:
        layout_version = decode_header(content, file=str(path))
        counts: Counter[str] = Counter()
        first = last = None
        for op in _ops(path, content):
            first = op.txid if first is None else first
            last = op.txid
            counts[op.name] += 1
        summary: dict[str, Any] = {
            "file": str(path),
            "layoutVersion": layout_version,
            "firstTxid": first,
            "lastTxid": last,
            "transactions": counts.total(),
            "operations": dict(counts.most_common()),
        }
    if as_json:
        echo_json(summary)
        return
    operations = summary.pop("operations")
    for name, value in summary.items():
        click.echo(f"{name:<16} {value}")
    for name, count in operations.items():
        click.echo(f"  {name:<30} {count:>10}")


@command.command("dump")
@click.argument("path", metavar="EDITS", type=_SEGMENT)
@click.option("--format", "form", type=click.Choice(["xml", "json"]), default="xml", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write (default: stdout).")
def dump(path: Path, form: str, output: Path | None) -> None:
    """Print every operation: XML as Hadoop's OfflineEditsViewer, or one JSON object a line.

    \b
    Example: checkpointer edits dump --format json edits_0000000000000000001-0000000000000000042
    """
    with map_file(path) as content:
        layout_version = decode_header(content, file=str(path))
        ops = _ops(path, content)
        pieces = dump_json(ops) if form == "json" else dump_xml(ops, layout_version)
        if output is None:
            for piece in pieces:
                click.echo(piece, nl=False)
            return
        # The first operation is read before the file is made, so that a damaged header leaves nothing behind.
        head = list(itertools.islice(pieces, 1))
        with output.open("w", encoding="utf-8") as out:
            out.writelines(itertools.chain(head, pieces))
