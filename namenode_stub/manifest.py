"""The segments that a NameNode reports to checkpointers (FileJournalManager.getRemoteEditLogs, JournalSet)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from journal.errors import SegmentError
from journal.segment_file import EditLogSegment, list_segments

_LOG = logging.getLogger(__name__)


def local_segments(folders: Iterable[Path]) -> list[EditLogSegment]:
    """Return the segments in these folders; a folder that fails is skipped, and other journals serve theirs
    themselves.
    """
    found: list[EditLogSegment] = []
    for folder in folders:
        try:
            found += list_segments(folder)
        except (OSError, SegmentError) as fault:
            _LOG.warning("the segments in %s are not reported to checkpointers: %s", folder, fault)
    return found


def manifest(segments: Iterable[EditLogSegment], since: int) -> list[tuple[int, int]]:
    """Return first and last transaction id of the finalized segments that begin at `since` or later.

    A segment that only contains `since` is skipped. The list starts over at a gap, so the result is the last run
    without a gap.
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
