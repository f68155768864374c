"""`checkpointer archive prune`: removes objects that retention rules do not keep."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from archive.cli.options import archive_options, opened
from archive.pruning import prune
from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.quantities import counted
from site_config.archive_settings import parse_rules


@click.command("prune")
@archive_options
@click.option(
    "--keep",
    required=True,
    metavar="RULES",
    help='Rules such as "all for 7d, daily for 90d, monthly for 5y"; also hourly, weekly, yearly, and the units h, '
    "w, m.",
)
@click.option("--dry-run", is_flag=True, help="Only list the objects that would be removed, and their size.")
@json_option
def command(location: str, key_file: Path | None, keep: str, dry_run: bool, as_json: bool) -> None:
    """Remove base images and edits that the rules do not require. The newest moment of each branch is always kept.

    \b
    Example: checkpointer archive prune --archive /backup/hdfs --keep "all for 7d, daily for 90d" --dry-run
    """
    try:
        rules = parse_rules(keep)
    except ValueError as fault:
        raise click.BadParameter(str(fault), param_hint="--keep") from None
    if not rules:
        raise click.BadParameter(
            "the list of rules is empty, so everything except the newest moments would be removed", param_hint="--keep"
        )
    with opened(location, key_file) as archive:
        plan = prune(archive, rules, dry_run=dry_run)
    if as_json:
        removed = [asdict(each) for each in plan.remove]
        echo_json({"dryRun": dry_run, "removed": removed, "bytes": plan.freed, "kept": len(plan.keep)})
        return
    for each in plan.remove:
        echo(f"{'would be removed' if dry_run else 'removed'}: {each.name}, {each.stored:,} bytes")
    what = "would free" if dry_run else "freed"
    echo(f"{what} {plan.freed:,} bytes; kept: {counted(len(plan.keep), 'object')}")
