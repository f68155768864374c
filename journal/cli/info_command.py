"""`checkpointer edits info`: what an edit log segment holds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from hadoop_common.cli.existing_path import EXISTING_FILE
from hadoop_common.cli.output import echo, echo_json, json_option
from journal.salvage import is_padding
from journal.segment import decode_header
from journal.segment_file import map_file, segment_ops


@click.command("info")
@click.argument("path", metavar="EDITS", type=EXISTING_FILE)
@json_option
def command(path: Path, as_json: bool) -> None:
    """Print layout, transaction ids and the count of each operation; exit 4 where the segment is damaged.

    A segment in progress may end within a transaction, as a crash leaves it: `tornBytes` counts what follows the last
    whole one, padding excepted, and begins at `endOffset`.

    \b
    Example: checkpointer edits info /data/nn/current/edits_0000000000000000001-0000000000000000042
    """
    with map_file(path) as content:
        layout_version = decode_header(content, file=str(path))
        ops = segment_ops(path, content)
        counts: Counter[str] = Counter()
        first = last = None
        for op in ops:
            first = op.txid if first is None else first
            last = op.txid
            counts[op.name] += 1
        summary: dict[str, Any] = {
            "file": str(path),
            "layoutVersion": layout_version,
            "firstTxid": first,
            "lastTxid": last,
            "transactions": counts.total(),
            "endOffset": ops.position,
            "tornBytes": 0 if is_padding(content, ops.position) else len(content) - ops.position,
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
    if summary["tornBytes"]:
        echo(
            f"warning: torn tail: {summary['tornBytes']} bytes after offset {summary['endOffset']} are no whole "
            "transaction; `checkpointer edits recover` writes what is before them",
            err=True,
        )
