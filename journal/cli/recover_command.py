"""`checkpointer edits recover`: writes the intact operations of a damaged segment, and reports the lost operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hadoop_common.cli.output import EXISTING_FILE, EXISTING_FOLDER, echo, echo_json, json_option
from hadoop_common.names import SegmentName, parse_segment, segment_name
from hadoop_common.quantities import counted
from journal.cli.edits_argument import TXID_RANGES
from journal.cli.skip_report import print_skips, skip_report
from journal.errors import CorruptHeaderError, UnreadableOpError
from journal.primitives import Buffer
from journal.salvage import SegmentExamination, examine_segment
from journal.segment_file import map_file
from journal.segment_output import write_pieces, write_range
from journal.skipping import SkipRequest, plan_skips


@click.command("recover")
@click.argument("path", metavar="SEGMENT", type=EXISTING_FILE)
@click.argument("directory", metavar="DIR", type=EXISTING_FOLDER)
@click.option(
    "--skip",
    "skips",
    metavar="TXID[-TXID]",
    multiple=True,
    type=TXID_RANGES,
    help="Replace this transaction with an operation without effect; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Print the report, but write nothing.")
@click.option("--force", is_flag=True, help="Replace a segment of the same name in DIR.")
@json_option
def command(path: Path, directory: Path, skips: tuple[range, ...], dry_run: bool, force: bool, as_json: bool) -> None:
    """Write the operations before the first damage to DIR, as edits_FIRST-LAST; SEGMENT is never changed.

    SEGMENT may be finalized or in progress, damaged or undamaged. The report shows the position of the damage, the
    number of truncated bytes, and the lost transactions: intact ones after the damage, and operations that this program
    cannot decode. Try another edits directory or a JournalNode before you use the result.

    With --skip, the result has all transactions of SEGMENT. An operation that cannot be applied or read is replaced
    with an operation without effect, which every NameNode of that layout accepts. The report lists the skipped
    operations. It also lists later operations that name the same path, inode or block, including operations in later
    segments of the same directory. Without the skipped operation, a later operation may be impossible or have a
    different effect.

    \b
    Example: checkpointer edits recover edits_inprogress_0000000000000000043 /tmp/saved

    Exit codes: 0 recovered or undamaged, 4 all operations are unreadable or a transaction to skip is missing,
    5 unknown layout, 6 DIR cannot be written
    """
    with map_file(path) as content:
        if skips:
            report = _skip(path, content, directory, skips, dry_run=dry_run, force=force)
        else:
            report = _cut(path, content, directory, dry_run=dry_run, force=force)
    report = {"dryRun": dry_run, **report}
    if as_json:
        echo_json(report)
    else:
        _print(report)


def _skip(
    path: Path, content: Buffer, directory: Path, skips: tuple[range, ...], *, dry_run: bool, force: bool
) -> dict[str, Any]:
    name = parse_segment(path.name)
    first, last = (None, None) if name is None else (name.first, name.last)
    txids = frozenset(txid for each in skips for txid in each)
    plan = plan_skips(content, SkipRequest(txids, str(path), first, last))
    target = _target(path, directory, plan.first_txid, plan.last_txid)
    report = skip_report(path, target, plan, content)
    if not dry_run:
        write_pieces(target, content, plan.pieces, overwrite=force)
    return report


def _cut(path: Path, content: Buffer, directory: Path, *, dry_run: bool, force: bool) -> dict[str, Any]:
    name = parse_segment(path.name) or SegmentName(0, None)
    first_txid = None if parse_segment(path.name) is None else name.first
    found = examine_segment(content, file=str(path), first_txid=first_txid, last_txid=name.last)
    if found.first_txid is None or found.last_txid is None:
        raise found.fault or CorruptHeaderError("the segment has no operation after its header", file=str(path))
    target = _target(path, directory, found.first_txid, found.last_txid)
    if isinstance(found.fault, UnreadableOpError):
        text = "the result lacks operations that this program cannot decode"
        echo(f"warning: {text}; next: {found.fault.hint}", err=True)
    if not dry_run:
        write_range(target, content, found.end, overwrite=force)
    return _report(path, target, found)


def _target(path: Path, directory: Path, first: int, last: int) -> Path:
    target = directory / segment_name(first, last)
    if target.exists() and target.samefile(path):
        raise click.UsageError("The result would replace SEGMENT itself; name another directory.")
    return target


def _report(path: Path, written: Path, found: SegmentExamination) -> dict[str, Any]:
    fault = found.fault
    damage = None
    if fault is not None:
        offset = found.end if fault.offset is None else fault.offset
        damage = {"offset": offset, "txid": fault.txid, "problem": fault.problem}
    return {
        "file": str(written),
        "source": str(path),
        "layoutVersion": found.layout_version,
        "firstTxid": found.first_txid,
        "lastTxid": found.last_txid,
        "transactions": found.transactions,
        "damage": damage,
        "end": found.end,
        "cutBytes": found.cut_bytes,
        "paddingBytes": found.padding_bytes,
        "lost": [{"firstTxid": run.first, "lastTxid": run.last, "offset": run.start} for run in found.lost],
    }


def _print(report: dict[str, Any]) -> None:
    would = "would be written: " if report["dryRun"] else ""
    echo(
        f"{would}{report['file']}: {counted(report['transactions'], 'transaction')}, {report['firstTxid']} to "
        f"{report['lastTxid']}"
    )
    damage = report["damage"]
    if damage is None:
        echo("not damaged")
    else:
        echo(f"damaged at offset {damage['offset']}: {damage['problem']}")
    cut, padding = counted(report["cutBytes"], "byte"), report["paddingBytes"]
    echo(f"cut: {cut} after offset {report['end']}, and {padding} of padding")
    for run in report["lost"]:
        first, last = run["firstTxid"], run["lastTxid"]
        named = f"transaction {first}" if first == last else f"transactions {first} to {last}"
        echo(f"lost: intact {named}, at offset {run['offset']}")
    if "skipped" in report:
        print_skips(report)
