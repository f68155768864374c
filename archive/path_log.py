"""Every transaction that touched a path, through its renames in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from archive.archive import Archive
from archive.history import BranchView, Piece
from archive.path_filter import may_contain
from archive.restoring import fetch_segment
from journal.op_times import clean_path, covers, op_paths, op_time, spreads
from journal.operation import EditOp
from journal.ops import RenameOldOp, RenameOp
from journal.segment_file import read_ops

_FIRST, _LAST = 0, (1 << 63) - 1


class LogEntry(NamedTuple):
    """A transaction that touched the path under the name `known_as`; `time` in ms since the epoch, 0 if unknown.

    `approximate` means that the transaction has no time of its own, and `time` is that of the one before it.
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

    A rename of the path, or of a directory above it, adds the other name: the new one for later transactions, the old
    one for earlier transactions.

    Args:
        folder: for scratch files.

    Raises:
        ArchiveDamagedError: an object that may have such a transaction is damaged.
    """
    entries: dict[int, LogEntry] = {}
    pending = [_Name(clean_path(path), _FIRST, _LAST)]
    seen: set[_Name] = set()
    pieces = sorted(view.pieces, key=lambda each: (each.record.first, -each.last))
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for piece in pieces:
            if piece.last < name.first or piece.record.first > name.last:
                continue
            for entry, op in _matches(archive, piece, name, folder):
                entries.setdefault(entry.txid, entry)
                pending += _other_names(op, name)
    return [entries[txid] for txid in sorted(entries)]


def _matches(archive: Archive, piece: Piece, name: _Name, folder: Path) -> Iterator[tuple[LogEntry, EditOp]]:
    with archive.reading(piece.record.name) as reader:
        if not may_contain(reader.footer.path_filter, name.path):
            return
    segment = fetch_segment(archive, piece.record, folder, piece.last)
    before = piece.record.first_time
    try:
        for op in read_ops(segment):
            at = op_time(op)
            before = at or before
            if name.first <= op.txid <= name.last and _touches(op, name.path):
                paths = tuple(op_paths(op))
                yield LogEntry(op.txid, before, at is None, op.name, paths, name.path), op
    finally:
        segment.path.unlink(missing_ok=True)


def _touches(op: EditOp, path: str) -> bool:
    wide = spreads(op)
    named = map(clean_path, op_paths(op))
    return any(covers(path, each) or (wide and covers(each, path)) for each in named)


def _other_names(op: EditOp, name: _Name) -> Iterator[_Name]:
    if not isinstance(op, RenameOldOp | RenameOp):
        return
    src, dst = clean_path(op.src), clean_path(op.dst)
    if covers(src, name.path):
        yield _Name(dst + name.path[len(src) :], op.txid + 1, name.last)
    if covers(dst, name.path):
        yield _Name(src + name.path[len(dst) :], name.first, op.txid - 1)
