"""Repairs a log after a crash or a disk failure: copies finalized segments to directories that lack them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

from hadoop_common.durable import remove_durably, rename_durably, written_atomically
from hadoop_common.file_faults import error_text
from hadoop_common.names import segment_name
from journal.errors import JournalError, JournalStorageError
from journal.file_segments import FileSegment
from journal.segment_copies import SegmentCopies
from journal.segment_frames import check_segment_file
from journal.segment_output import write_ops

_LOG = logging.getLogger(__name__)
_TRASH = ".trash"  # EditLogFile.moveAsideTrashFile


def copy_missing_segments(folder: Path, segments: Iterable[SegmentCopies], layout_version: int) -> int:
    """Copy the segments that `folder` lacks into it, and return the number of copied segments.

    A crash can truncate the copies of a segment at different operations, and a directory that failed lacks all later
    segments. A reader of only that directory would find a gap. The complete copy is durable before the shorter copy is
    removed. If a fenced writer left a copy that continues after the segment's end, this copy is moved aside as
    `*.trash`. A segment without a readable copy is logged and skipped.

    Args:
        segments: finalized segments of all directories, as returned by `group_copies`.
        layout_version: layout version to write if a segment has no file that can be copied.

    Raises:
        JournalStorageError: the folder cannot be written.
    """
    taken = 0
    try:
        for segment in segments:
            own = _copies_in(folder, segment)
            if lacks(folder, segment):
                if not _take(folder, segment, layout_version):
                    continue
                taken += 1
            for copy in own:
                _put_away(copy, segment.last)
    except OSError as error:
        raise JournalStorageError(
            f"the missing segments cannot be restored: {error_text(error)}", file=str(folder)
        ) from error
    return taken


def lacks(folder: Path, segment: SegmentCopies) -> bool:
    """Return whether `folder` has no copy of `segment` with the same end."""
    return not any(copy.last == segment.last for copy in _copies_in(folder, segment))


def is_near(segment: SegmentCopies) -> bool:
    """Return whether a local directory has the complete `segment`, so that copying it is fast."""
    return any(isinstance(copy, FileSegment) and copy.last >= segment.last for copy in segment.copies)


def _copies_in(folder: Path, segment: SegmentCopies) -> list[FileSegment]:
    return [copy for copy in segment.copies if isinstance(copy, FileSegment) and copy.path.parent == folder]


def _take(folder: Path, segment: SegmentCopies, layout_version: int) -> bool:
    """Copy the segment into `folder`; return False if none of its copies can be read."""
    name = segment_name(segment.first, segment.last)
    _LOG.warning("%s lacks %s: copying it", folder, name)
    for copy in segment.copies:
        if isinstance(copy, FileSegment) and copy.last == segment.last and _is_whole(copy):
            with copy.path.open("rb") as source, written_atomically(folder / copy.path.name) as out:
                shutil.copyfileobj(source, out)
            return True
    try:
        write_ops(folder, segment.read(segment.first), layout_version)
    except JournalStorageError:
        raise
    except JournalError as error:
        _LOG.error("%s still lacks %s: %s", folder, name, error)
        return False
    return True


def _is_whole(copy: FileSegment) -> bool:
    try:
        check_segment_file(copy.path, copy.first, copy.last, name=copy.name)
    except (JournalError, OSError) as error:
        _LOG.warning("%s is not copied: %s", copy.name, error_text(error))
        return False
    return True


def _put_away(copy: FileSegment, last: int) -> None:
    if copy.last < last:
        remove_durably(copy.path)
    elif copy.last > last:
        _LOG.warning("%s continues after txid %d, where another writer began, and is moved aside", copy.name, last)
        rename_durably(copy.path, copy.path.with_name(copy.path.name + _TRASH))
