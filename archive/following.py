"""Archives growing files in rounds: each round adds the new part, and a round without a new part is cheap.

A round that finds a changed set of files compares them with the archive (`add_files`). Other rounds only read the
segment in progress after the last archived transaction, and publish the new transactions as a part. A new part absorbs
the preceding parts that are not larger. Therefore, few parts exist, and each transaction is rewritten only a few times.
In an immutable archive, all parts remain.

A part never mixes two pasts. It directly follows the last transaction of the branch, and its file must still contain
the preceding bytes. Transactions that another writer has since archived are compared first. After any difference, all
files are compared.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from archive.adding import Added, AddOptions, FoundFiles, add_files
from archive.archive import Archive
from archive.branch_choice import BranchChoice, SegmentDigests
from archive.catalogue import EDITS, IMAGES, Catalogue, EditsRecord
from archive.errors import ArchiveError
from archive.fetching import fetch_segment
from archive.moments import Piece, missing_edits, newest_moment, view_of
from archive.scratch import scratch_folder
from archive.storing import position_after, read_part, store_part
from journal.primitives import Buffer
from journal.segment_file import EditLogSegment, map_file, read_ops
from journal.segment_format import HEADER_SIZE, SegmentCursor

_LOG = logging.getLogger(__name__)
# number of preceding bytes (hundreds of transactions) that are compared to detect another file
_TAIL = 1 << 16


@dataclass(frozen=True, slots=True)
class ArchivePosition:
    """The archived part of the followed history.

    Attributes:
        branch: the history.
        last_txid: its last transaction; 0 if it has no transactions.
        restorable_txid: newest transaction that can be restored; -1 if the history has no image.
        missing: transactions before `last_txid` that were never archived.
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
class _Next:
    """The beginning of the next part in the segment in progress: byte position, transaction, and preceding bytes."""

    start: int = 0
    first: int = 0
    tail: bytes = b""

    @classmethod
    def at(cls, content: Buffer, start: int, first: int) -> _Next:
        return cls(start, first, bytes(content[max(0, start - _TAIL) : start]))

    def continues(self, content: Buffer) -> bool:
        """Return whether the file still has the archived bytes; another past may have reused its name and inode."""
        return bytes(content[max(0, self.start - _TAIL) : self.start]) == self.tail


@dataclass(frozen=True, slots=True)
class _Seen:
    """Findings of a round, which do not change while only the segment in progress grows."""

    version: str
    images: tuple[Path, ...]
    files: frozenset[object]

    @classmethod
    def of(cls, found: FoundFiles) -> _Seen:
        def file_of(segment: EditLogSegment) -> object:
            status = segment.path.stat()
            # finalizing renames a segment in progress, but keeps the file
            changes = () if segment.in_progress else (segment.last, status.st_size, status.st_mtime_ns)
            return (segment.first, segment.path.parent, status.st_ino, *changes)

        return cls(found.version, found.images, frozenset(map(file_of, found.segments)))


