"""Panels about the process, for administrators: its configuration, and the warnings in its log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from typing import Final

from console.model import Level, Panel, cell
from console.warning_log import WarningLog
from console.words import time_text

Setting = tuple[str, str, str]

_WARNINGS: Final = WarningLog()


class _Settings:
    """Configuration keys that the process read last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: tuple[Setting, ...] = ()

    def note(self, rows: Iterable[Setting]) -> None:
        with self._lock:
            self._rows = tuple(rows)

    def rows(self) -> tuple[Setting, ...]:
        with self._lock:
            return self._rows


_SETTINGS: Final = _Settings()


def watch_settings(settings: Iterable[Setting]) -> None:
    """Record the configuration of this process (name, value, file)."""
    _SETTINGS.note(settings)


def watch_log() -> None:
    """Start to collect the warnings of this process; call this function as soon as logging is set up."""
    if _WARNINGS not in logging.getLogger().handlers:
        logging.getLogger().addHandler(_WARNINGS)


def process_panels() -> Sequence[Panel]:
    levels = {"WARNING": Level.WARNING}
    lines = _WARNINGS.lines()
    return (
        Panel(
            "log",
            "Warnings of the log",
            text="" if lines else "No warnings have been logged since the start.",
            columns=("When", "Level", "Message"),
            rows=tuple(
                (cell(time_text(line.at)), cell(line.level, levels.get(line.level, Level.FAULT)), cell(line.text))
                for line in lines
            ),
        ),
        Panel(
            "configuration",
            "Configuration",
            text="The keys that the files set, as last read, without secrets. All other keys have their defaults.",
            columns=("Key", "Value", "File"),
            rows=tuple((cell(name), cell(value), cell(source)) for name, value, source in _SETTINGS.rows()),
            folded=True,
        ),
    )
