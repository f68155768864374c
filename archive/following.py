"""Archiving of files that grow: each round adds what is new, and costs little if nothing is.

A round that finds another set of files compares them with the archive (`add_files`). The other rounds only read the
segment in progress after the last archived transaction, and publish what follows as a part. A new part absorbs the
parts before it that are not larger, so there are few parts, and each transaction is written few times. If the archive
is immutable, each part stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from archive.adding import Added, AddOptions, FoundFiles, add_files, position_after
from archive.archive import Archive
from archive.branch_choice import SegmentDigests
from archive.catalogue import Catalogue, EditsRecord
from archive.errors import ArchiveError
from archive.history import missing_edits, newest_moment, view_of
from archive.storing import read_part, store_part
from journal.segment import HEADER_SIZE
from journal.segment_file import EditLogSegment, map_file


@dataclass(frozen=True, slots=True)
class ArchivePosition:
    """What the archive has of the followed history.

    Attributes:
        branch: the history.
        last_txid: its last transaction, 0 for none.
        restorable_txid: newest transaction that can be restored, -1 without an image.
        missing: transactions before the last one that were never archived.
    """

    branch: str
    last_txid: int
    restorable_txid: int
    missing: int


@dataclass(frozen=True, slots=True)
class _Part:
    """An archived part of the segment in progress, with its place in the file."""

    first: int
    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a round found; it is equal as long as only the segment in progress grows."""

    version: str
    images: tuple[Path, ...]
    files: frozenset[object]

    @classmethod
    def of(cls, found: FoundFiles) -> _Seen:
        def file_of(segment: EditLogSegment) -> object:
            status = segment.path.stat()
            # a finalized segment has another name than the one in progress, but is the same file
            changes = () if segment.in_progress else (segment.last, status.st_size, status.st_mtime_ns)
            return (segment.first, segment.path.parent, status.st_ino, *changes)

        return cls(found.version, found.images, frozenset(map(file_of, found.segments)))


class ArchiveFollower:
    """Archives one source of edits and images, round by round; not thread-safe.

    Args:
        options: `in_progress` is always on.
    """

    def __init__(self, archive: Archive, options: AddOptions) -> None:
        self._archive = archive
        self.options = replace(options, in_progress=True)
        self._digests = SegmentDigests()
        self._seen: _Seen | None = None
        self._open: EditLogSegment | None = None
        self._parts: list[_Part] = []
        self._next = (0, 0)
        self._position: ArchivePosition | None = None
        self._catalogue: Catalogue | None = None

    def follow(self, found: FoundFiles, image_branch: str = "") -> ArchivePosition:
        """Make one round.

        Args:
            image_branch: as in `add_files`.

        Raises:
            HdfsError: the archive or a file cannot be used; the next round compares all files again.
        """
        seen, before = _Seen.of(found), self._seen
        # after a fault, all files are compared again
        self._seen = None
        if seen != before or self._position is None:
            continues = before is not None and self._position is not None and before.files & seen.files
            expected = self._position.branch if continues and self._position is not None else ""
            self._compare(found, image_branch, expected)
        elif self._open is not None:
            self._grow(self._open)
        self._seen = seen
        assert self._position is not None
        return self._position

    def _compare(self, found: FoundFiles, image_branch: str, expected: str) -> None:
        if self._catalogue is not None and self._catalogue.records and self._archive.identity() is None:
            raise ArchiveError(
                f"{self._archive.store.location} no longer has its archive",
                hint="Check that its file system is mounted; restart the daemon to begin a new archive there.",
            )
        added = add_files(self._archive, found, self.options, self._digests, image_branch, expected)
        self._note(added.branch)
        self._parts = []
        self._open = found.segments[-1] if found.segments and found.segments[-1].in_progress else None
        if self._open is not None:
            self._resume(self._open, added)

    def _resume(self, segment: EditLogSegment, added: Added) -> None:
        """Find where the next part begins."""
        own = [each for each in added.edits if not each.finalized and segment.first <= each.first]
        with map_file(segment.path) as content:
            if len(content) < HEADER_SIZE:
                self._next = (HEADER_SIZE, segment.first)
                return
            self._next = position_after(segment, content, max(added.last_txid, segment.first - 1))
            if own:
                start, first = position_after(segment, content, own[-1].first - 1)
                self._parts = [_Part(first, start, self._next[0], own[-1].name)]

    def _grow(self, segment: EditLogSegment) -> None:
        assert self._position is not None
        with map_file(segment.path) as content:
            if len(content) < HEADER_SIZE:
                return
            start, first = self._next
            new = read_part(segment, content, start, first)
            if new is None:
                return
            catalogue = self._archive.writable_catalogue()
            absorbed: list[_Part] = []
            while not self._archive.immutable and self._parts and self._is_small(self._parts[-1], new.end - start):
                absorbed.append(self._parts.pop())
                start, first = absorbed[-1].start, absorbed[-1].first
            part = read_part(segment, content, start, first) if absorbed else new
            assert part is not None
            record = store_part(self._archive, content, part, self._position.branch, finalized=False)
        self._publish(catalogue, record, [each.name for each in absorbed])
        self._parts.append(_Part(part.first, part.start, part.end, record.name))
        self._next = (part.end, part.last + 1)

    def _is_small(self, part: _Part, size: int) -> bool:
        return part.end - part.start <= size

    def _publish(self, catalogue: Catalogue, record: EditsRecord, absorbed: list[str]) -> None:
        self._archive.publish(catalogue, [record], absorbed)
        for name in absorbed:
            self._archive.store.remove(name)
        self._note(record.branch)

    def _note(self, branch: str) -> None:
        catalogue = self._catalogue = self._archive.catalogue()
        view = view_of(catalogue, branch)
        missing = sum(map(len, missing_edits(catalogue, branch)))
        self._position = ArchivePosition(branch, view.last_txid, newest_moment(view), missing)
