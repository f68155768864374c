"""Finds every transaction that touched a path, and follows the path's renames forwards and backwards."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from archive.archive import Archive
from archive.fetching import fetch_segment
from archive.moments import BranchView, Piece
from archive.path_filter import may_contain
from journal.op_times import clean_path, covers, op_paths, op_time, spreads
from journal.operation import EditOp
from journal.ops import RenameOldOp, RenameOp
from journal.segment_file import read_ops

_FIRST, _LAST = 0, (1 << 63) - 1


class LogEntry(NamedTuple):
    """A transaction that touched the path under the name `known_as`; `time` is in ms since the epoch, or 0 if unknown.

    `approximate` means that the transaction does not record a time; `time` then belongs to the previous transaction.
    """

    txid: int
    time: int
    approximate: bool
    operation: str
    paths: tuple[str, ...]
    known_as: str


class _Name(NamedTuple):
    """A name of the path, valid for transactions `first` to `last`."""

    path: str
    first: int
    last: int


def path_log(archive: Archive, view: BranchView, path: str, folder: Path) -> list[LogEntry]:
    """Return the transactions on `path` and below it, and on directories above it that are deleted or renamed.

    A rename of the path, or of a directory above it, adds the other name to the search. Later transactions are searched
    for the new name, and earlier transactions for the old name. Each transaction is searched at most once for each
    name, so names that are swapped every day cost no more than a single rename.

    Args:
        folder: folder for scratch files.

    Raises:
        ArchiveDamagedError: an object that may contain one of these transactions is damaged.
    """
    entries: dict[int, LogEntry] = {}
    searched: dict[str, list[_Name]] = {}
    pending = [_Name(clean_path(path), _FIRST, _LAST)]
    pieces = sorted(view.pieces, key=lambda each: (each.record.first, -each.last))
    while pending:
        # one pass over the edits for all names that the previous pass found
        names = [part for name in pending for part in _unsearched(searched, name)]
        pending = []
        for piece in pieces:
            for entry, op, name in _matches(archive, piece, names, folder):
                entries.setdefault(entry.txid, entry)
                pending += _other_names(op, name)
    return [entries[txid] for txid in sorted(entries)]


def _unsearched(searched: dict[str, list[_Name]], name: _Name) -> list[_Name]:
    """Return the parts of `name` that no earlier pass has searched, and record them as searched."""
    left = [name]
    known = searched.setdefault(name.path, [])
    for done in known:
        left = [
            part
            for each in left
            for part in (
                each._replace(last=min(each.last, done.first - 1)),
                each._replace(first=max(each.first, done.last + 1)),
            )
            if part.first <= part.last
        ]
    known += left
    return left


def _matches(
    archive: Archive, piece: Piece, names: Sequence[_Name], folder: Path
) -> Iterator[tuple[LogEntry, EditOp, _Name]]:
    near = [each for each in names if each.first <= piece.last and piece.record.first <= each.last]
    if not near:
        return
    with archive.reading(piece.record.name) as reader:
        path_filter = reader.footer.path_filter
    by_path: dict[str, list[_Name]] = {}
    for name in near:
        if may_contain(path_filter, name.path):
            by_path.setdefault(name.path, []).append(name)
    if not by_path:
        return
    segment = fetch_segment(archive, piece.record, folder, piece.last)
    before = piece.record.first_time
    try:
        for op in read_ops(segment):
            at = op_time(op)
            before = at or before
            for path in _touched(op, by_path):
                for name in by_path[path]:
                    if name.first <= op.txid <= name.last:
                        yield LogEntry(op.txid, before, at is None, op.name, tuple(op_paths(op)), path), op, name
    finally:
        segment.path.unlink(missing_ok=True)


def _touched(op: EditOp, paths: Collection[str]) -> set[str]:
    """Return the paths among `paths` that `op` names, that are above a path of `op`, or that `op` moves or deletes."""
    named = [clean_path(each) for each in op_paths(op)]
    found = {above for each in named for above in _with_parents(each) if above in paths}
    if spreads(op):
        found.update(path for path in paths if any(covers(each, path) for each in named))
    return found


def _with_parents(path: str) -> Iterator[str]:
    while path != "/":
        yield path
        path = path[: path.rindex("/")] or "/"
    yield path


def _other_names(op: EditOp, name: _Name) -> Iterator[_Name]:
    if not isinstance(op, RenameOldOp | RenameOp):
        return
    src, dst = clean_path(op.src), clean_path(op.dst)
    if covers(src, name.path):
        yield _Name(dst + name.path[len(src) :], op.txid + 1, name.last)
    if covers(dst, name.path):
        yield _Name(src + name.path[len(dst) :], name.first, op.txid - 1)
