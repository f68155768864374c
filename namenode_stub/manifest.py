"""Which segments a NameNode tells a checkpointer of (FileJournalManager.getRemoteEditLogs, JournalSet)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from journal.errors import SegmentError
from journal.segment_file import EditLogSegment, list_segments

_LOG = logging.getLogger(__name__)


def local_segments(folders: Iterable[Path]) -> list[EditLogSegment]:
    """What can be served from here: other journals serve theirs themselves. A folder that fails is left out."""
    found: list[EditLogSegment] = []
    for folder in folders:
        try:
            found += list_segments(folder)
        except (OSError, SegmentError) as fault:
            _LOG.warning("the segments in %s are not reported to checkpointers: %s", folder, fault)
    return found


def manifest(segments: Iterable[EditLogSegment], since: int) -> list[tuple[int, int]]:
    """First and last txid of the finalized segments from the one that begins at `since`, or after it, on.

    A segment that merely contains `since` is left out; at a gap the list starts over, so that what is returned is the
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
