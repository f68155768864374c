"""`checkpointer checkpoint`: ask the running daemon for a checkpoint, or to cancel one, or to save its namespace."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from checkpointer.cli.daemon_client import (
    NoAnswerError,
    ask_daemon,
    find_daemon,
    known_answer,
    role_option,
    warn_of_faults,
)
from checkpointer.daemon.daemon_address import DaemonAddresses
from checkpointer.errors import TransferError
from hadoop_common.cli.output import (
    FiniteRange,
    as_failure,
    conf_option,
    echo,
    echo_json,
    failure,
    json_option,
    next_line,
)
from hadoop_common.exit_codes import ExitCode
from hadoop_common.quantities import clock_text
from site_config.checkpoint_config import Role

_PROBE_SECONDS = 30.0
_GOOD_STATES = ("done", "skipped")
_LOG_HINT = "Check the daemon's log."


@click.command("checkpoint")
@conf_option(required=True)
@click.option("--force", is_flag=True, help="Checkpoint now if there are new edits, even if no checkpoint is due.")
@click.option(
    "--cancel", is_flag=True, help="Stop the running checkpoint or upload, and block new checkpoints for a while."
)
@click.option("--reason", default="", help="With --cancel: the reason to report to blocked requests.")
@click.option(
    "--minutes",
    type=FiniteRange(min=0, max=1440),
    default=None,
    help="With --cancel: minutes for which checkpoints are blocked (default: 2); 0 does not block them.",
)
@click.option(
    "--save-aside",
    is_flag=True,
    help="Save a standby's namespace in memory to disk, even if no NameNode runs and the edits cannot be read.",
)
@role_option()
@click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True),
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
    save_aside: bool,
    role: Role | None,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Ask the daemon of this configuration for a checkpoint and wait for the result.

    The role of the daemon determines its HTTP address: dfs.namenode.secondary.http-address for a secondary,
    dfs.namenode.backup.http-address for a backup node, and the dfs.namenode.http-address of its NameNode for a standby
    with dfs.ha.namenode.id.

    If a checkpoint is already running, the command waits for it.

    \b
    Exit codes:
      0  nothing remains to be done; with --force, a NameNode has the image
      7  the image did not reach a NameNode, or the daemon does not answer
      8  the image was made, but all NameNodes refused it, or no NameNode is active
    Any other exit code is the exit code of the daemon's error. If one NameNode has the image, the faults of other
    NameNodes are warnings. An observer does not count, because the active NameNode needs the image.

    A NameNode of Hadoop 3.3 or newer refuses an image while its last image is younger than 3/4 of
    dfs.namenode.checkpoint.period, unless at least dfs.namenode.checkpoint.txns transactions were written in between.
    The command first warns about refusals that it can predict. The result includes the time at which the NameNode
    accepts the next image.

    Healed snapshot inconsistencies are reported, one per line (--json: `healed`).

    --cancel ends the checkpoint at its next safe point. The daemon removes half-written files and keeps complete
    images. For the given time, it refuses requests for a checkpoint and reports the reason.

    --save-aside is for emergencies: the daemon neither reads edits nor asks a NameNode. It writes the image to
    not_compared/TIME in each of its storage directories and prints the paths. It neither uses nor offers this image.

    \b
    Example: checkpointer checkpoint --conf /etc/hadoop/conf --force
             checkpointer checkpoint --conf /etc/hadoop/conf --cancel --minutes 30 --reason "network maintenance"
             checkpointer checkpoint --conf /etc/hadoop/conf --save-aside
    """
    if cancel + force + save_aside > 1:
        raise click.UsageError("Only one of --cancel, --force and --save-aside can be used.")
    if not cancel and (reason or minutes is not None):
        raise click.UsageError("--reason and --minutes require --cancel.")
    daemon = find_daemon(conf_dir, role)
    path, query = "checkpoint", {"force": str(force).lower()}
    if cancel:
        path, query = "cancel", _cancel_query(reason, minutes)
    elif save_aside:
        path, query = "save-aside", {}
    try:
        refusing = _refusing(daemon, min(_PROBE_SECONDS, timeout or _PROBE_SECONDS))
        if force and not as_json:
            _forewarn(refusing)
        answer = _ask(daemon, path, query, timeout)
    except TransferError as error:
        if as_json:
            failed = {"state": "failed", "message": error.message, "hint": error.hint, "exitCode": error.exit_code}
            echo_json(failed | as_failure(error))
        raise
    warn_of_faults(conf_dir, daemon.faults)
    _report(answer, as_json=as_json)


def _cancel_query(reason: str, minutes: float | None) -> dict[str, str]:
    return ({"reason": reason} if reason else {}) | ({} if minutes is None else {"minutes": f"{minutes:g}"})


def _report(answer: dict[str, Any], *, as_json: bool) -> None:
    """Print the daemon's response, and exit with its exit code unless this code is 0."""
    code = int(answer.get("exitCode", 0 if answer["state"] in _GOOD_STATES else ExitCode.FAILURE))
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
        echo(next_line(next_step), err=True)
        sys.exit(code)


def _refusing(daemon: DaemonAddresses, limit: float) -> dict[str, float]:
    """Return the NameNodes that refuse an image now, each with the time at which it will accept an image, in seconds
    since the epoch.

    Raises:
        NoAnswerError: the daemon does not answer, so the request for a checkpoint would wait forever.
    """
    from node_state.state import NodeState, from_json

    try:
        state = from_json(NodeState, ask_daemon(daemon, "GET", "status", {}, limit)[2])
    except NoAnswerError:
        raise
    except (TransferError, ValueError):
        # the later request for a checkpoint reports a missing daemon
        return {}
    if state.cancelled is not None or not state.enabled:
        # the daemon will refuse the request for a checkpoint
        return {}
    until = {target.address: target.takes_from for target in state.targets}
    return {address: at for address, at in until.items() if at is not None and at > time.time()}


def _forewarn(refusing: dict[str, float]) -> None:
    for address, at in refusing.items():
        echo(
            f"note: until {clock_text(at, time.time())}, {address} refuses an image with few new transactions, "
            f"because its last image is recent; new edits are checkpointed anyway",
            err=True,
        )


def _ask(daemon: DaemonAddresses, path: str, query: dict[str, str], timeout: float | None) -> dict[str, Any]:
    """Return the result from the first reachable daemon.

    Raises:
        TransferError: no daemon accepts connections, or the response of a daemon is not a result.
        ConfigurationError: no daemon accepts connections, and the configuration has faults.
    """
    url, status, answer = ask_daemon(daemon, "POST", path, query, timeout)
    return known_answer(url, status, answer, {"state", "message"})
