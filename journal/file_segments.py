"""The segments of one directory for a reader: finalized segments, and the readable part of the segment in progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.file_faults import error_text
from journal.errors import JournalStorageError
from journal.open_scan import OpenExtent, scan_open_file
from journal.operation import EditOp
from journal.segment_file import EditLogSegment, list_segments, read_ops


@dataclass(frozen=True, slots=True)
class FileSegment:
    """A segment file up to `last`; for a segment in progress, `last` is the newest txid at the time of the listing."""

    first: int
    last: int
    in_progress: bool
    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def read(self, from_txid: int) -> Iterator[EditOp]:
        segment = EditLogSegment(self.first, self.last, self.path)
        try:
            if self.in_progress and not self.path.exists():
                segment = self._finalized() or segment
            yield from read_ops(segment, from_txid=from_txid)
        except OSError as error:
            raise JournalStorageError(
                f"the segment cannot be read: {error_text(error, self.path)}", file=self.name
            ) from error

    def _finalized(self) -> EditLogSegment | None:
        """Return the finalized file of this segment, up to the same `last`."""
        for each in list_segments(self.path.parent):
            if each.first == self.first and each.last is not None and each.last >= self.last:
                return EditLogSegment(self.first, self.last, each.path)
        return None


class FolderView:
    """Repeated listing of a directory, which continues reading segments in progress where the last listing stopped.

    Args:
        folder: the directory.
        open_last: returns the last durable txid of the segment in progress that begins with the given txid; None if
            this process does not write that segment.
    """

    def __init__(self, folder: Path, open_last: Callable[[int], int | None]) -> None:
        self._folder = folder
        self._open_last = open_last
        self._guard = threading.Lock()
        self._extents: dict[Path, tuple[int, OpenExtent]] = {}

    def segments(self, *, in_progress: bool) -> list[FileSegment]:
        """Return the segments with at least one transaction, sorted by txid.

        Raises:
            JournalError: a segment in progress is damaged, or the name of a file is invalid.
            OSError: the directory cannot be read.
        """
        found = []
        listed = list_segments(self._folder)
        self._forget_all_but({each.path for each in listed})
        for each in listed:
            last = each.last
            if last is None and in_progress:
                last = self._last_of(each)
            if last is not None and last >= each.first:
                found.append(FileSegment(each.first, last, each.in_progress, each.path))
        return found

    def _last_of(self, segment: EditLogSegment) -> int | None:
        written_here = self._open_last(segment.first)
        if written_here is not None:
            return written_here
        with self._guard:
            try:
                extent = self._scan(segment)
            except FileNotFoundError:
                # The segment was finalized and renamed since the listing.
                return None
        return None if extent is None else extent.last

    def _scan(self, segment: EditLogSegment) -> OpenExtent | None:
        inode = segment.path.stat().st_ino
        known_inode, known = self._extents.get(segment.path, (inode, None))
        extent = scan_open_file(segment.path, segment.first, known if known_inode == inode else None)
        if extent is not None:
            self._extents[segment.path] = (inode, extent)
        return extent

    def _forget_all_but(self, paths: Set[Path]) -> None:
        with self._guard:
            for path in self._extents.keys() - paths:
                del self._extents[path]
