"""Deletions after a moment: the NameNode may have removed the blocks of these files since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from archive.archive import Archive
from archive.chosen_ops import chosen_ops
from archive.fetching import fetch_segment
from archive.history import BranchView, reach
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from image_tools.namespace_browser import LocatedInode
from journal.op_times import clean_path, op_time
from journal.operation import EditOp
from journal.ops import DeleteOp, RenameOldOp, RenameOp


class LaterDeletions(NamedTuple):
    """Inodes that existed at a moment and were deleted later.

    The NameNode has queued the blocks of these files for deletion. Times are in ms since the epoch, 0 if unknown.
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
    """Sum the files of an image that later operations deleted.

    Args:
        txid: transaction of the image; the operations after it are read.
        folder: for the fetched segments, one at a time.

    Raises:
        ArchiveDamagedError: an object is missing or damaged.
        JournalError: a segment is damaged.
    """
    names: dict[str, str] = {}
    counted: set[str] = set()
    deletions = files = length = 0
    times: list[int] = []
    with ImageFile.open(image, verify_md5=False) as opened:
        browser = ImageBrowser(opened)
        for op in later_ops(archive, view, txid, folder, (RenameOldOp, RenameOp, DeleteOp)):
            if isinstance(op, RenameOldOp | RenameOp):
                names[clean_path(op.dst)] = _original(names, clean_path(op.src))
            if not isinstance(op, DeleteOp):
                continue
            path = _original(names, clean_path(op.path))
            if any(path[:cut] in counted for cut in range(1, len(path) + 1) if path[cut : cut + 1] in ("", "/")):
                continue
            found = browser.find(path.encode("utf-8", "surrogatepass"))
            if not isinstance(found, LocatedInode):
                continue
            content = browser.content(found).totals
            counted.add(path)
            deletions, files, length = deletions + 1, files + content.files, length + content.length
            if (at := op_time(op)) is not None:
                times.append(at)
    first_time, last_time = min(times, default=0), max(times, default=0)
    return LaterDeletions(deletions, files, length, first_time, last_time, reach(view.pieces, txid) - txid)


def _original(names: dict[str, str], path: str) -> str:
    """Return the path that an inode had at the moment, given its path after `names` renames."""
    for cut in range(len(path), 0, -1):
        if (cut == len(path) or path[cut] == "/") and path[:cut] in names:
            return names[path[:cut]] + path[cut:]
    return path
