"""`checkpointer edits info`: what an edit log segment holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from checkpointer.cli.existing_path import EXISTING_FILE
from checkpointer.cli.output import echo, echo_json, json_option
from checkpointer.cli.segment_argument import segment_ops
from journal.segment import decode_header
from journal.segment_file import map_file


@click.command("info")
@click.argument("path", metavar="EDITS", type=EXISTING_FILE)
@json_option
def command(path: Path, as_json: bool) -> None:
    """Print layout, transaction ids and the count of each operation; exit 4 where the segment is damaged.

    \b
    Example: checkpointer edits info /data/nn/current/edits_0000000000000000001-0000000000000000042
    """
    with map_file(path) as content:
        layout_version = decode_header(content, file=str(path))
        counts: Counter[str] = Counter()
        first = last = None
        for op in segment_ops(path, content):
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
        echo(f"{name:<16} {value}")
    for name, count in operations.items():
        echo(f"  {name:<30} {count:>10}")
