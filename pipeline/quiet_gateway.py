"""Keeps out of the log what py4j says of its own connections to Java: the error that follows says it in one line."""

from __future__ import annotations

import logging

_MODULES = frozenset({"java_gateway", "clientserver"})
"""Modules of py4j that log some of their tracebacks as the root logger."""


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.module not in _MODULES


def quiet_gateway() -> None:
    """No tracebacks of an interrupt, or of a Java that has ended, from here on.

    For good: Python frees objects of a Java that has gone whenever it likes, and py4j logs each that it cannot reach.
    """
    logging.getLogger().addFilter(_is_of_others)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
