"""Runs a fencing command, logs its output, and kills it with all its processes after a timeout."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

_LOG = logging.getLogger(__name__)

_LAST_OUTPUT_SECONDS = 1.0
_KILLED_SECONDS = 5.0
_MAX_LINE_BYTES = 4096
_MAX_LOGGED_LINES = 100


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command. `code` is None if the command did not start or end; `reason` explains why, or else contains
    the last line of output.
    """

    code: int | None
    reason: str = ""


def run_command(
    words: Sequence[str], *, name: str, seconds: float, environment: Mapping[str, str] | None = None
) -> CommandResult:
    """Run a command without standard input in a separate process group, and kill the group after `seconds`.

    Processes that cannot be killed are abandoned.

    Args:
        name: prefix of the command's output in the log.
    """
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    except OSError as fault:
        return CommandResult(None, f"it cannot be started: {fault.strerror or fault}")
    assert process.stdout is not None
    last = [""]
    reader = threading.Thread(target=_log_lines, args=(process.stdout, name, last), name="fencing-output", daemon=True)
    reader.start()
    problem = ""
    try:
        code: int | None = process.wait(seconds)
    except subprocess.TimeoutExpired:
        how = "was killed with all its processes" if _killed(process) else "could not be killed: it is still running"
        code, problem = None, f"it did not end within {seconds:g} s and {how}"
    # Abandoned processes may keep the pipe open.
    reader.join(_LAST_OUTPUT_SECONDS)
    return CommandResult(
        code, f"{problem}; its last output is {last[0]}" if problem and last[0] else problem or last[0]
    )


def _killed(process: subprocess.Popen[bytes]) -> bool:
    """Kill the process group; return whether it ended. Processes of another user, and processes that wait for a disk,
    survive.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_SECONDS)
    return process.returncode is not None


def _log_lines(output: IO[bytes], name: str, last: list[str]) -> None:
    with output:
        for number, line in enumerate(iter(lambda: output.readline(_MAX_LINE_BYTES), b"")):
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                last[0] = text
                _LOG.log(logging.INFO if number < _MAX_LOGGED_LINES else logging.DEBUG, "%s: %s", name, text)
