"""`checkpointer checkpoint`: ask the running daemon for a checkpoint, or to end the one that runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from checkpointer.cli.daemon_client import NoAnswerError, ask_daemon, known_answer
from checkpointer.cli.operator_login import log_in_as_operator
from checkpointer.daemon.daemon_address import candidate_urls
from checkpointer.errors import TransferError
from hadoop_common.cli.json_failure import as_failure, failure
from hadoop_common.cli.output import conf_option, echo, echo_json, json_option, load_configuration
from hadoop_common.errors import EXIT_FAILURE
from site_config.checkpoint_config import Role

_PROBE_SECONDS = 30.0
_GOOD_STATES = ("done", "skipped")
_LOG_HINT = "Check the daemon's log."


@click.command("checkpoint")
@conf_option(required=True)
@click.option("--force", is_flag=True, help="Checkpoint even if none is due, as long as there are new edits.")
@click.option("--cancel", is_flag=True, help="End the running checkpoint or upload, and let none start for a while.")
@click.option(
    "--reason", default="", help="With --cancel: the reason reported to anyone who requests a checkpoint meanwhile."
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, max=1440),
    default=None,
    help="With --cancel: how long none may start (default: 2); 0 allows them again at once.",
)
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    help="Role of the daemon (default: the one the configuration names, then the others).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    help="Seconds to wait for the result (default: no limit).",
)
@json_option
def command(
    conf_dir: Path,
    force: bool,
    cancel: bool,
    reason: str,
    minutes: float | None,
    role: str | None,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Ask the daemon of this configuration for a checkpoint and wait for the result.

    The daemon is asked at the HTTP address of its role: dfs.namenode.secondary.http-address, or the NameNode's own
    dfs.namenode.http-address where a standby has dfs.ha.namenode.id, or dfs.namenode.backup.http-address.

    A checkpoint that runs already is waited for. Exit code 0 means that nothing is left to do, and with --force that a
    NameNode has the image; 8 that it was made, but every NameNode refused it or none is active; 7 that it reached none,
    or that the daemon does not answer; any other is that of the fault the daemon met. Where one NameNode has the image,
    what went wrong with others is a warning.

    A NameNode of Hadoop 3.3 or newer takes no image while its last one is younger than 3/4 of
    dfs.namenode.checkpoint.period, unless it brings dfs.namenode.checkpoint.txns transactions: this is said beforehand
    where it is known, and the answer says when it takes the next one.

    Snapshot inconsistencies that were healed in the image are reported, one per line (--json: `healed`).

    --cancel ends it at its next safe point: nothing half-written stays, images that are complete do. Until the time is
    over every request for a checkpoint is refused with the reason.

    \b
    Example: checkpointer checkpoint --conf /etc/hadoop/conf --force
             checkpointer checkpoint --conf /etc/hadoop/conf --cancel --minutes 30 --reason "network maintenance"
    """
    if cancel and force:
        raise click.UsageError("--cancel and --force exclude each other.")
    if not cancel and (reason or minutes is not None):
        raise click.UsageError("--reason and --minutes go with --cancel.")
    configuration, chosen = load_configuration(conf_dir), None if role is None else Role(role)
    urls = candidate_urls(configuration, chosen)
    log_in_as_operator(configuration, chosen)
    given = {"reason": reason, "minutes": "" if minutes is None else f"{minutes:g}"}
    query = {key: value for key, value in given.items() if value} if cancel else {"force": str(force).lower()}
    try:
        refusing = _refusing(urls, min(_PROBE_SECONDS, timeout or _PROBE_SECONDS))
        if force and not as_json:
            _forewarn(refusing)
        answer = _ask(urls, "cancel" if cancel else "checkpoint", query, timeout)
    except TransferError as error:
        if as_json:
            told = {"state": "failed", "message": error.message, "hint": error.hint, "exitCode": error.exit_code}
            echo_json(told | as_failure(error))
        raise
    code = _exit_code(answer)
    next_step = answer.get("hint") or _LOG_HINT
    if as_json:
        failed = failure(answer["message"], code, next_step=next_step, txid=answer.get("txid"))
        echo_json(answer | (failed if code else {}))
    elif not code:
        echo(answer["message"])
    for warning in answer.get("warnings", ()):
        echo(f"checkpointer: warning: {warning}", err=True)
    for healed in () if as_json else answer.get("healed", ()):
        where = f"{healed['code']} at inode {healed['inode']} {healed['path']}"
        echo(f"healed: {where}: {healed['message']}", err=True)
    if code:
        echo(f"checkpointer: {answer['message']}", err=True)
        echo(f"  next: {next_step}", err=True)
        sys.exit(code)


def _exit_code(answer: dict[str, Any]) -> int:
    return int(answer.get("exitCode", 0 if answer["state"] in _GOOD_STATES else EXIT_FAILURE))


def _refusing(urls: dict[str, Role], limit: float) -> dict[str, float]:
    """The NameNodes that are known to refuse an image now, and until when, in seconds since the epoch.

    Raises:
        NoAnswerError: the daemon is frozen, so that the request would wait for ever.
    """
    from servlets.node_state import NodeState, from_json

    try:
        targets = from_json(NodeState, ask_daemon(urls, "GET", "status", {}, limit)[2]).targets
    except NoAnswerError:
        raise
    except (TransferError, ValueError):
        # whether there is a daemon is found out by the request itself
        return {}
    until = {target.address: target.takes_from for target in targets}
    return {address: at for address, at in until.items() if at is not None and at > time.time()}


def _forewarn(refusing: dict[str, float]) -> None:
    for address, at in refusing.items():
        clock = time.strftime("%H:%M:%S", time.localtime(at))
        echo(
            f"note: {address} does not accept an image with few transactions before {clock}, "
            "as its last one is recent; the checkpoint is made anyway",
            err=True,
        )


def _ask(urls: dict[str, Role], path: str, query: dict[str, str], timeout: float | None) -> dict[str, Any]:
    """The result of the first daemon that can be connected to.

    Raises:
        DaemonNotFoundError: none can.
        TransferError: one can, but what it answers is no result.
    """
    url, status, answer = ask_daemon(urls, "POST", path, query, timeout)
    return known_answer(url, status, answer, {"state", "message"})
