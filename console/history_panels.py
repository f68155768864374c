"""Panels of the history: charts of checkpoints over time, and a table of the latest events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from console.charts import ChartBar, ChartEvent, bar_chart
from console.model import Level, PageCell, Panel, cell
from console.words import count_text, time_text
from hadoop_common.quantities import counted, duration
from hadoop_common.text_layout import byte_count
from node_state.history import CHECKPOINT, EVENTS, FAILURE, UPLOAD, HistoryEntry
from node_state.history_text import entry_detail

_PHASES: Final = ("fetch", "load", "replay", "save", "upload")
_MAX_BARS: Final = 120
_MAX_ROWS: Final = 200
_OVERVIEW_BARS: Final = 60


class HistoryPanels:
    """Panels of a daemon's history; `entries` returns its entries, the oldest first."""

    def __init__(self, entries: Callable[[], Sequence[HistoryEntry]]) -> None:
        self._entries = entries

    def overview(self) -> Sequence[Panel]:
        """Return the durations of the latest checkpoints, with a link to all charts; nothing if there are no
        checkpoints.
        """
        entries = self._entries()
        made = [each for each in entries if each.kind == CHECKPOINT][-_OVERVIEW_BARS:]
        if not made:
            return ()
        shown = [each for each in entries if each.at >= made[0].at]
        link = (("console/charts", "Sizes, transactions, failures and events of the last 90 days"),)
        return (
            Panel("checkpoints", "Checkpoints over time", svg=(_durations(shown, self._end(entries)),), links=link),
        )

    def page(self) -> Sequence[Panel]:
        """Return all charts and the latest entries."""
        entries = self._entries()
        if not entries:
            return (Panel("history", "History", text="Nothing has happened yet."),)
        now = self._end(entries)
        charts = (_durations(entries, now), *_sizes(entries, now))
        columns = ("When", "What", "Transaction", "Detail")
        rows = tuple(map(_row, list(entries)[: -_MAX_ROWS - 1 : -1]))
        return (
            Panel("charts", "The last 90 days", svg=charts),
            Panel("latest", "Latest events", columns=columns, rows=rows),
        )

    def _end(self, entries: Sequence[HistoryEntry]) -> float:
        """Return the end of the charts: now, or the last entry's time if the clock was set back after this entry."""
        return max(time.time(), entries[-1].at)


def _durations(entries: Sequence[HistoryEntry], now: float) -> str:
    slices = list(_slices(entries, now))
    bars = [
        ChartBar(
            at, tuple(_seconds(longest).get(phase, 0.0) for phase in _PHASES), failures > 0, _words(longest, failures)
        )
        for at, longest, failures in slices
    ]
    return _chart("Duration of checkpoints", bars, _PHASES, entries, now, duration)


def _sizes(entries: Sequence[HistoryEntry], now: float) -> Iterator[str]:
    slices = list(_slices(entries, now))
    for key, title, label in (
        ("size", "Size of the image", byte_count),
        ("transactions", "Transactions merged", lambda value: f"{value:,.0f}"),
    ):
        bars = [ChartBar(at, (float(getattr(each, key) or 0),), False, _words(each, 0)) for at, each, _ in slices]
        yield _chart(title, bars, (title,), entries, now, label)


def _chart(
    title: str,
    bars: Sequence[ChartBar],
    series: Sequence[str],
    entries: Sequence[HistoryEntry],
    now: float,
    label: Callable[[float], str],
) -> str:
    events = [ChartEvent(e.at, f"{time_text(e.at)}: {e.text}") for e in entries if e.kind in EVENTS]
    since = entries[0].at if entries else now
    when = time_text
    return bar_chart(title, bars, series, since=since, until=now, label=label, when=when, events=events[-_MAX_BARS:])


def _slices(entries: Sequence[HistoryEntry], now: float) -> Iterator[tuple[float, HistoryEntry, int]]:
    """Yield the time, longest entry and failure count of each non-empty slice, for at most `_MAX_BARS` slices."""
    since = entries[0].at if entries else now
    span = max(now - since, 1.0)
    found: dict[int, list[HistoryEntry]] = {}
    made = [each for each in entries if each.kind in (CHECKPOINT, FAILURE) or _is_failed_upload(each)]
    for position, each in enumerate(made):
        few = len(made) <= _MAX_BARS
        found.setdefault(position if few else int((each.at - since) / span * (_MAX_BARS - 1)), []).append(each)
    for part in found.values():
        longest = max(part, key=lambda each: sum(_seconds(each).values()))
        yield longest.at, longest, sum(each.kind != CHECKPOINT for each in part)


def _is_failed_upload(entry: HistoryEntry) -> bool:
    return entry.kind == UPLOAD and not entry.text.isupper()


def _seconds(entry: HistoryEntry) -> Mapping[str, float]:
    return entry.seconds if entry.kind == CHECKPOINT else {}


def _words(entry: HistoryEntry, failures: int) -> str:
    failed = f", {counted(failures, 'failure')}" if failures else ""
    return f"{time_text(entry.at)}: {entry_detail(entry)}{failed}"


def _row(entry: HistoryEntry) -> tuple[PageCell, ...]:
    failed = entry.kind == FAILURE or _is_failed_upload(entry)
    level = Level.FAULT if failed else Level.GOOD if entry.kind == CHECKPOINT else Level.NEUTRAL
    txid = entry.txid
    return (
        cell(time_text(entry.at)),
        cell(entry.kind, level),
        cell(None if txid is None or txid < 0 else count_text(txid)),
        cell(entry_detail(entry)),
    )
