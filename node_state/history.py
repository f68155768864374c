"""History of a daemon: checkpoints, uploads, failures and events as values, each of which is stored as a line of JSON.

This module performs no I/O; `checkpointer.daemon.history_file` stores the lines.
"""

from __future__ import annotations

import json
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from node_state.state import as_json, from_json

KEPT_DAYS: Final = 90
_DAY: Final = 86_400.0
_MAX_TEXT: Final = 500
# seconds since the epoch, in the year 5138
_MAX_TIME: Final = 1e11
_MAX_NUMBER: Final = 2**63

CHECKPOINT: Final = "checkpoint"
UPLOAD: Final = "upload"
FAILURE: Final = "failure"
RECOVERY: Final = "recovery"
RESTART: Final = "restart"
FAILOVER: Final = "failover"
UPGRADE: Final = "upgrade"
SET_BACK: Final = "set-back"
COMPARISON: Final = "comparison"
# results of a comparison
EQUAL: Final = "equal"
DIFFERENT: Final = "different"
EVENTS: Final = (RESTART, FAILOVER, UPGRADE, SET_BACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One line of the history; fields that do not apply to its kind keep their defaults.

    Attributes:
        at: end of the recorded event, in seconds since the epoch.
        text: the fault or the event, in one sentence.
        transactions: number of transactions that a checkpoint merged.
        latency: seconds from the trigger of a checkpoint until its image was complete. `seconds` are its durations by
            phase.
        size: size of the image or the upload, in bytes.
    """

    at: float
    kind: str
    text: str = ""
    txid: int | None = None
    transactions: int | None = None
    size: int | None = None
    reason: str = ""
    target: str = ""
    latency: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryMark:
    """Values of a state, which polls compare to detect events; None means unknown.

    Attributes:
        active: address of the active NameNode.
        layout: layout version and cTime of the storage.
        lost_past: time in seconds since the epoch when files of a lost past were last set aside, and the reason.
    """

    active: str | None = None
    layout: tuple[int, int] | None = None
    lost_past: tuple[float, str] | None = None


def events_between(before: HistoryMark, after: HistoryMark, at: float) -> Iterator[HistoryEntry]:
    """Yield the events between two marks; `at` is in seconds since the epoch."""
    if before.active and after.active and before.active != after.active:
        text = f"{after.active} became active instead of {before.active}"
        yield HistoryEntry(at=at, kind=FAILOVER, text=text, target=after.active)
    if before.layout and after.layout and before.layout != after.layout:
        (old, then), (new, now) = before.layout, after.layout
        text = f"layout {old} became {new}, cTime {then} became {now}"
        yield HistoryEntry(at=at, kind=UPGRADE, text=text)
    if after.lost_past and after.lost_past != before.lost_past:
        # the newest image may become older for other reasons, for example because a directory failed
        yield HistoryEntry(
            at=at, kind=SET_BACK, text=f"this node set its state aside and started over: {after.lost_past[1]}"
        )


def known(before: HistoryMark, after: HistoryMark) -> HistoryMark:
    """Return `after` with the known values of `before` in place of unknown values."""
    return HistoryMark(
        after.active or before.active, after.layout or before.layout, after.lost_past or before.lost_past
    )


def as_line(entry: HistoryEntry) -> bytes:
    """Return the line of an entry with its line break; omit fields with default values.

    Raises:
        TypeError: a value is neither a JSON value nor an integer of another library.
    """
    values = {name: value for name, value in as_json(entry).items() if value not in (None, "", {})}
    if "text" in values:
        values["text"] = values["text"][:_MAX_TEXT]
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=operator.index)
    return text.encode("utf-8", "replace") + b"\n"


def read_line(line: bytes) -> HistoryEntry | None:
    """Return the entry in a complete line, or None for a torn, foreign or damaged line."""
    try:
        return as_entry(json.loads(line))
    except (ValueError, RecursionError):
        return None


def as_entry(values: Any) -> HistoryEntry | None:
    """Convert JSON to an entry; return None if it is not an entry or contains an impossible number."""
    try:
        entry = from_json(HistoryEntry, values)
    except ValueError:
        return None
    numbers = (entry.txid, entry.transactions, entry.size, entry.latency, *entry.seconds.values())
    real = 0 <= entry.at < _MAX_TIME and all(abs(each) < _MAX_NUMBER for each in numbers if each is not None)
    return entry if real else None


def recent(entries: Sequence[HistoryEntry], now: float, days: float = KEPT_DAYS) -> Sequence[HistoryEntry]:
    """Return the entries of the last `days`, without entries from the future; `entries` begins with the oldest."""
    # a clock may have been set back slightly
    first, end = bisect_left(entries, now - days * _DAY, key=_time), bisect_right(entries, now + _DAY, key=_time)
    return entries[first:end]


def _time(entry: HistoryEntry) -> float:
    return entry.at
