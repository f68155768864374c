"""`checkpointer checkpoint`: ask the running daemon for a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import requests

from checkpointer.cli.output import conf_option, echo_json, json_option, load_configuration
from checkpointer.config import CheckpointConfig, Role
from checkpointer.errors import CheckpointError, TransferError

_CONNECT_TIMEOUT = 10.0
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@click.command("checkpoint")
@conf_option(required=True)
@click.option("--force", is_flag=True, help="Checkpoint even if none is due, as long as there are new edits.")
@click.option("--timeout", type=float, default=None, help="Seconds to wait for the result (default: no limit).")
@json_option
def command(conf_dir: Path, force: bool, timeout: float | None, as_json: bool) -> None:
    """Ask the daemon of this configuration for a checkpoint and wait for the result.

    \b
    Example: checkpointer checkpoint --conf /etc/hadoop/conf --force
    """
    config = CheckpointConfig.from_configuration(load_configuration(conf_dir), Role.STANDBY)
    host, port = config.http_bind_address
    url = f"http://{_WILDCARDS.get(host, host)}:{port}/checkpoint"
    answer = _post(url, force, timeout)
    if as_json:
        echo_json(answer)
    elif answer["state"] in ("done", "skipped"):
        click.echo(answer["message"])
    if answer["state"] not in ("done", "skipped"):
        details = answer.get("details") or answer
        raise CheckpointError(answer["message"], hint=str(details.get("hint") or "See the daemon's log."))


def _post(url: str, force: bool, timeout: float | None) -> dict[str, Any]:
    try:
        response = requests.post(url, params={"force": str(force).lower()}, timeout=(_CONNECT_TIMEOUT, timeout))
        answer = response.json()
    except requests.ConnectionError as error:
        raise TransferError(
            url, f"no daemon answers: {error}", hint="Start it with `checkpointer run --conf DIR`."
        ) from error
    except requests.RequestException as error:
        raise TransferError(url, str(error), hint="See the daemon's log.") from error
    if not isinstance(answer, dict) or "state" not in answer:
        raise TransferError(url, "the answer is not a checkpoint daemon's", status=response.status_code)
    return answer
