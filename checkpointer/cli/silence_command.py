"""`checkpointer silence`: silence a kind of alarm of the running daemon."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from checkpointer.cli.daemon_client import ask_daemon, known_answer
from checkpointer.cli.operator_login import log_in_as_operator
from checkpointer.daemon.daemon_address import candidate_urls
from checkpointer.errors import TransferError
from hadoop_common.cli.output import conf_option, echo, echo_json, json_option, load_configuration
from node_state.alarm_kinds import ALARM_KINDS
from site_config.checkpoint_config import Role

_TIMEOUT = 30.0


@click.command("silence")
@click.argument("kind", type=click.Choice([*ALARM_KINDS]), metavar="KIND")
@conf_option(required=True)
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    help="Role of the daemon (default: the configured role, then the others).",
)
@click.option(
    "--minutes", type=click.FloatRange(0, 30 * 24 * 60), default=60.0, show_default=True, help="0 ends the silence."
)
@click.option("--reason", default="", help="Why; required except to end the silence.")
@json_option
def command(kind: str, conf_dir: Path, role: str | None, minutes: float, reason: str, as_json: bool) -> None:
    """Silence the alarms of one KIND for a while: its alert rule does not fire, and everybody sees who knows of it.

    Readiness and the state of `check` stay as they are. The silence is kept over restarts. /status names the kind of
    each alarm (alarmKinds).

    \b
    Example: checkpointer silence late --conf /etc/hadoop/conf --minutes 240 --reason "NameNode is being moved"
    """
    if minutes and not reason.strip():
        raise click.UsageError("--reason is required.")
    configuration, chosen = load_configuration(conf_dir), None if role is None else Role(role)
    urls = candidate_urls(configuration, chosen)
    log_in_as_operator(configuration, chosen)
    query = {"kind": kind, "minutes": f"{minutes:g}", "reason": reason, "by": getpass.getuser()}
    url, status, answer = ask_daemon(urls, "POST", "silence", query, _TIMEOUT)
    found = known_answer(url, status, answer, {"state", "message"})
    if status != 200:
        raise TransferError(url, found["message"], status=status, hint="Correct the options and repeat the command.")
    if as_json:
        echo_json(found)
    else:
        echo(found["message"])
