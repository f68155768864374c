"""Finds, by comparison, the branch of an archive to which the files of a storage directory belong.

Only an identifying transaction or an equal image proves that the files and the branch have the same history up to that
point.
"""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate, zip_longest
from pathlib import Path

from archive.archive import Archive
from archive.catalogue import MAIN, Branch, Catalogue, branch_after
from archive.errors import ArchiveDamagedError
from archive.fetching import fetch_segment
from archive.moments import BranchView, Piece, view_of
from archive.storing import position_after
from engine.txn_runs import is_identifying
from hadoop_common.names import parse_image
from image_format.md5_file import read_md5_file
from journal.operation import EditOp
from journal.segment_file import EditLogSegment, map_file, read_ops
from journal.segment_format import HEADER_SIZE

_LOG = logging.getLogger(__name__)
_TRIES = 3
_STEP = 1 << 20


class SegmentDigests:
    """Cache of the MD5 digests of the beginnings of segment files; an entry is valid while its file does not change."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, int, int, int], tuple[int, str]] = {}

    def of(self, segment: EditLogSegment, size: int) -> str | None:
        """Return the MD5 of the first `size` bytes, in hex; None if the file is shorter."""
        found = segment.path.stat()
        key = (segment.path, found.st_ino, found.st_size, found.st_mtime_ns)
        if segment.last is not None and (known := self._known.get(key)) is not None and known[0] == size:
            return known[1]
        with map_file(segment.path) as content:
            if len(content) < size:
                return None
            md5 = hashlib.md5(usedforsecurity=False)
            for start in range(0, size, _STEP):
                md5.update(content[start : min(size, start + _STEP)])
        self._known[key] = (size, md5.hexdigest())
        return md5.hexdigest()

    def keep(self, segments: Sequence[EditLogSegment]) -> None:
        """Forget the files that are not among `segments`."""
        paths = {each.path for each in segments}
        self._known = {key: value for key, value in self._known.items() if key[0] in paths}


class BranchChoice:
    """Comparison of files with the branches of an archive.

    Args:
        scratch: returns the folder for fetched objects.
    """

    def __init__(
        self, archive: Archive, catalogue: Catalogue, scratch: Callable[[], Path], digests: SegmentDigests
    ) -> None:
        self._archive = archive
        self._catalogue = catalogue
        self._scratch = scratch
        self._digests = digests

    def choose(
        self, segments: Sequence[EditLogSegment], images: Sequence[Path], expected: str = ""
    ) -> tuple[Branch, bool]:
        """Return the branch to which the files provably belong, and False; otherwise, return a new branch and True.

        Args:
            expected: the branch chosen for earlier files that still exist; this branch is chosen again unless a
            transaction differs.
        """
        if not self._catalogue.records or not segments:
            return self._catalogue.branches[MAIN], False
        # every history of a namespace begins with its image 0
        furthest, equal = (0, MAIN), set()
        for name in sorted(self._catalogue.branches, key=lambda each: (each != MAIN, each)):
            view = view_of(self._catalogue, name)
            proven, differing = self._compared(view, segments)
            proven = _newest(proven, _equal_image(view, images, differing))
            if differing is None:
                if proven is not None or name == expected:
                    return self._catalogue.branches[name], False
                equal.add(name)
            if proven is not None and proven > furthest[0]:
                furthest = (proven, name)
        fork, parent = furthest
        branch = branch_after(parent, fork, _identity(segments, fork))
        return branch, branch.name not in equal

    def other_past(
        self, branch: str, known: Collection[str], segments: Sequence[EditLogSegment]
    ) -> tuple[Piece, int] | None:
        """Return edits in `branch` with a different past, and the first transaction that differs.

        Return None if no edits differ. Edits named in `known` are not compared.

        Such edits exist if two writers with different pasts chose the branch before either writer had published.

        Raises:
            ArchiveDamagedError: other writers keep removing the objects before they can be read.
        """
        for _ in range(_TRIES):
            try:
                return next(self._other_pieces(branch, known, segments), None)
            except ArchiveDamagedError as fault:
                # another writer has merged the object into a longer object
                removed, self._catalogue = fault, self._archive.catalogue()
        raise removed

    def _other_pieces(
        self, branch: str, known: Collection[str], segments: Sequence[EditLogSegment]
    ) -> Iterator[tuple[Piece, int]]:
        new = [each for each in view_of(self._catalogue, branch).pieces if each.record.name not in known]
        for segment in segments:
            for piece in new:
                if piece.last >= segment.first and (segment.last is None or piece.record.first <= segment.last):
                    _, differing, _ = self._read_overlap(piece, segment)
                    if differing is not None:
                        yield piece, differing

    def _compared(self, view: BranchView, segments: Sequence[EditLogSegment]) -> tuple[int | None, int | None]:
        """Return the last transaction proven equal in the branch and in the segments, and the first transaction that
        differs.
        """
        proven: int | None = None
        pieces = sorted(view.pieces, key=lambda each: (each.record.first, each.last))
        # for each piece, the last transaction of this and all earlier pieces
        reached = list(accumulate((each.last for each in pieces), max))
        for segment in segments:
            last = segment.last or view.last_txid
            number = bisect_right(pieces, last, key=lambda each: each.record.first)
            overlapping = []
            while number and reached[number - 1] >= segment.first:
                number -= 1
                if pieces[number].last >= segment.first:
                    overlapping.append(pieces[number])
            compared: list[range] = []
            first_differing: int | None = None
            # a part that lies within a longer readable part adds no proof
            for piece in sorted(overlapping, key=lambda each: each.record.first - each.last):
                own = range(piece.record.first, piece.last + 1)
                if any(each.start <= own.start and own.stop <= each.stop for each in compared):
                    continue
                found, differing, read = self._read_overlap(piece, segment)
                if read:
                    compared.append(own)
                proven = _newest(proven, found)
                if differing is not None:
                    first_differing = min(differing, first_differing or differing)
            if first_differing is not None:
                return (None if proven is None else min(proven, first_differing - 1)), first_differing
        return proven, None

    def _read_overlap(self, piece: Piece, segment: EditLogSegment) -> tuple[int | None, int | None, bool]:
        """Compare as `_overlap` does, but compare a damaged object only by its digest, and return False as the last
        value.

        Raises:
            ArchiveDamagedError: another writer has since removed the object.
        """
        try:
            return (*self._overlap(piece, segment), True)
        except ArchiveDamagedError as fault:
            if piece.record.name not in self._archive.catalogue().names:
                raise
            _LOG.warning("the edits were not compared with a damaged object of the archive: %s", fault.message)
            return (*_unread(piece, segment), False)

    def _overlap(self, piece: Piece, segment: EditLogSegment) -> tuple[int | None, int | None]:
        """Compare an archived part with a segment; see `_compared` for the result."""
        record = piece.record
        whole = record.first == segment.first and piece.last == record.last
        if whole and self._digests.of(segment, record.size) == record.md5:
            return (record.last if record.last_time else None), None
        archived = fetch_segment(self._archive, record, self._scratch(), piece.last)
        begin = max(record.first, segment.first)
        proven: int | None = None
        same: int | None = None
        for ours, theirs in zip_longest(read_ops(archived, from_txid=begin), read_ops(segment, from_txid=begin)):
            if ours is None or theirs is None:
                # one side ends earlier, for instance because its segment was in progress
                break
            if ours != theirs:
                return (None if proven is None else same), begin if same is None else same + 1
            same = ours.txid
            proven = same if is_identifying(ours) else proven
        return proven, None


def _identity(segments: Sequence[EditLogSegment], fork: int) -> str:
    """Return a digest of the first identifying transaction after `fork`, or else of the first transaction after `fork`.

    Therefore, two writers that archive the same history give its branch the same name, however far they have read.
    """
    first = ""
    for op in _ops_after(segments, fork):
        first = first or repr(op)
        if is_identifying(op):
            first = repr(op)
            break
    return hashlib.md5(first.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _ops_after(segments: Sequence[EditLogSegment], txid: int) -> Iterator[EditOp]:
    for segment in segments:
        if segment.last is None or segment.last > txid:
            yield from read_ops(segment, from_txid=txid + 1)


def _equal_image(view: BranchView, images: Sequence[Path], before: int | None) -> int | None:
    """Return the txid of the newest of `images` that the view also contains; None if they have no common image.

    Args:
        before: the first transaction that differs; later images are leftovers of the other history.
    """
    known = {(each.txid, each.md5) for each in view.images if before is None or each.txid < before}
    found: int | None = None
    for path in images:
        name = parse_image(path.name)
        if name is not None and not name.rollback and (name.txid, read_md5_file(path).hex()) in known:
            found = _newest(found, name.txid)
    return found


def _newest(one: int | None, other: int | None) -> int | None:
    """Return the newer of two proven transactions; either may be None."""
    return max((each for each in (one, other) if each is not None), default=None)


def _unread(piece: Piece, segment: EditLogSegment) -> tuple[int | None, int | None]:
    """Compare a segment with an unreadable object by the object's digest and transactions; see `_compared`."""
    record = piece.record
    if record.first < segment.first or piece.last != record.last:
        return None, None
    with map_file(segment.path) as content:
        start, _ = position_after(segment, content, record.first - 1)
        end, following = position_after(segment, content, record.last)
        if following <= record.last:
            # only a segment in progress can still receive the missing transactions
            return None, None if segment.in_progress else record.first
        md5 = hashlib.md5(content[:HEADER_SIZE], usedforsecurity=False)
        md5.update(content[start:end])
    if md5.hexdigest() != record.md5:
        return None, record.first
    return (record.last if record.last_time else None), None
