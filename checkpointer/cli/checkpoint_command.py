"""`checkpointer checkpoint`: ask the running daemon for a checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import requests

from checkpointer.cli.output import conf_option, echo_json, json_option, load_configuration
from checkpointer.config import CheckpointConfig, Role
from checkpointer.errors import TransferError
from hadoop_common.errors import EXIT_FAILURE, EXIT_TRANSFER

_CONNECT_TIMEOUT = 10.0
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
_GOOD_STATES = ("done", "skipped")
_LOG_HINT = "Look into the daemon's log."


@click.command("checkpoint")
@conf_option(required=True)
@click.option("--force", is_flag=True, help="Checkpoint even if none is due, as long as there are new edits.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    help="Seconds to wait for the result (default: no limit).",
)
@json_option
def command(conf_dir: Path, force: bool, timeout: float | None, as_json: bool) -> None:
    """Ask the daemon of this configuration for a checkpoint and wait for the result.

    One that runs already is waited for. Exit code 0 means that nothing is left to do, 7 that the daemon does not
    answer or that an image could not be uploaded, any other is that of the fault the daemon met.

    \b
    Example: checkpointer checkpoint --conf /etc/hadoop/conf --force
    """
    config = CheckpointConfig.from_configuration(load_configuration(conf_dir), Role.STANDBY)
    try:
        answer = _post(_url(*config.http_bind_address), force, timeout)
    except TransferError as error:
        if as_json:
            echo_json({"state": "failed", "message": error.message, "hint": error.hint, "exitCode": error.exit_code})
        raise
    code = _exit_code(answer)
    if as_json:
        echo_json(answer)
    elif answer["state"] in _GOOD_STATES:
        click.echo(answer["message"])
    if code:
        _tell(answer)
        sys.exit(code)


def _exit_code(answer: dict[str, Any]) -> int:
    if answer["state"] not in _GOOD_STATES:
        return int(answer.get("exitCode", EXIT_FAILURE))
    return EXIT_TRANSFER if answer.get("uploadErrors") else 0


def _tell(answer: dict[str, Any]) -> None:
    """What went wrong, and what to do next, in the words of the daemon."""
    if answer["state"] in _GOOD_STATES:
        for address, error in answer["uploadErrors"].items():
            click.echo(f"checkpointer: upload to {address} failed: {error}", err=True)
        click.echo("  next: The daemon offers the image again by itself; check that NameNode meanwhile.", err=True)
        return
    click.echo(f"checkpointer: {answer['message']}", err=True)
    click.echo(f"  next: {answer.get('hint') or _LOG_HINT}", err=True)


def _url(host: str, port: int) -> str:
    host = _LOOPBACK.get(host, host)
    return f"http://[{host}]:{port}/checkpoint" if ":" in host else f"http://{host}:{port}/checkpoint"


def _post(url: str, force: bool, timeout: float | None) -> dict[str, Any]:
    try:
        with requests.Session() as session:
            # The daemon is on this cluster: proxies and .netrc of the environment are for other traffic.
            session.trust_env = False
            wait = (_CONNECT_TIMEOUT, timeout)
            response = session.post(url, params={"force": str(force).lower()}, timeout=wait)
            answer = response.json()
    except requests.ReadTimeout as error:
        raise TransferError(
            url, f"no result within {timeout:g} s", hint="The daemon goes on; see its /status."
        ) from error
    except requests.ConnectionError as error:
        raise TransferError(url, "no daemon answers", hint="Start it with `checkpointer run --conf DIR`.") from error
    except requests.RequestException as error:
        raise TransferError(url, f"the answer is not a checkpoint daemon's: {error}", hint=_LOG_HINT) from error
    if not isinstance(answer, dict) or not {"state", "message"} <= answer.keys():
        raise TransferError(
            url,
            "the answer is not a checkpoint daemon's",
            status=response.status_code,
            hint="Check which process listens there.",
        )
    return answer