class ArchiveFollower:
    """Archiver of one source of edits and images, round by round; not thread-safe.

    Args:
        options: rules for additions; `in_progress` is always enabled.
        begun: whether files were archived before; the archive must then exist.
    """

    def __init__(self, archive: Archive, options: AddOptions, *, begun: bool = False) -> None:
        self._archive = archive
        self.options = replace(options, in_progress=True)
        self._digests = SegmentDigests()
        self._seen: _Seen | None = None
        self._failed = False
        self._open: EditLogSegment | None = None
        self._parts: list[_Part] = []
        # names of edits whose past was compared with the past of the open segment
        self._compared: set[str] = set()
        self._next = _Next()
        self._position: ArchivePosition | None = None
        # the catalogue at `_position`
        self._noted: Catalogue | None = None
        self._begun = begun

    def follow(self, found: FoundFiles, image_branch: str = "") -> ArchivePosition:
        """Perform one round.

        Args:
            image_branch: see `add_files`.

        Raises:
            HdfsError: the archive or a file cannot be used; the next round compares all files again.
        """
        seen, before = _Seen.of(found), self._seen
        # after a fault, all files are compared again
        failed, self._failed = self._failed, True
        position = self._position
        grown = not failed and seen == before and position is not None and self._grow(self._open, position.branch)
        if not grown:
            continues = before is not None and position is not None and before.files & seen.files
            self._compare(found, image_branch, position.branch if continues and position is not None else "")
        self._seen, self._failed = seen, False
        assert self._position is not None
        return self._position

    def require_begun(self) -> None:
        """Raise ArchiveError if an archive that was filled before no longer exists."""
        # a cluster that mistook the archive for a new one may have replaced and then removed the identity
        if self._begun and self._archive.identity() is None and not self._archive.catalogue().records:
            raise ArchiveError(
                f"{self._archive.store.location} no longer contains the archive",
                hint="Mount its file system. If the archive is lost, `checkpointer archive add` begins a new archive.",
            )

    def lost_objects(self) -> list[str]:
        """Return the missing objects without which the newest transactions cannot be restored; lists all objects.

        Raises:
            HdfsError: the archive cannot be listed.
        """
        assert self._position is not None
        store, known = self._archive.store, self._archive.catalogue().names
        missing = known - {*store.sizes(IMAGES), *store.sizes(EDITS)}
        if not missing:
            return []
        # other processes first change the catalogue, and then remove objects
        now = self._archive.catalogue()
        lost, view = missing & now.names, view_of(now, self._position.branch)
        return sorted(lost) if newest_moment(view.without(lost)) < newest_moment(view) else []

    def _compare(self, found: FoundFiles, image_branch: str, expected: str) -> None:
        self.require_begun()
        added = add_files(self._archive, found, self.options, self._digests, image_branch, expected)
        self._note(self._archive.catalogue(), added.branch)
        self._parts = []
        self._compared = {each.name for each in added.edits}
        self._open = found.segments[-1] if found.segments and found.segments[-1].in_progress else None
        if self._open is not None:
            self._resume(self._open, added)

    def _resume(self, segment: EditLogSegment, added: Added) -> None:
        """Find where the next part begins."""
        own = [each for each in added.edits if not each.finalized and segment.first <= each.first]
        with map_file(segment.path) as content:
            if len(content) < HEADER_SIZE:
                self._next = _Next(HEADER_SIZE, segment.first)
                return
            if not own:
                # other writers' parts of the segment are compared with its present content
                self._next = _Next.at(content, HEADER_SIZE, segment.first)
            else:
                self._next = _Next.at(content, *position_after(segment, content, added.last_txid))
                start, first = position_after(segment, content, own[-1].first - 1)
                self._parts = [_Part(first, start, self._next.start, own[-1].name)]

    def _grow(self, segment: EditLogSegment | None, branch: str) -> bool:
        """Archive the new part of the open segment; return False if the part may belong to another past."""
        if segment is None:
            return True
        with map_file(segment.path) as content:
            if len(content) < HEADER_SIZE:
                return True
            if not self._next.continues(content):
                return False
            new = read_part(segment, content, self._next.start, self._next.first)
            if new is None:
                return True
            catalogue = self._archive.writable_catalogue()
            if branch not in catalogue.branches or self._meets_other_past(segment, catalogue, branch):
                return False
            if not self._catch_up(segment, content, catalogue, branch):
                return False
            last = self._last_txid(catalogue, branch)
            if self._next.first > new.first or self._next.first <= last:
                self._note(catalogue, branch)
            if self._next.first <= last:
                # the last transactions of other writers were not compared, because the segment did not contain them yet
                return True
            if self._next.first > new.first:
                new = read_part(segment, content, self._next.start, self._next.first)
                if new is None:
                    return True
            start, first = self._next.start, self._next.first
            absorbed: list[_Part] = []
            while not self._archive.immutable and self._parts and self._is_small(self._parts[-1], new.end - start):
                absorbed.append(self._parts.pop())
                start, first = absorbed[-1].start, absorbed[-1].first
            part = read_part(segment, content, start, first) if absorbed else new
            assert part is not None
            record = store_part(self._archive, content, part, branch)
            self._next = _Next.at(content, part.end, part.last + 1)
        published = self._publish(catalogue, record, [each.name for each in absorbed])
        self._compared.add(record.name)
        if published is not None:
            crosses = True
            try:
                crosses = self._other_past(published, {*catalogue.names, record.name}, segment, branch) is not None
            finally:
                # withdraw the part even after a fault
                if crosses:
                    self._take_back(published, record, segment, absorbed, new.first - 1)
            if crosses:
                return False
        self._parts.append(_Part(part.first, part.start, part.end, record.name))
        return True

    def _catch_up(self, segment: EditLogSegment, content: Buffer, catalogue: Catalogue, branch: str) -> bool:
        """Skip the transactions that other writers have archived; return False if the segment differs."""
        if self._last_txid(catalogue, branch) == self._next.first - 1:
            return True
        view = view_of(catalogue, branch)
        # if there are no such pieces, the archive no longer contains the edits that were archived before
        others = [each for each in view.pieces if each.last >= self._next.first]
        with scratch_folder() as scratch:
            for piece in sorted(others, key=lambda each: (each.record.first, each.last)):
                archived = fetch_segment(self._archive, piece.record, scratch, piece.last)
                ours = SegmentCursor(content, file=str(segment.path), first_txid=segment.first, in_progress=True)
                ours.advance(self._next.start, self._next.first)
                for theirs in read_ops(archived, from_txid=self._next.first):
                    if (own := next(ours, None)) is None:
                        break
                    if own != theirs:
                        return False
                assert ours.expected is not None
                self._adopt(piece, branch, _Next.at(content, ours.position, ours.expected))
        return bool(others)

    def _adopt(self, piece: Piece, branch: str, following: _Next) -> None:
        """Record another writer's part, so that a later part can absorb it like our own parts."""
        covered = [each for each in self._parts if each.first >= piece.record.first]
        starts = {self._next.first: self._next.start, **{each.first: each.start for each in covered}}
        kept = self._parts[: len(self._parts) - len(covered)]
        self._next = following
        own = piece.record.branch == branch and not piece.record.finalized
        if own and following.first > piece.record.last and piece.record.first in starts:
            start = starts[piece.record.first]
            self._parts = [*kept, _Part(piece.record.first, start, following.start, piece.record.name)]
        else:
            self._parts = []

    def _is_small(self, part: _Part, size: int) -> bool:
        return part.end - part.start <= size

    def _publish(self, known: Catalogue, record: EditsRecord, absorbed: list[str]) -> Catalogue | None:
        """Publish a part; return the catalogue if other writers have also changed it, otherwise None."""
        published = self._archive.publish(known, [record], absorbed)
        for name in absorbed:
            self._archive.store.remove(name)
        position = self._position
        alone = set(known.commits) < set(published.commits) and len(published.commits) == len(known.commits) + 1
        if position is None or known is not self._noted or not alone:
            self._note(published, record.branch)
            return published
        # no other writer has published, so reading all records is unnecessary
        whole = position.restorable_txid == position.last_txid
        restorable = record.last if whole else position.restorable_txid
        self._position = replace(position, last_txid=record.last, restorable_txid=restorable)
        self._noted = published
        return None

    def _meets_other_past(self, segment: EditLogSegment, catalogue: Catalogue, branch: str) -> bool:
        """Return whether the branch contains another past, which a writer left that was killed before it compared its
        edits.
        """
        if catalogue is self._noted:
            return False
        found = self._other_past(catalogue, self._compared, segment, branch)
        if found is None:
            pieces = view_of(catalogue, branch).pieces
            self._compared |= {each.record.name for each in pieces if each.last >= segment.first}
            return False
        piece, differing = found
        if differing < self._next.first:
            _LOG.warning(
                "branch %s contains edits of two histories from transaction %d on: %s does not belong to this "
                "history, which continues in a separate branch; next: restore later transactions from the branches "
                "that begin there",
                branch,
                differing,
                piece.record.name,
            )
        return True

    def _other_past(
        self, catalogue: Catalogue, known: set[str], segment: EditLogSegment, branch: str
    ) -> tuple[Piece, int] | None:
        with scratch_folder() as scratch:
            choice = BranchChoice(self._archive, catalogue, lambda: scratch, self._digests)
            return choice.other_past(branch, known, [segment])

    def _take_back(
        self, published: Catalogue, record: EditsRecord, segment: EditLogSegment, absorbed: list[_Part], last: int
    ) -> None:
        """Remove a part from the catalogue; add the parts that it absorbed as one part, up to transaction `last`."""
        kept = []
        if absorbed:
            with map_file(segment.path) as content:
                earlier = EditLogSegment(segment.first, last, segment.path)
                part = read_part(earlier, content, absorbed[-1].start, absorbed[-1].first)
                assert part is not None
                kept.append(store_part(self._archive, content, part, record.branch))
        self._archive.publish(published, kept, [record.name])
        if not self._archive.immutable:
            self._archive.store.remove(record.name)

    def _last_txid(self, catalogue: Catalogue, branch: str) -> int:
        position = self._position
        if position is not None and catalogue is self._noted:
            return position.last_txid
        return view_of(catalogue, branch).last_txid

    def _note(self, catalogue: Catalogue, branch: str) -> None:
        self._begun = self._begun or bool(catalogue.records)
        view = view_of(catalogue, branch)
        missing = sum(map(len, missing_edits(catalogue, branch)))
        self._position, self._noted = ArchivePosition(branch, view.last_txid, newest_moment(view), missing), catalogue
