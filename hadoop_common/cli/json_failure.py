"""What `--json` prints where a command fails: one JSON object of one shape (docs/schemas/failure.json)."""

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
    """Around a command: yields what prints its failure as JSON, if it was asked for JSON and has printed none."""
    token = printed.set(False)

    def fail(failure: dict[str, Any]) -> None:
        if "--json" in sys.argv[1:] and not printed.get():
            click.echo(json.dumps(failure, sort_keys=True))

    try:
        yield fail
    finally:
        printed.reset(token)


def as_failure(error: HdfsError) -> dict[str, Any]:
    """What `--json` prints of an error (docs/schemas/failure.json); txid and file are null where none is concerned."""
    file = getattr(error, "file", "") or getattr(error, "filename", "")
    txid = getattr(error, "txid", None)
    return failure(error.message, error.exit_code, next_step=error.hint, file=str(file) if file else None, txid=txid)


def failure(
    message: str, code: int, *, next_step: str, file: str | None = None, txid: int | None = None
) -> dict[str, Any]:
    """The same of what is no error of ours."""
    return {"error": message, "code": code, "txid": txid, "file": file, "next": next_step}
