"""The report of `edits recover --skip` on skipped operations and the operations that depend on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hadoop_common.cli.output import echo
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.quantities import counted
from journal.dependents import dependents
from journal.operation import EditOp
from journal.primitives import Buffer
from journal.salvage import is_padding
from journal.segment_file import EditLogSegment, list_segments, map_file, segment_ops
from journal.skipping import SkipPlan, source_ops

_SHOWN = 20


def skip_report(path: Path, target: Path, plan: SkipPlan, content: Buffer) -> dict[str, Any]:
    """Return the report on `target`, which `plan` creates from segment `path`; include dependents in later segments."""
    later = _Later(path, plan.last_txid)
    left_out = {each.txid for each in plan.skipped}
    found = [each._asdict() for each in dependents(_chained(plan, content, later), left_out)]
    tail = len(content) - plan.end
    padded = is_padding(content, plan.end)
    fault = plan.fault
    return {
        "file": str(target),
        "source": str(path),
        "layoutVersion": plan.layout_version,
        "firstTxid": plan.first_txid,
        "lastTxid": plan.last_txid,
        "transactions": plan.last_txid - plan.first_txid + 1,
        "damage": None if fault is None else {"offset": plan.end, "txid": fault.txid, "problem": fault.problem},
        "end": plan.end,
        "cutBytes": 0 if padded else tail,
        "paddingBytes": tail if padded else 0,
        "lost": [],
        "skipped": [
            {"txid": each.txid, "offset": each.offset, "operation": None if each.op is None else each.op.name}
            for each in plan.skipped
        ],
        "dependents": found,
        "readUpTo": later.last_txid,
        "notRead": later.fault,
    }


def print_skips(report: dict[str, Any]) -> None:
    """Print the skipped operations, their dependents, and the next step."""
    for each in report["skipped"]:
        what = each["operation"] or "unreadable, so the operation is unknown"
        echo(f"skipped: transaction {each['txid']} at offset {each['offset']}: {what}")
    found = report["dependents"]
    read = f"read up to transaction {report['readUpTo']}"
    echo(f"dependents: {counted(len(found), 'later operation')} ({read})")
    for each in found[:_SHOWN]:
        echo(f"  transaction {each['txid']}: {each['operation']}, {each['because']}")
    if len(found) > _SHOWN:
        echo(f"  and {len(found) - _SHOWN} more, listed by --json")
    if report["notRead"]:
        echo(f"not read: {report['notRead']}")
    echo(
        "next: replace SEGMENT with the result in a copy of the storage directory and run `checkpointer merge` there; "
        "if another operation cannot be applied, the command names it"
    )


class _Later:
    """The operations that follow a segment in its directory, up to the first gap or unreadable operation."""

    def __init__(self, path: Path, last_txid: int) -> None:
        self._folder = path.parent
        self.last_txid = last_txid
        self.fault = ""

    def ops(self) -> Iterator[EditOp]:
        try:
            for segment in list_segments(self._folder):
                if segment.first == self.last_txid + 1:
                    yield from self._read(segment)
        except (HdfsError, OSError) as error:
            self.fault = error_text(error)

    def _read(self, segment: EditLogSegment) -> Iterator[EditOp]:
        with map_file(segment.path) as content:
            for op in segment_ops(segment.path, content):
                self.last_txid = op.txid
                yield op


def _chained(plan: SkipPlan, content: Buffer, later: _Later) -> Iterator[EditOp]:
    yield from source_ops(plan, content)
    yield from later.ops()
