"""Evaluates a history's comparisons in shadow mode, for /status, alarms and the weekly summary."""

from __future__ import annotations

from collections.abc import Iterable

from hadoop_common.quantities import counted
from node_state.history import COMPARISON, DIFFERENT, EQUAL, SET_BACK, HistoryEntry
from node_state.state import ShadowState

_WEEK_SECONDS = 7 * 86_400.0


def comparisons(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """Return the comparisons in the entries of a history, in the same order."""
    return [each for each in entries if each.kind == COMPARISON]


def last_compared(entries: Iterable[HistoryEntry]) -> int:
    """Return the transaction of the last comparison since the NameNode was last set back, or -1 if there was none."""
    last = -1
    for each in entries:
        if each.kind == SET_BACK:
            last = -1
        elif each.kind == COMPARISON and each.txid is not None:
            last = each.txid
    return last


def shadow_state(compared: Iterable[HistoryEntry], now: float) -> ShadowState:
    """Return the state of the last 7 days; `now` is in seconds since the epoch. The oldest comparison must be first."""
    found = [each for each in compared if each.at > now - _WEEK_SECONDS]
    if not found:
        return ShadowState()
    newest = found[-1]
    return ShadowState(
        compared=len(found),
        equal=sum(each.reason == EQUAL for each in found),
        compared_at=newest.at,
        txid=-1 if newest.txid is None else newest.txid,
        difference=next((each.text for each in reversed(found) if each.reason == DIFFERENT), ""),
    )


def week_of(at: float) -> int:
    """Return the number of the week that contains `at` (seconds since the epoch); weeks begin on Thursday at 00:00
    UTC.
    """
    return int(at // _WEEK_SECONDS)


def weekly_summary(compared: Iterable[HistoryEntry], week: int) -> str:
    """Return one sentence about the comparisons in the week with the number `week`."""
    found = [each for each in compared if week_of(each.at) == week]
    if not found:
        return "shadow mode did not compare an image in the last week"
    equal = sum(each.reason == EQUAL for each in found)
    return f"shadow mode compared {counted(len(found), 'image')} in the last week: {equal} of {len(found)} equal"
