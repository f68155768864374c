"""`checkpointer archive show`: shows the objects that are needed to restore a moment."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from archive.cli.options import archive_options, branch_option, opened, resolve_moment
from archive.moments import plan_restore
from archive.restoring import chosen_view
from archive.scratch import scratch_folder
from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.quantities import counted


@click.command("show")
@click.argument("moment", metavar="TXID_OR_TIME")
@archive_options
@branch_option
@json_option
def command(moment: str, location: str, key_file: Path | None, branch: str | None, as_json: bool) -> None:
    """Show what is needed to restore a moment: the base image, and the edits after it.

    \b
    Example: checkpointer archive show 2026-11-28T14:03:00 --archive /backup/hdfs
    """
    with opened(location, key_file) as archive, scratch_folder(None) as folder:
        view = chosen_view(archive, branch)
        plan = plan_restore(view, resolve_moment(archive, view, moment, folder))
    if as_json:
        pieces = [{**asdict(each.record), "usedUpTo": each.last} for each in plan.pieces]
        echo_json({"txid": plan.txid, "branch": plan.view.branch, "base": asdict(plan.base), "edits": pieces})
        return
    echo(f"transaction {plan.txid} of branch {plan.view.branch}")
    echo(f"base image: transaction {plan.base.txid}, {plan.base.stored:,} bytes, {plan.base.name}")
    for each in plan.pieces:
        echo(f"edits {each.record.first} to {each.last}: {each.record.stored:,} bytes, {each.record.name}")
    echo(f"{counted(plan.transactions, 'transaction')} to replay")
