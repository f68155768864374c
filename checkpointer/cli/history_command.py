"""`checkpointer history`: show the checkpoints, failures and events of the last days."""

from __future__ import annotations

from pathlib import Path

import click

from checkpointer.cli.daemon_client import ask_daemon, find_daemon, known_answer, role_option, warn_of_faults
from hadoop_common.cli.output import FiniteRange, conf_option, echo, echo_json, json_option, terminal_width
from hadoop_common.text_layout import table_lines
from node_state.history import KEPT_DAYS, as_entry
from node_state.history_text import history_row
from site_config.checkpoint_config import Role

_TIMEOUT = 30.0
_COLUMNS = ("time", "what", "txid", "detail")


@click.command("history")
@conf_option(required=True)
@role_option()
@click.option(
    "--days",
    type=FiniteRange(min=0, min_open=True, max=KEPT_DAYS),
    default=7.0,
    show_default=True,
    help=f"Number of days to show, {KEPT_DAYS} at most.",
)
@json_option
def command(conf_dir: Path, role: Role | None, days: float, as_json: bool) -> None:
    """Show the daemon's checkpoints, uploads, failures, restarts, failovers, upgrades and set-backs.

    The running daemon reads the history from its storage directories (GET /history). Exit code 0: the daemon answers;
    7: the daemon does not answer.

    \b
    Example: checkpointer history --conf /etc/hadoop/conf --days 30
    """
    daemon = find_daemon(conf_dir, role)
    url, status, answer = ask_daemon(daemon, "GET", "history", {"days": f"{days:g}"}, _TIMEOUT)
    found = known_answer(url, status, answer, {"entries"})
    warn_of_faults(conf_dir, daemon.faults)
    if as_json:
        echo_json(found)
        return
    rows = [history_row(entry) for each in found["entries"] if (entry := as_entry(each)) is not None]
    if not rows:
        echo(f"nothing happened in the last {days:g} days")
    for line in table_lines(_COLUMNS, rows, right=[False, False, True, False], width=terminal_width()):
        echo(line)
