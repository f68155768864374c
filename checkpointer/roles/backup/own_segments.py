"""Segments in a backup node's directories: listing, recovery, and handling of damaged segments."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from hadoop_common.durable import rename_durably
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from journal.errors import JournalError, UnsupportedEditsLayoutError
from journal.recovery import recover_in_progress
from journal.segment_file import EditLogSegment, list_segments
from journal.segment_frames import check_segment_file

_LOG = logging.getLogger(__name__)
_ASIDE = ".corrupt"


def local_segments(folders: Sequence[Path]) -> list[EditLogSegment]:
    """Return the finalized segments of several folders, one copy of each.

    Raises:
        StorageError: a folder cannot be read.
    """
    found: dict[tuple[int, int | None], EditLogSegment] = {}
    try:
        for folder in folders:
            for segment in list_segments(folder):
                if not segment.in_progress:
                    found.setdefault((segment.first, segment.last), segment)
    except OSError as fault:
        raise StorageError(
            f"the edits cannot be listed: {error_text(fault)}", hint="Check the disk of the directory."
        ) from fault
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or 0))]


def finish_in_progress(folder: Path) -> None:
    """Finalize the segments that a crash left in progress, while no segment is open.

    Set aside damaged segments, and segments with a finalized copy, because the NameNode or another directory has them.

    Raises:
        UnsupportedEditsLayoutError: the layout of a segment is unknown.
        OSError: a file cannot be read or renamed.
    """
    while True:
        try:
            for segment in recover_in_progress(folder):
                _LOG.info("recovered %s", segment.path)
        except UnsupportedEditsLayoutError:
            raise
        except JournalError as fault:
            _LOG.warning(
                "a segment was not recovered; missing transactions will be fetched from the NameNode: %s", fault
            )
            if not fault.file:
                raise
            _set_aside(folder / fault.file)
        else:
            return


def set_aside_damaged(segments: Iterable[EditLogSegment]) -> list[tuple[Path, OSError]]:
    """Set aside the damaged segments among the finalized `segments`; return the segments that cannot be read or
    renamed.

    Raises:
        LookupError: none of the segments is damaged.
    """
    unreadable: list[tuple[Path, OSError]] = []
    damaged = 0
    for segment in segments:
        if segment.last is None:
            continue
        try:
            check_segment_file(segment.path, segment.first, segment.last)
        except JournalError as fault:
            _LOG.warning("%s was set aside; another copy or the NameNode's copy will be used: %s", segment.path, fault)
            damaged += 1
            try:
                _set_aside(segment.path)
            except OSError as error:
                unreadable.append((segment.path, error))
        except OSError as error:
            damaged += 1
            unreadable.append((segment.path, error))
    if not damaged:
        raise LookupError("no segment is damaged")
    return unreadable


def _set_aside(path: Path) -> None:
    # the recovery has already renamed a file with a damaged header
    if path.exists():
        rename_durably(path, path.with_name(path.name + _ASIDE))
