"""After a crash or a failed disk: every edits directory gets the segments that it lacks at its end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from hadoop_common.durable import fsync_directory, write_atomically
from journal.recovery import recover_in_progress
from journal.segment_file import EditLogSegment, list_segments

__all__ = ["recover_edits"]

_LOG = logging.getLogger(__name__)


def recover_edits(folders: Sequence[Path]) -> None:
    """Finalize segments left in progress, then bring every directory up to the one that reaches furthest.

    A crash can cut the copies at different operations, and a directory that failed earlier lacks all that came
    after. Without this the next segment would leave a gap behind them, and a reader of that directory alone would
    stop there. A longer copy is never replaced by a shorter one.

    Raises:
        JournalError: a segment cannot be recovered.
        OSError: a file cannot be read or written.
    """
    for folder in folders:
        recover_in_progress(folder)
    holdings = {folder: [each for each in list_segments(folder) if not each.in_progress] for folder in folders}
    longest: dict[int, EditLogSegment] = {}
    for segment in (each for held in holdings.values() for each in held):
        best = longest.get(segment.first)
        if best is None or _end(segment) > _end(best):
            longest[segment.first] = segment
    for folder, held in holdings.items():
        reached = max(map(_end, held), default=0)
        for first in sorted(longest):
            if _end(longest[first]) > reached:
                _copy(longest[first], folder)
        _remove_shorter(folder, held, longest)


def _end(segment: EditLogSegment) -> int:
    return segment.first - 1 if segment.last is None else segment.last


def _copy(segment: EditLogSegment, folder: Path) -> None:
    _LOG.warning("%s lacks %s, it is copied from %s", folder, segment.path.name, segment.path.parent)
    write_atomically(folder / segment.path.name, segment.path.read_bytes())


def _remove_shorter(folder: Path, held: Sequence[EditLogSegment], longest: dict[int, EditLogSegment]) -> None:
    """Remove copies of a segment that end early, where the whole one lies beside them now."""
    for segment in held:
        whole = folder / longest[segment.first].path.name
        if whole != segment.path and whole.exists():
            segment.path.unlink()
            fsync_directory(folder)
