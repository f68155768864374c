"""Paths and inode ids that edits touch, and the earlier paths of renamed files."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from journal.operation import EditOp
from journal.ops import ConcatDeleteOp, DeleteOp, RenameOldOp, RenameOp

_PATH_FIELDS = ("path", "src", "dst", "trg", "snapshot_root")
_MAX_RENAMES = 16
"""Maximum renames through which a path is followed back; inodes beyond are fetched on demand."""


class Rename(NamedTuple):
    """A rename in the edits."""

    txid: int
    source: str
    target: str


class TouchedPath(NamedTuple):
    """A path in an operation.

    Attributes:
        below: whether everything below the path is touched too, by a deletion.
    """

    txid: int
    path: str
    below: bool


def paths(op: EditOp) -> Iterator[str]:
    """Yield the paths in an operation."""
    for name in _PATH_FIELDS:
        path = getattr(op, name, None)
        # Paths of cache directives are not needed here, but harmless.
        if isinstance(path, str) and path.startswith("/"):
            yield path
    if isinstance(op, ConcatDeleteOp):
        yield from op.srcs


def inode_ids(ops: Iterable[EditOp]) -> set[int]:
    """Return the inode ids in operations, including those of new inodes."""
    found = {getattr(op, "inode_id", 0) for op in ops}
    found.discard(0)
    return found


def renames(ops: Iterable[EditOp]) -> Iterator[Rename]:
    """Yield the renames among operations."""
    for op in ops:
        if isinstance(op, RenameOp | RenameOldOp):
            yield Rename(op.txid, op.src, op.dst)


def touched_paths(ops: Iterable[EditOp]) -> list[TouchedPath]:
    """Return the paths in consecutive operations, each once between two renames."""
    found: list[TouchedPath] = []
    seen: set[tuple[str, bool]] = set()
    for op in ops:
        below = isinstance(op, DeleteOp)
        for path in paths(op):
            if (path, below) not in seen:
                seen.add((path, below))
                found.append(TouchedPath(op.txid, path, below))
        if isinstance(op, RenameOp | RenameOldOp):
            seen.clear()
    return found


class RenameLog:
    """Renames of the edits, which map a path in an edit to its possible paths in the base image."""

    def __init__(self, renamed: Iterable[Rename]) -> None:
        self._by_target: dict[str, list[tuple[int, str]]] = {}
        for txid, source, target in sorted(renamed):
            self._by_target.setdefault(target, []).append((txid, source))

    def origins(self, path: str, txid: int) -> Iterator[str]:
        """Yield `path`, then its path before each rename of it or of a directory above, newest first."""
        yield path
        for _ in range(_MAX_RENAMES if self._by_target else 0):
            step = self._last_before(path, txid)
            if step is None:
                return
            txid, path = step
            yield path

    def _last_before(self, path: str, txid: int) -> tuple[int, str] | None:
        newest: tuple[int, str] | None = None
        end = len(path)
        while end > 0:
            log = self._by_target.get(path[:end])
            at = bisect_left(log, (txid, "")) - 1 if log else -1
            if log and at >= 0 and (newest is None or log[at][0] > newest[0]):
                newest = log[at][0], log[at][1] + path[end:]
            end = path.rfind("/", 0, end)
        return newest
