"""`checkpointer archive log`: lists every transaction on a path, with its user."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from archive.audit import AuditLine, join_audit, read_audit
from archive.cli.audit_option import audit_option
from archive.cli.options import archive_options, branch_option, opened, parse_time, subtree_in_edits
from archive.moments import lacking_edits
from archive.path_log import LogEntry, path_log
from archive.restoring import chosen_view, format_time
from archive.scratch import scratch_folder
from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.quantities import counted
from journal.ops import OPERATIONS, by_name


def _operations(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> set[str]:
    """Return the operations that the user names with or without `OP_`, in any case."""
    wanted = {name.upper() if name.upper().startswith("OP_") else f"OP_{name.upper()}" for name in names}
    for name in wanted:
        try:
            by_name(name)
        except KeyError as error:
            similar = get_close_matches(name, [each.name for each in OPERATIONS.values()], n=1, cutoff=0.8)
            hint = f"Did you mean {similar[0]}?" if similar else "docs/opcodes.md lists all operations."
            raise click.BadParameter(f"{name} is not an operation. {hint}", context, parameter) from error
    return wanted


@click.command("log")
@archive_options
@click.option(
    "--path",
    required=True,
    metavar="PATH",
    callback=subtree_in_edits,
    help="File or directory, under any name that it has had.",
)
@click.option("--since", metavar="T", help="From this time on.")
@click.option("--until", metavar="T", help="Up to this time.")
@click.option(
    "--op",
    "wanted",
    multiple=True,
    metavar="NAME",
    callback=_operations,
    help="List only this operation, such as OP_DELETE.",
)
@audit_option
@branch_option
@json_option
def command(
    location: str,
    key_file: Path | None,
    path: str,
    since: str | None,
    until: str | None,
    wanted: set[str],
    audit: tuple[Path, ...],
    branch: str | None,
    as_json: bool,
) -> None:
    """List every transaction on PATH and below it, through its renames in both directions.

    Edits do not contain the user. With --audit, the command adds the user, address and client from the NameNode's audit
    logs. It interprets the times in audit logs in this host's time zone.

    \b
    Examples:
      checkpointer archive log --archive /backup/hdfs --path /data/warehouse --op OP_DELETE
      checkpointer archive log --archive /backup/hdfs --path /data --audit '/var/log/hdfs-audit.log*'
    """
    first = None if since is None else parse_time(since)
    last = None if until is None else parse_time(until)
    with opened(location, key_file) as archive, scratch_folder(None) as folder:
        view = chosen_view(archive, branch)
        entries = [
            entry
            for entry in path_log(archive, view, path, folder)
            if (not wanted or entry.operation in wanted)
            and (first is None or entry.time >= first)
            and (last is None or entry.time <= last)
        ]
    for each in lacking_edits(view):
        echo(
            f"warning: the archive lacks transactions {each.start} to {each.stop - 1}, which are not searched", err=True
        )
    users = join_audit(entries, read_audit(audit))
    if as_json:
        echo_json({"path": path, "entries": [_content(each, users.get(each.txid)) for each in entries]})
        return
    for entry in entries:
        echo(_line(entry, users.get(entry.txid)))
    echo(f"{counted(len(entries), 'transaction')} on {path}")
    if entries and not audit:
        echo("note: edits do not contain the user; --audit adds it from the NameNode's audit logs")


def _content(entry: LogEntry, audit: AuditLine | None) -> dict[str, Any]:
    content = entry._asdict()
    if audit is not None:
        content |= {"user": audit.user, "address": audit.address, "client": audit.client}
    return content


def _line(entry: LogEntry, audit: AuditLine | None) -> str:
    at = f"{'~' if entry.approximate else ''}{format_time(entry.time)}" if entry.time else "unknown time"
    who = f" by {audit.user} from {audit.address}" if audit is not None else ""
    return f"{entry.txid} {at} {entry.operation} {' '.join(entry.paths)}{who}"
