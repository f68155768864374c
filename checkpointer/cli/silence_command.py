"""`checkpointer silence`: silence a kind of alarm. `checkpointer acknowledge` shares parts of this module."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from checkpointer.cli.daemon_client import ask_daemon, find_daemon, known_answer, role_option, warn_of_faults
from checkpointer.errors import TransferError
from hadoop_common.cli.output import FiniteRange, conf_option, echo, echo_json, json_option
from hadoop_common.process_user import process_user
from node_state.alarm_kinds import ALARM_KINDS
from site_config.checkpoint_config import Role

_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class MarkedKind:
    """The kind of alarm that a command marks, and the daemon that reports it."""

    kind: str
    conf_dir: Path
    role: Role | None
    as_json: bool


def marking_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add KIND, --conf, --role and --json, which `function` receives as one value."""

    @functools.wraps(function)
    def with_kind(kind: str, conf_dir: Path, role: Role | None, as_json: bool, **given: Any) -> None:
        function(MarkedKind(kind, conf_dir, role, as_json), **given)

    kind = click.argument("kind", type=click.Choice([*ALARM_KINDS]), metavar="KIND")
    return kind(conf_option(required=True)(role_option()(json_option(with_kind))))


@click.command("silence")
@marking_options
@click.option(
    "--minutes",
    type=FiniteRange(0, 30 * 24 * 60),
    default=60.0,
    show_default=True,
    help="Duration; 0 ends the silence.",
)
@click.option("--reason", default="", help="The reason; required except to end the silence.")
def command(marked: MarkedKind, minutes: float, reason: str) -> None:
    """Silence the alarms of one KIND for a while; every reader sees who requested the silence.

    During the silence, the alert rule of this kind does not fire. A silence does not affect readiness or the result of
    `check`. The silence survives restarts. /status contains the kind of each alarm (alarmKinds).

    \b
    Example: checkpointer silence late --conf /etc/hadoop/conf --minutes 240 --reason "NameNode is being moved"
    """
    mark_alarms("silence", marked, minutes, reason)


def mark_alarms(path: str, marked: MarkedKind, minutes: float | None, reason: str) -> None:
    """Request a mark with a POST request to the daemon's `path`, and print the response.

    Args:
        minutes: duration of the mark; None means the daemon's default.
    """
    if minutes != 0 and not reason.strip():
        raise click.UsageError("--reason is required.")
    daemon = find_daemon(marked.conf_dir, marked.role)
    query = {"kind": marked.kind, "reason": reason, "by": process_user()}
    if minutes is not None:
        query["minutes"] = f"{minutes:g}"
    url, status, answer = ask_daemon(daemon, "POST", path, query, _TIMEOUT)
    found = known_answer(url, status, answer, {"state", "message"})
    if status != 200:
        raise TransferError(url, found["message"], status=status, hint="Correct the options, and repeat the command.")
    warn_of_faults(marked.conf_dir, daemon.faults)
    if marked.as_json:
        echo_json(found)
    else:
        echo(found["message"])
