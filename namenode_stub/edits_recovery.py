"""After a crash: every edits directory gets the longest copy of the segment that was open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hadoop_common.durable import fsync_directory, write_atomically
from journal.recovery import recover_in_progress
from journal.segment_file import EditLogSegment, list_segments

__all__ = ["recover_edits"]


def recover_edits(folders: Sequence[Path]) -> None:
    """Finalize segments left in progress; a directory whose copy is shorter, or lost, gets the longest one.

    A crash can cut the copies at different operations. Without this the next segment would leave a gap behind the
    shorter one, and a reader of that directory alone would stop there.

    Raises:
        JournalError: a segment cannot be recovered.
        OSError: a file cannot be read or written.
    """
    recovered = [segment for folder in folders for segment in recover_in_progress(folder)]
    longest: dict[int, EditLogSegment] = {}
    for segment in recovered:
        best = longest.get(segment.first)
        if best is None or (segment.last or 0) > (best.last or 0):
            longest[segment.first] = segment
    for best in longest.values():
        for folder in folders:
            _complete(folder, best)


def _complete(folder: Path, best: EditLogSegment) -> None:
    target = folder / best.path.name
    if target.exists():
        return
    write_atomically(target, best.path.read_bytes())
    for segment in list_segments(folder):
        if segment.first == best.first and segment.path != target and not segment.in_progress:
            segment.path.unlink()
    fsync_directory(folder)
