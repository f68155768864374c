"""`checkpointer history`: show the checkpoints, failures and events of the last days."""

from __future__ import annotations

from pathlib import Path

import click

from checkpointer.cli.daemon_client import ask_daemon, known_answer
from checkpointer.cli.operator_login import log_in_as_operator
from checkpointer.daemon.daemon_address import candidate_urls
from hadoop_common.cli.output import conf_option, echo, echo_json, json_option, load_configuration, terminal_width
from hadoop_common.text_layout import table_lines
from node_state.history import KEPT_DAYS, as_entry
from node_state.history_text import history_row
from site_config.checkpoint_config import Role

_TIMEOUT = 30.0
_COLUMNS = ("time", "what", "txid", "detail")


@click.command("history")
@conf_option(required=True)
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    help="Role of the daemon (default: the configured role, then the others).",
)
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True, max=KEPT_DAYS),
    default=7.0,
    show_default=True,
    help=f"Show so many days, {KEPT_DAYS} at most.",
)
@json_option
def command(conf_dir: Path, role: str | None, days: float, as_json: bool) -> None:
    """Show what the daemon did: checkpoints, uploads, failures, restarts, failovers, upgrades and set-backs.

    The running daemon reads the history from its storage directories (GET /history). Exit code 0: the daemon answers;
    7: it does not.

    \b
    Example: checkpointer history --conf /etc/hadoop/conf --days 30
    """
    configuration, chosen = load_configuration(conf_dir), None if role is None else Role(role)
    urls = candidate_urls(configuration, chosen)
    log_in_as_operator(configuration, chosen)
    url, status, answer = ask_daemon(urls, "GET", "history", {"days": f"{days:g}"}, _TIMEOUT)
    found = known_answer(url, status, answer, {"entries"})
    if as_json:
        echo_json(found)
        return
    rows = [history_row(entry) for each in found["entries"] if (entry := as_entry(each)) is not None]
    if not rows:
        echo(f"nothing happened in the last {days:g} days")
    for line in table_lines(_COLUMNS, rows, right=[False, False, True, False], width=terminal_width()):
        echo(line)
