"""`checkpointer run`: the daemon."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from checkpointer.cli.output import conf_option, load_configuration
from checkpointer.config import CheckpointConfig, Role

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


@click.command("run")
@conf_option(required=True)
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.STANDBY.value,
    show_default=True,
    help="What this node is to the NameNode.",
)
@click.option("--verbose", is_flag=True, help="Log more.")
def command(conf_dir: Path, role: str, verbose: bool) -> None:
    """Run as a daemon: checkpoint by period or transaction count, upload, serve HTTP.

    Stops at SIGTERM; a checkpoint that runs is ended at a safe point and leaves nothing half-written.

    \b
    Example: checkpointer run --conf /etc/hadoop/conf --role standby
    """
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, format=_FORMAT, stream=sys.stderr)
    # Its own polls are not worth a line each.
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    if role != Role.STANDBY.value:
        raise click.UsageError(
            f"the {role} role needs Hadoop RPC, which this version does not speak; "
            "use --role standby with dfs.namenode.shared.edits.dir on a shared directory"
        )
    config = CheckpointConfig.from_configuration(load_configuration(conf_dir), Role.STANDBY)
    from checkpointer.daemon.process import run_standby

    run_standby(config)
