"""`checkpointer edits info`: prints a summary of an edit log segment."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option
from hadoop_common.names import parse_segment
from image_format.layout import NEWEST_LAYOUT
from journal.cli.edits_argument import EDITS, journal_edits
from journal.cli.torn_tail import torn_bytes, warn_of_tail
from journal.errors import SegmentError
from journal.segment_file import map_file, segment_ops
from journal.segment_format import HEADER_SIZE, decode_header


@click.command("info")
@click.argument("edits", metavar="EDITS", type=EDITS)
@conf_option(required=False)
@json_option
def command(edits: Path | str, conf_dir: Path | None, as_json: bool) -> None:
    """Show layout, transaction ids and the count of each operation; exit with code 4 if the segment is damaged.

    EDITS is a segment, or a journal such as bookkeeper://HOST:PORT/PATH or qjournal://HOST:PORT;HOST:PORT/ID. --conf
    names the configuration with timeouts, user and password. A journal is read completely, but its writer is not
    disturbed.

    After a crash, a segment in progress may end within a transaction. `tornBytes` counts the bytes after the last
    complete transaction, without padding; they begin at `endOffset`.

    \b
    Example: checkpointer edits info /data/nn/current/edits_0000000000000000001-0000000000000000042
    """
    summary = _of_journal(edits, conf_dir) if isinstance(edits, str) else _of_file(edits)
    if as_json:
        echo_json(summary)
        return
    operations = summary.pop("operations")
    for name, value in summary.items():
        echo(f"{name:<16} {'none' if value is None else value}")
    width = max(30, *map(len, operations)) if operations else 0
    for name, count in operations.items():
        echo(f"  {name:<{width}} {count:>10}")
    if isinstance(edits, Path):
        warn_of_tail(edits, summary["tornBytes"], summary["endOffset"])


def _of_journal(uri: str, conf_dir: Path | None) -> dict[str, Any]:
    with journal_edits(uri, conf_dir, NEWEST_LAYOUT) as found:
        counts = Counter(op.name for op in found.ops())
        first, last = found.parts[0], found.parts[-1]
        return {
            "journal": found.location,
            "layoutVersion": found.layout_version,
            "firstTxid": first.first,
            "lastTxid": last.last,
            "transactions": counts.total(),
            "segments": len(found.parts),
            "inProgress": last.source.in_progress,
            "operations": dict(counts.most_common()),
        }


def _of_file(path: Path) -> dict[str, Any]:
    with map_file(path) as content:
        layout_version = decode_header(content, file=str(path))
        ops = segment_ops(path, content)
        counts: Counter[str] = Counter()
        first = last = None
        for op in ops:
            first = op.txid if first is None else first
            last = op.txid
            counts[op.name] += 1
        named = parse_segment(path.name)
        if named is not None and first not in (None, named.first):
            problem = f"the segment begins with txid {first}, but according to its name with {named.first}"
            raise SegmentError(problem, file=str(path), offset=HEADER_SIZE)
        return {
            "file": str(path),
            "layoutVersion": layout_version,
            "firstTxid": first,
            "lastTxid": last,
            "transactions": counts.total(),
            "endOffset": ops.position,
            "tornBytes": torn_bytes(content, ops.position),
            "operations": dict(counts.most_common()),
        }
