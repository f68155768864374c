"""`checkpointer status`: show the state of the running daemon on one screen."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from checkpointer.cli.daemon_client import ask_daemon, daemon_urls, known_answer, role_option
from checkpointer.errors import TransferError
from hadoop_common.cli.output import FiniteRange, conf_option, echo, echo_json, json_option, terminal_width
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

    The values come from GET /status and GET /health/ready. --json prints the response of /status with `url` and `ready`
    added. Exit code 0: the daemon answers, ready or not; 7: it does not answer. `checkpointer check` evaluates the
    state.

    \b
    Example: checkpointer status --conf /etc/hadoop/conf --watch
    """
    if as_json and watch is not None:
        raise click.UsageError("--watch shows a screen; repeat the command with --json instead.")
    urls = daemon_urls(conf_dir, role)
    while True:
        try:
            state = _ask(urls)
            if as_json:
                echo_json(state)
                return
            shown = list(status_lines(state, time.time(), terminal_width()))
        except TransferError as error:
            if watch is None:
                raise
            shown = error.message.splitlines()
        if watch is not None and sys.stdout.isatty():
            click.clear()
        for line in shown:
            echo(line)
        if watch is None:
            return
        time.sleep(watch)


def _ask(urls: dict[str, Role]) -> dict[str, Any]:
    """Return the daemon's state, with its URL and its readiness added.

    Raises:
        TransferError: the daemon does not answer.
    """
    url, status, answer = ask_daemon(urls, "GET", "status", {}, _TIMEOUT)
    state = known_answer(url, status, answer, {"role", "phase", "alarms"})
    base = url.removesuffix("/status")
    ready = ask_daemon({base: Role(state["role"])}, "GET", "health/ready", {}, _TIMEOUT)
    return {**state, "url": base, "ready": ready[1] == 200}
