"""Runs the `checkpointer` command in this process, as a shell would run it."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import os
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from checkpointer.cli import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def run_cli(*arguments: str | Path) -> Outcome:
    # a text stream over a byte stream, like a program's standard output
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", newline=""), io.StringIO()
    code = 0
    # commands that write private files change the mask of their process
    mask = os.umask(0o022)
    os.umask(mask)
    with (
        mock.patch.object(sys, "argv", ["checkpointer", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as leave:
            code = int(leave.code or 0)
        finally:
            # a service limits the time of its shutdown
            faulthandler.cancel_dump_traceback_later()
            os.umask(mask)
    out.seek(0)
    return Outcome(code, out.read(), err.getvalue())


def fingerprint(directory: Path) -> dict[str, str]:
    """Return the digest of every file below `directory`."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
