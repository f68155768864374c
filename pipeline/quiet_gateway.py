"""Keeps out of the log what py4j says of its own connections to Java: the error that follows says it in one line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet_gateway"]

_MODULES = frozenset({"java_gateway", "clientserver"})
"""Modules of py4j that log some of their tracebacks as the root logger."""


@contextmanager
def quiet_gateway() -> Iterator[None]:
    """No tracebacks of an interrupt, or of a Java that has ended, while this lasts."""

    def of_others(record: logging.LogRecord) -> bool:
        return record.module not in _MODULES

    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    level = py4j.level
    root.addFilter(of_others)
    py4j.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        py4j.setLevel(level)
        root.removeFilter(of_others)
