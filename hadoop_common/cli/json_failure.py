"""JSON object that `--json` prints when a command fails (docs/schemas/failure.json)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import click

from hadoop_common.errors import HdfsError

printed: ContextVar[bool] = ContextVar("printed", default=False)
"""Whether this command has printed its JSON object."""


@contextmanager
def one_object() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that prints the failure of the command inside as JSON.

    The function prints nothing unless `--json` was given, or if the command has already printed its object.
    """
    token = printed.set(False)

    def fail(failure: dict[str, Any]) -> None:
        if "--json" in sys.argv[1:] and not printed.get():
            click.echo(json.dumps(failure, sort_keys=True))

    try:
        yield fail
    finally:
        printed.reset(token)


def as_failure(error: HdfsError) -> dict[str, Any]:
    """Return the JSON of an error; txid and file are null if the error concerns none."""
    file = getattr(error, "file", "") or getattr(error, "filename", "")
    txid = getattr(error, "txid", None)
    return failure(error.message, error.exit_code, next_step=error.hint, file=str(file) if file else None, txid=txid)


def failure(
    message: str, code: int, *, next_step: str, file: str | None = None, txid: int | None = None
) -> dict[str, Any]:
    """Return the JSON of a failure that is not one of our errors."""
    return {"error": message, "code": code, "txid": txid, "file": file, "next": next_step}
