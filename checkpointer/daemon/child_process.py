"""The end of a process that a daemon started in a session of its own."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from typing import Any

_LOG = logging.getLogger(__name__)
_GRACE_SECONDS = 10.0


def end_process_group(child: subprocess.Popen[Any], what: str) -> None:
    """End a process and its children, first by SIGTERM; `what` names it in the log."""
    _signal(child, signal.SIGTERM)
    try:
        child.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _LOG.warning("%s does not end and is killed", what)
    _signal(child, signal.SIGKILL)


def _signal(child: subprocess.Popen[Any], number: signal.Signals) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return  # all of them have ended
