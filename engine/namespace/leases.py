"""Files open for write: the FILES_UNDERCONSTRUCTION section."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from engine.errors import NamespaceError
from engine.namespace.history import History
from engine.namespace.tree import Tree
from image_format.index import BaseImage
from image_format.inode_table import FILE, NO_ROW
from image_format.kernels.inode import DROPPED, LEASED, UNDER_CONSTRUCTION
from image_format.kernels.open_files import NO_PATH, count_entries, encode_entries, entry_sizes, read_entries
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

FindRows = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64]], npt.NDArray[np.int64]]
"""Row that each path leads to, of rows of (start, size) in a buffer: `NO_ROW` where there is nothing, less than that
where only `Tree.find` can tell, as for a negative size."""

_SECTION = "FILES_UNDERCONSTRUCTION"
_MOST_OF_ENTRY = 32
"""Bytes of an entry beside its path."""


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
            find_rows: a quicker way than `Tree.find` for most of many paths.

        Raises:
            RecordError: the section is damaged.
        """
        tree, table = self._tree, self._tree.table
        section = base.section(_SECTION)
        reader = MessageReader(section, base.place(_SECTION))
        unmarked: npt.NDArray[np.int64] | None = None
        if section is not None and find_rows is not None and (count := int(count_entries(section))) > 0:
            offsets, ids, spans = (np.empty(shape, np.int64) for shape in (count, count, (count, 2)))
            read_entries(section, offsets, ids, spans)
            rows = find_rows(section, spans)
            found = np.flatnonzero(rows >= 0)
            opened = table.flags[rows[found]] & UNDER_CONSTRUCTION != 0
            fits = (table.id[rows[found]] == ids[found]) & (opened if tree.hadoop3 else True)
            table.marks[rows[found[fits]]] |= LEASED
            marked = np.zeros(count, np.bool_)
            marked[found[fits]] = True
            unmarked = offsets[~marked]
        for entry in reader.rest(pb.FileUnderConstructionEntry, None if unmarked is None else unmarked.tolist()):
            row = self._row_at(entry)
            if row != NO_ROW and (not tree.hadoop3 or table.is_under_construction(row)):
                table.marks[row] |= LEASED
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
        unresolved = (encode_delimited(e) for i, e in self._unresolved.items() if not self._tree.is_gone(i))
        return b"".join([*self._encode_rows(rows), *unresolved, *map(self._encode_detached, sorted(self._detached))])

    def _encode_rows(self, rows: npt.NDArray[np.int64]) -> Iterator[bytes]:
        """Entries of live files; by a kernel from the first row to the last that it knows the path of."""
        table, known = self._tree.table, np.zeros(rows.size, np.bool_)
        sizes = np.full(rows.size, NO_PATH, np.int64)
        if not self._history.active:
            entry_sizes(table.rows, table.names, rows, sizes)
            known = sizes != NO_PATH
        path = self._history.full_path if self._history.active else self._tree.path
        edges = [0, *(np.flatnonzero(np.diff(known)) + 1).tolist(), rows.size]
        for start, end in itertools.pairwise(edges):
            some = rows[start:end]
            if some.size and known[start]:
                out = np.empty(int(sizes[start:end].sum()) + _MOST_OF_ENTRY * some.size, np.uint8)
                yield out[: encode_entries(table.rows, table.names, some, sizes[start:end], out)].tobytes()
            else:
                yield from (self._encode(int(table.id[row]), path(row)) for row in some.tolist())

    @staticmethod
    def _encode(inode_id: int, path: str) -> bytes:
        return encode_delimited(pb.FileUnderConstructionEntry(inodeId=inode_id, fullPath=path))

    def _encode_detached(self, inode_id: int) -> bytes:
        if self._tree.is_gone(inode_id):
            return b""
        path = self._history.full_path(self._history.load_detached(inode_id))
        return self._encode(inode_id, path)
