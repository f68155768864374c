"""Termination of a child process and all its children."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any

_LOG = logging.getLogger(__name__)
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.02


def end_process_group(child: subprocess.Popen[Any], what: str) -> None:
    """End a process that leads a session, and its children, starting with SIGTERM.

    `what` names the process in the log.
    """
    signal_group(child, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    while _group_exists(child):
        if time.monotonic() >= deadline:
            _LOG.warning("%s does not end and is killed", what)
            signal_group(child, signal.SIGKILL)
            return
        time.sleep(_POLL_SECONDS)


def _group_exists(child: subprocess.Popen[Any]) -> bool:
    if child.poll() is not None:
        # a daemon that is process 1 of a container inherits the children
        with suppress(ChildProcessError):
            os.waitpid(-child.pid, os.WNOHANG)
    return signal_group(child, 0)


def signal_group(child: subprocess.Popen[Any], number: int) -> bool:
    """Send a signal to the group of a process; return whether the group exists."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return False
    return True
