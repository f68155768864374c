"""Suppresses py4j's log messages on its connections to Java; the error that follows reports the cause in one line."""

from __future__ import annotations

import logging

_MODULES = frozenset({"java_gateway", "clientserver"})
"""Modules of py4j that log some tracebacks with the root logger."""


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.module not in _MODULES


def suppress_py4j_logs() -> None:
    """Suppress py4j's tracebacks of interrupts and of a JVM that has ended, for the rest of the process.

    The suppression stays, because Python frees objects of an ended JVM at any time, and py4j logs each failure.
    """
    logging.getLogger().addFilter(_is_of_others)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
