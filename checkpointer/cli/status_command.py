"""`checkpointer status`: show the state of the running daemon on one screen."""

from __future__ import annotations

import sys
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click

from checkpointer.cli.daemon_client import (
    ask_daemon,
    find_again,
    find_daemon,
    known_answer,
    role_option,
    warn_of_faults,
)
from checkpointer.daemon.daemon_address import DaemonAddresses
from hadoop_common.cli.output import FiniteRange, conf_option, echo, echo_json, json_option, terminal_width
from hadoop_common.errors import HdfsError
from node_state.text import status_lines
from site_config.checkpoint_config import Role

_TIMEOUT = 10.0
_EVERY = 2.0


@click.command("status")
@conf_option(required=True)
@role_option()
@click.option(
    "--watch",
    type=FiniteRange(min=0.1),
    is_flag=False,
    flag_value=_EVERY,
    metavar="[SECONDS]",
    help=f"Refresh at this interval ({_EVERY:g} seconds by default), until interrupted.",
)
@json_option
def command(conf_dir: Path, role: Role | None, watch: float | None, as_json: bool) -> None:
    """Show the daemon's state, its last checkpoint, and the NameNodes that have that checkpoint, on one screen.

    The values come from GET /status and GET /health/ready. --json prints the response of /status with `url`, `ready`
    and `configurationFaults` added. The command warns if the configuration is faulty, which does not affect a running
    daemon before its next restart. `checkpointer check` evaluates the state.

    \b
    Exit codes:
      0  the daemon answers, ready or not, even if the configuration is faulty
      2  no daemon answers, and the configuration is faulty or does not contain the daemon's address
      7  the daemon does not answer

    \b
    Example: checkpointer status --conf /etc/hadoop/conf --watch
    """
    if as_json and watch is not None:
        raise click.UsageError("--watch and --json cannot be used together: repeat the command with --json instead.")
    daemon = find_daemon(conf_dir, role)
    while True:
        try:
            state = _ask(daemon)
            if as_json:
                warn_of_faults(conf_dir, daemon.faults)
                echo_json(state)
                return
            shown, faults = list(status_lines(state, time.time(), terminal_width())), daemon.faults
        except HdfsError as error:
            if watch is None:
                raise
            # the message contains the faults
            shown, faults = error.message.splitlines(), ()
        if watch is not None and sys.stdout.isatty():
            click.clear()
        for line in shown:
            echo(line)
        warn_of_faults(conf_dir, faults)
        if watch is None:
            return
        time.sleep(watch)
        # the configuration may have been repaired
        daemon = find_again(daemon, conf_dir, role)


def _ask(daemon: DaemonAddresses) -> dict[str, Any]:
    """Return the daemon's state, with its URL, its readiness and the faults of the configuration added.

    Raises:
        TransferError: the daemon does not answer.
        ConfigurationError: no daemon accepts connections, and the configuration has faults.
    """
    url, status, answer = ask_daemon(daemon, "GET", "status", {}, _TIMEOUT)
    state = known_answer(url, status, answer, {"role", "phase", "alarms"})
    base = url.removesuffix("/status")
    answering = DaemonAddresses({base: Role(state["role"])})
    ready = ask_daemon(answering, "GET", "health/ready", {}, _TIMEOUT)[1] == HTTPStatus.OK
    return {**state, "url": base, "ready": ready, "configurationFaults": [each.as_dict() for each in daemon.faults]}
