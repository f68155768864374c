"""`checkpointer status`: the running daemon on one screen."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from checkpointer.cli.daemon_client import ask_daemon, known_answer
from checkpointer.cli.layout import terminal_width, wrapped
from checkpointer.cli.output import byte_count, conf_option, duration, echo_json, json_option, load_configuration
from checkpointer.config.checkpoint_config import Role
from checkpointer.config.daemon_address import candidate_urls
from checkpointer.errors import TransferError

_TIMEOUT = 30.0
_EVERY = 2.0
_LABEL = 16


@click.command("status")
@conf_option(required=True)
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    help="Role of the daemon (default: the one the configuration names, then the others).",
)
@click.option(
    "--watch",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=_EVERY,
    metavar="[SECONDS]",
    help=f"Show it again every so many seconds ({_EVERY:g} by default), until interrupted.",
)
@json_option
def command(conf_dir: Path, role: str | None, watch: float | None, as_json: bool) -> None:
    """Show what the daemon of this configuration does, when it last made a checkpoint and who has it, on one screen.

    It is what GET /status and /health/ready answer; --json prints the former with `url` and `ready`. Exit code 0:
    the daemon answers, ready or not; 7: it does not. `checkpointer check` judges.

    \b
    Example: checkpointer status --conf /etc/hadoop/conf --watch
    """
    if as_json and watch is not None:
        raise click.UsageError("--watch is for reading; ask for --json as often as you need it.")
    urls = candidate_urls(load_configuration(conf_dir), None if role is None else Role(role))
    while True:
        try:
            state = _ask(urls)
            if as_json:
                echo_json(state)
                return
            shown = "\n".join(_lines(state, time.time()))
        except TransferError as error:
            if watch is None:
                raise
            shown = error.message
        if watch is not None and sys.stdout.isatty():
            click.clear()
        click.echo(shown)
        if watch is None:
            return
        time.sleep(watch)


def _ask(urls: dict[str, Role]) -> dict[str, Any]:
    """The daemon's state, and with it where it is and whether it is ready.

    Raises:
        TransferError: it does not answer.
    """
    url, status, answer = ask_daemon(urls, "GET", "status", {}, _TIMEOUT)
    state = known_answer(url, status, answer, {"role", "phase", "alarms"})
    base = url.removesuffix("/status")
    ready = ask_daemon({base: Role(state["role"])}, "GET", "health/ready", {}, _TIMEOUT)
    return {**state, "url": base, "ready": ready[1] == 200}


def _lines(state: dict[str, Any], now: float) -> Iterator[str]:
    """One fact a line."""
    ready = "ready" if state["ready"] else "NOT READY"
    yield f"{state['role']} at {state['url']}, {ready}, {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))}"
    width = terminal_width()
    for label, text in _facts(state, now):
        yield from wrapped(f"{label:<{_LABEL}}", text, width)


def _facts(state: dict[str, Any], now: float) -> Iterator[tuple[str, str]]:
    yield "phase", str(state["phase"])
    if state.get("cancelled"):
        stop = state["cancelled"]
        yield "cancelled", f"none may begin for {duration(stop['secondsLeft'])}: {stop['reason']}"
    yield "image", _image(state, now)
    yield "edits", _edits(state)
    if state.get("lastSeconds"):
        yield "last took", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in state["lastSeconds"].items())
    yield "since its start", f"{state.get('checkpoints') or 0} checkpoints, {state.get('failures') or 0} failures"
    for target in state.get("targets") or ():
        yield "NameNode", _target(target, now)
    for path, what in (state.get("storage") or {}).items():
        yield "storage", f"{path}: {what}"
    for node in state.get("journalNodes") or ():
        yield "JournalNode", f"{node['address']}: " + (node.get("fault") or "answers")
    for alarm in state["alarms"] or ["none"]:
        yield "alarm", alarm
    if state.get("error"):
        yield "error", state["error"]
    if state.get("lastError"):
        yield "last error", f"{state['lastError']} ({_ago(state.get('lastErrorAt'), now)})"


def _image(state: dict[str, Any], now: float) -> str:
    txid = state.get("imageTxid")
    parts = ["none" if txid == -1 else "not known" if txid is None else f"txid {txid}"]
    if state.get("savedAt") is not None:
        parts.append(f"made {_ago(state['savedAt'], now)} ({state.get('lastReason')})")
        if state.get("imageBytes"):
            parts.append(byte_count(state["imageBytes"]))
    return ", ".join(parts)


def _edits(state: dict[str, Any]) -> str:
    behind, journal = state.get("transactionsBehind"), state.get("journalTxid")
    if behind is None or journal is None:
        return "not known"
    return f"{behind} transactions are in no image; the newest is {journal}"


def _target(target: dict[str, Any], now: float) -> str:
    parts = [f"{target['address']}: {target['result']}"]
    if (target.get("txid") or -1) >= 0:
        parts.append(f"has txid {target['txid']}")
    if target.get("at") is not None:
        parts.append(_ago(target["at"], now))
    if target.get("error"):
        parts.append(target["error"])
    return ", ".join(parts)


def _ago(at: float | None, now: float) -> str:
    return "never" if at is None else f"{duration(now - at)} ago"
