"""Files open for write: the FILES_UNDERCONSTRUCTION section."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from engine.errors import NamespaceError
from engine.namespace.history import History
from engine.namespace.tree import Tree
from image_format.index import BaseImage
from image_format.inode_table import FILE, NO_ROW
from image_format.kernels.inode import DROPPED, LEASED
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

__all__ = ["FindRows", "Leases"]

FindRows = Callable[[Sequence[bytes]], Iterator[int | None]]

_SECTION = "FILES_UNDERCONSTRUCTION"


class Leases:
    """Inode ids of the files that hold a lease; who holds it stands in the file's own row.

    Hadoop 2.7's loader takes leases from the section, by path. Hadoop 3's gives one to every file under construction,
    those that only snapshots have included, and does not look at the section.

    Args:
        tree: every leased file is looked up in it at once (`read`), so that its path is known at the end.
        history: tells where files are that only snapshots have.
    """

    def __init__(self, tree: Tree, history: History) -> None:
        self._tree = tree
        self._history = history
        # Hadoop 2.7: leased files that no path has led to, by inode id
        self._unresolved: dict[int, pb.FileUnderConstructionEntry] = {}
        self.changed = False
        # Hadoop 3: open files of the base that their paths in the section do not lead to
        self._detached: set[int] = set()

    def read(self, base: BaseImage, find_rows: FindRows | None = None) -> None:
        """Start with the leases of an image that nothing was changed on yet.

        Args:
            find_rows: a quicker way than `Tree.find` for most of many paths, see `CompiledReplay.find_rows`.
        """
        tree, entries = self._tree, list(_entries(base))
        rows: Iterable[int | None] = (None for _ in entries)
        if find_rows is not None:
            rows = find_rows([entry.fullPath.encode() for entry in entries])
        for entry, found in zip(entries, rows, strict=True):
            row = self._row_at(entry) if found is None else self._checked(found, entry)
            if row != NO_ROW and (not tree.hadoop3 or tree.table.is_under_construction(row)):
                tree.table.marks[row] |= LEASED
            elif tree.hadoop3:
                self.changed = True
            else:
                self._unresolved[entry.inodeId] = entry
        if tree.hadoop3 and (self.changed or self._history.active):
            self._detached = set(base.open_file_ids().tolist()) - set(tree.table.id[self._leased()].tolist())
            self.changed = self.changed or bool(self._detached)

    @property
    def plain(self) -> bool:
        """Whether the marks of the rows say all: there are no leases that no path has led to."""
        return not self._unresolved and not self._detached

    def _leased(self) -> npt.NDArray[np.int64]:
        """Rows with the mark."""
        table = self._tree.table
        return np.flatnonzero(table.marks[: table.count] & LEASED)

    def _row_at(self, entry: pb.FileUnderConstructionEntry) -> int:
        """Row of the inode if its path leads to it, else `NO_ROW`."""
        try:
            row = self._tree.find(entry.fullPath)
        except NamespaceError:
            return NO_ROW
        return self._checked(row, entry)

    def _checked(self, row: int, entry: pb.FileUnderConstructionEntry) -> int:
        """`row`, or `NO_ROW` where another inode has the path."""
        return row if row != NO_ROW and int(self._tree.table.id[row]) == entry.inodeId else NO_ROW

    def add(self, row: int) -> None:
        inode_id = int(self._tree.table.id[row])
        self._detached.discard(inode_id)
        self._unresolved.pop(inode_id, None)
        self._tree.table.marks[row] |= LEASED
        self.changed = True

    def remove(self, row: int) -> None:
        inode_id, marks = int(self._tree.table.id[row]), self._tree.table.marks
        self._detached.discard(inode_id)
        if marks[row] & LEASED or inode_id in self._unresolved:
            marks[row] &= ~LEASED & 0xFF
            self._unresolved.pop(inode_id, None)
            self.changed = True

    def rows_below(self, row: int) -> Iterator[int]:
        """Rows of the leased files that are `row` or lie below it, or did so when a path last led to them."""
        table = self._tree.table
        if table.kind[row] == FILE:
            if table.marks[row] & LEASED or int(table.id[row]) in self.unresolved():
                yield row
            return
        detached = [self._history.load_detached(each) for each in self._detached if not self._tree.is_gone(each)]
        for leased in [*self._leased().tolist(), *map(self._tree.row, self._unresolved), *detached]:
            if leased != NO_ROW and not table.flags[leased] & DROPPED and self._tree.is_ancestor(row, leased):
                yield leased

    def unresolved(self) -> set[int]:
        """Ids of leased files that no path has led to."""
        return self._detached.union(self._unresolved)

    @property
    def keeps_paths(self) -> bool:
        """Whether entries count that no path has led to, so that `moved` has to be told the paths."""
        return bool(self._unresolved)

    def moved(self, source: str, target: str) -> None:
        """A file or directory moved: paths of leased files may differ."""
        self.changed = self.changed or bool(self._unresolved) or self._leased().size > 0
        for entry in self._unresolved.values():
            if entry.fullPath == source or entry.fullPath.startswith(source + "/"):
                entry.fullPath = target + entry.fullPath[len(source) :]

    def encode(self) -> bytes:
        table = self._tree.table
        rows = self._leased()
        rows = rows[table.flags[rows] & DROPPED == 0]
        rows = rows[np.argsort(table.id[rows])]
        path = self._history.full_path if self._history.active else self._tree.path
        leased = (self._encode(int(table.id[row]), path(row)) for row in rows.tolist())
        unresolved = (encode_delimited(e) for i, e in self._unresolved.items() if not self._tree.is_gone(i))
        return b"".join([*leased, *unresolved, *map(self._encode_detached, sorted(self._detached))])

    @staticmethod
    def _encode(inode_id: int, path: str) -> bytes:
        return encode_delimited(pb.FileUnderConstructionEntry(inodeId=inode_id, fullPath=path))

    def _encode_detached(self, inode_id: int) -> bytes:
        if self._tree.is_gone(inode_id):
            return b""
        path = self._history.full_path(self._history.load_detached(inode_id))
        return self._encode(inode_id, path)


def _entries(base: BaseImage) -> Iterator[pb.FileUnderConstructionEntry]:
    reader = MessageReader(base.section(_SECTION), base.place(_SECTION))
    while not reader.done:
        yield reader.read(pb.FileUnderConstructionEntry)
