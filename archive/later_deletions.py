"""Finds files that were deleted after a moment, because the NameNode may have removed their blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from archive.archive import Archive
from archive.chosen_ops import chosen_ops
from archive.fetching import fetch_segment
from archive.moments import BranchView, reach
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from image_tools.namespace_browser import NO_TOTALS, LocatedInode, SubtreeTotals
from journal.op_times import op_time
from journal.operation import EditOp
from journal.ops import RENAME_OVERWRITE, DeleteOp, RenameOldOp, RenameOp

_CACHED_PATHS = 1 << 13
_KEPT_DIRECTORIES = 32


class LaterDeletions(NamedTuple):
    """Inodes that existed at a moment and were deleted later.

    The NameNode has queued the blocks of these files for deletion. Times are in ms since the epoch, or 0 if unknown.
    """

    deletions: int
    files: int
    length: int
    first_time: int
    last_time: int
    later_transactions: int


def later_ops(
    archive: Archive, view: BranchView, txid: int, folder: Path, kinds: Sequence[type[EditOp]]
) -> Iterator[EditOp]:
    """Yield the operations of these kinds after `txid`, up to the first gap in the branch."""
    expected = txid + 1
    for piece in sorted(view.pieces, key=lambda each: (each.record.first, -each.last)):
        if piece.last < expected or piece.record.first > expected:
            continue
        segment = fetch_segment(archive, piece.record, folder, piece.last)
        yield from chosen_ops(segment, kinds, expected)
        expected = piece.last + 1
        segment.path.unlink(missing_ok=True)


def later_losses(archive: Archive, view: BranchView, txid: int, image: Path, folder: Path) -> LaterDeletions:
    """Sum the files of an image that later operations deleted, or replaced by renames.

    Args:
        txid: transaction of the image; this function reads the operations that follow it.
        folder: folder for fetched segments, which are stored one at a time.

    Raises:
        ArchiveDamagedError: an object is missing or damaged.
        JournalError: a segment is damaged.
    """
    deletions = files = length = 0
    times: list[int] = []
    with ImageFile.open(image, verify_md5=False) as opened:
        places = LaterPlaces(MomentBrowser(opened))
        for op in later_ops(archive, view, txid, folder, (RenameOldOp, RenameOp, DeleteOp)):
            lost = places.after(op)
            if lost == NO_TOTALS:
                continue
            deletions, files, length = deletions + 1, files + lost.files, length + lost.length
            if (at := op_time(op)) is not None:
                times.append(at)
    first_time, last_time = min(times, default=0), max(times, default=0)
    return LaterDeletions(deletions, files, length, first_time, last_time, reach(view.pieces, txid) - txid)


class MomentBrowser(ImageBrowser):
    """Browser with a cache of recently used directories, because reading a large directory takes milliseconds."""

    def __init__(self, image: ImageFile) -> None:
        super().__init__(image)
        # directories in the order of their last use
        self._kept: dict[int, None] = {}

    def _forget(self, directory_id: int) -> None:
        self._kept.pop(directory_id, None)
        self._kept[directory_id] = None
        if len(self._kept) > _KEPT_DIRECTORIES:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            super()._forget(oldest)


@dataclass(slots=True)
class _Inode:
    """An inode that was moved, or a directory that has lost or received moved inodes since the moment.

    Attributes:
        origin: its path in the image, "" for the root; the image lacks this path if the inode was created later.
        children: its children that differ from the image; None for a child that was moved or deleted.
    """

    origin: str | None
    children: dict[str, _Inode | None] = field(default_factory=dict)


class LaterPlaces:
    """The places of an image's inodes after later operations.

    Only moved or deleted inodes of the image take memory, about 430 bytes each. Most operations concern inodes that
    were created later.
    """

    def __init__(self, browser: ImageBrowser) -> None:
        self._browser = browser
        self._root = _Inode("")
        # inodes of the image by path, in the order of their last use
        self._found: dict[str, LocatedInode | None] = {}

    def after(self, op: EditOp) -> SubtreeTotals:
        """Apply a deletion or a rename; return the sums of the image's inodes that the operation deletes.

        An operation on the root changes nothing, as on a NameNode.
        """
        lost = moved = None
        if isinstance(op, DeleteOp):
            lost = self._take(_names(op.path))
        elif isinstance(op, RenameOldOp | RenameOp):
            source, target = _names(op.src), _names(op.dst)
            if not source or (isinstance(op, RenameOp) and not target):
                return NO_TOTALS
            if isinstance(op, RenameOldOp) and self._is_directory(target):
                # a NameNode moves the inode into an existing directory
                target.append(source[-1])
            moved = self._take(source)
            if isinstance(op, RenameOp) and RENAME_OVERWRITE in op.options:
                lost = self._take(target)
            if moved is not None:
                self._attached(target[:-1]).children[target[-1]] = moved
        return NO_TOTALS if lost is None else self._totals(lost)

    def _at(self, names: Sequence[str]) -> _Inode | None:
        """Return the inode at a path; None if no inode of the image is at or below the path."""
        inode = self._root
        for name in names:
            child = inode.children[name] if name in inode.children else self._unchanged(inode, name)
            if child is None:
                return None
            inode = child
        return inode if inode.children or self._in_image(inode) is not None else None

    def _is_directory(self, names: Sequence[str]) -> bool:
        if (inode := self._at(names)) is None:
            return False
        place = self._in_image(inode)
        return bool(inode.children) or (place is not None and place.inode.HasField("directory"))

    def _take(self, names: Sequence[str]) -> _Inode | None:
        """Remove the inode at a path from its directory, and return it as `_at` does."""
        if not names or (inode := self._at(names)) is None:
            return None
        parent, name = self._attached(names[:-1]), names[-1]
        if self._in_image(self._unchanged(parent, name)) is None:
            parent.children.pop(name, None)
        else:
            parent.children[name] = None
        return inode

    def _attached(self, names: Sequence[str]) -> _Inode:
        """Return the directory at a path, and mark it as different from the image."""
        directory = self._root
        for name in names:
            child = directory.children.get(name)
            if child is None:
                # a new directory replaces an inode that was moved or deleted
                child = None if name in directory.children else self._unchanged(directory, name)
                child = directory.children[name] = child or _Inode(None)
            directory = child
        return directory

    def _totals(self, top: _Inode) -> SubtreeTotals:
        totals = NO_TOTALS
        # not recursive, because a path may have more levels than Python allows in nested calls
        waiting = [top]
        while waiting:
            inode = waiting.pop()
            if (found := self._in_image(inode)) is not None:
                totals = totals.plus(self._browser.content(found).totals)
            for name, child in inode.children.items():
                before = self._in_image(self._unchanged(inode, name))
                if before is not None:
                    pairs = zip(totals, self._browser.content(before).totals, strict=True)
                    totals = SubtreeTotals(*(one - other for one, other in pairs))
                if child is not None:
                    waiting.append(child)
        return totals

    def _unchanged(self, directory: _Inode, name: str) -> _Inode | None:
        """Return the child of a directory that the image may contain; None for a directory that was created later."""
        return None if directory.origin is None else _Inode(f"{directory.origin}/{name}")

    def _in_image(self, inode: _Inode | None) -> LocatedInode | None:
        return None if inode is None or inode.origin is None else self._find(inode.origin)

    def _find(self, path: str) -> LocatedInode | None:
        """Return the inode at a path of the image, and remember it and the inodes above it."""
        above, missing = path, list[str]()
        while above and above not in self._found:
            above, _, name = above.rpartition("/")
            missing.append(name)
        place = self._found.pop(above) if above else self._browser.root()
        if above:
            self._found[above] = place
        for name in reversed(missing):
            place = None if place is None else self._browser.child(place, name.encode("utf-8", "surrogatepass"))
            above = f"{above}/{name}"
            self._found[above] = place
        while len(self._found) > _CACHED_PATHS:
            del self._found[next(iter(self._found))]
        return place


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]
