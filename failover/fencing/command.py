"""Runs a command that fences: its output goes to the log, and it ends in time with all processes that it began."""

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
_MOST_LINE = 4096
_MOST_LINES = 100


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, None where it did not end or begin; `said` is why, or its last line."""

    code: int | None
    said: str = ""


def run_command(
    words: Sequence[str], *, name: str, seconds: float, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run it without standard input, in a process group of its own, which is killed after `seconds`.

    What cannot be killed is left behind.

    Args:
        name: before each line of output in the log.
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
        return Ended(None, f"it cannot be started: {fault.strerror or fault}")
    assert process.stdout is not None
    last = [""]
    reader = threading.Thread(target=_log_lines, args=(process.stdout, name, last), name="fencing-output", daemon=True)
    reader.start()
    problem = ""
    try:
        code: int | None = process.wait(seconds)
    except subprocess.TimeoutExpired:
        how = "was killed with all its processes" if _killed(process) else "could not be killed: it runs still"
        code, problem = None, f"it did not end within {seconds:g} s and {how}"
    # What it left running may keep the pipe open.
    reader.join(_LAST_OUTPUT_SECONDS)
    return Ended(code, f"{problem}; it said {last[0]}" if problem and last[0] else problem or last[0])


def _killed(process: subprocess.Popen[bytes]) -> bool:
    """Whether it is gone; one that runs as another user may not be killed, and one that waits for a disk cannot."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_SECONDS)
    return process.returncode is not None


def _log_lines(output: IO[bytes], name: str, last: list[str]) -> None:
    with output:
        for number, line in enumerate(iter(lambda: output.readline(_MOST_LINE), b"")):
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                last[0] = text
                _LOG.log(logging.INFO if number < _MOST_LINES else logging.DEBUG, "%s: %s", name, text)
