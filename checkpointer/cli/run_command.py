"""`checkpointer run`: the daemon."""

from __future__ import annotations

import logging
import logging.config
import sys
import tomllib
from pathlib import Path

import click

from checkpointer.cli.output import conf_option, load_configuration
from checkpointer.config import CheckpointConfig, Role

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def _set_up_logging(verbose: bool, log_config: Path | None) -> None:
    if log_config is None:
        logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, format=_FORMAT, stream=sys.stderr)
        # Its own polls are not worth a line each.
        logging.getLogger("apscheduler").setLevel(logging.WARNING)
        return
    try:
        logging.config.dictConfig(tomllib.loads(log_config.read_text()))
    except (ValueError, TypeError, AttributeError, ImportError) as fault:
        raise click.UsageError(f"{log_config} is no logging configuration: {fault}") from fault


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
@click.option(
    "--log-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file for logging.config.dictConfig, such as config/logging.toml (JSON lines).",
)
def command(conf_dir: Path, role: str, verbose: bool, log_config: Path | None) -> None:
    """Run as a daemon: checkpoint by period or transaction count, upload, serve HTTP.

    Stops at SIGTERM; a checkpoint that runs is ended at a safe point and leaves nothing half-written.

    \b
    Example: checkpointer run --conf /etc/hadoop/conf --role standby
    """
    _set_up_logging(verbose, log_config)
    if role != Role.STANDBY.value:
        raise click.UsageError(
            f"the {role} role needs Hadoop RPC, which this version does not speak; "
            "use --role standby with dfs.namenode.shared.edits.dir on a shared directory"
        )
    config = CheckpointConfig.from_configuration(load_configuration(conf_dir), Role.STANDBY)
    from checkpointer.daemon.process import run_standby

    run_standby(config)
