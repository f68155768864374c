"""The page of the checks, with the verdicts of `checkpointer check`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from console.background import BackgroundResult, BackgroundWork
from console.model import Level, Panel, cell
from hadoop_common.quantities import ago_text

SECONDS: Final = 60.0

_LEVELS: Final = {"OK": Level.GOOD, "WARNING": Level.WARNING, "CRITICAL": Level.FAULT, "UNKNOWN": Level.WARNING}


@dataclass(frozen=True, slots=True)
class CheckRow:
    """The outcome of a check: `state` is OK, WARNING, CRITICAL or UNKNOWN."""

    name: str
    state: str
    summary: str
    details: Sequence[str] = ()
    hint: str = ""


class CheckPage:
    """Page of the checks; while a browser shows it, the checks run in the background, at most once a minute."""

    def __init__(self, run: Callable[[], Sequence[CheckRow]]) -> None:
        self._work = BackgroundWork("checks", run, SECONDS)

    def panels(self) -> Sequence[Panel]:
        result = self._work.result()
        if result.at is None:
            return (
                Panel("checks", "Checks", text="The checks are running; this page shows their results when they end."),
            )
        return (check_panel("checks", "Checks", result, "; the `storage` check, which reads whole images, is omitted"),)


def check_panel(name: str, title: str, result: BackgroundResult[Sequence[CheckRow]], note: str = "") -> Panel:
    decided_text = f"Result of `checkpointer check` {ago_text(result.at, time.time())}{note}."
    rows = tuple(
        (
            cell(each.name),
            cell(each.state, _LEVELS.get(each.state, Level.WARNING)),
            cell("; ".join((each.summary, *(each.details if each.state != "OK" else ())))),
            cell(each.hint),
        )
        for each in result.value or ()
    )
    columns = ("Check", "State", "Summary", "Next step")
    return Panel(name, title, text=result.fault or decided_text, columns=columns, rows=rows)
