"""Which segments a NameNode tells a checkpointer of (FileJournalManager.getRemoteEditLogs, JournalSet)."""

from __future__ import annotations

from collections.abc import Iterable

from journal.segment_file import EditLogSegment

__all__ = ["manifest"]


def manifest(segments: Iterable[EditLogSegment], since: int) -> list[tuple[int, int]]:
    """First and last txid of the finalized segments from the one that begins at `since`, or after it, on.

    A segment that merely contains `since` is left out; at a gap the list starts anew, so that what is returned is the
    last run without one.
    """
    longest: dict[int, int] = {}
    for segment in segments:
        if segment.last is not None and segment.first >= since:
            longest[segment.first] = max(segment.last, longest.get(segment.first, 0))
    run: list[tuple[int, int]] = []
    for first in sorted(longest):
        if run and first <= run[-1][1]:
            continue
        if run and first != run[-1][1] + 1:
            run = []
        run.append((first, longest[first]))
    return run
