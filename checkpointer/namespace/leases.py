"""Files open for write: the FILES_UNDERCONSTRUCTION section."""

from __future__ import annotations

from collections.abc import Iterator

from checkpointer.errors import NamespaceError
from checkpointer.namespace.history import History
from checkpointer.namespace.tree import Tree
from image_format.index import BaseImage
from image_format.inode_table import FILE, NO_ROW
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

__all__ = ["Leases"]

_SECTION = "FILES_UNDERCONSTRUCTION"


class Leases:
    """Inode ids of the files that hold a lease; who holds it stands in the file's own row.

    Args:
        base: image whose leases to start with.
        tree: every leased file is looked up in it at once, so that its path is known at the end.
        history: tells where files are that only snapshots have.
    """

    def __init__(self, base: BaseImage, tree: Tree, history: History) -> None:
        self._tree = tree
        self._history = history
        self._unresolved: dict[int, pb.FileUnderConstructionEntry] = {}
        self._ids: dict[int, None] = {}
        self.changed = False
        reader = MessageReader(base.section(_SECTION), base.place(_SECTION))
        while not reader.done:
            entry = reader.read(pb.FileUnderConstructionEntry)
            self._ids[entry.inodeId] = None
            if not self._leads_to(entry.fullPath, entry.inodeId):
                # Hadoop 3 ignores these paths, so a stale one is no damage.
                self._unresolved[entry.inodeId] = entry
        self._detached: set[int] = set()
        if tree.hadoop3 and history.active:
            # Hadoop 3's loader gives a lease to every open file, those that only snapshots have included.
            self._detached = set(base.open_file_ids().tolist()) - self._ids.keys()
            self.changed = bool(self._detached)

    def _leads_to(self, path: str, inode_id: int) -> bool:
        try:
            row = self._tree.find(path)
        except NamespaceError:
            return False
        return row != NO_ROW and int(self._tree.table.id[row]) == inode_id

    def add(self, inode_id: int) -> None:
        self._detached.discard(inode_id)
        self._ids[inode_id] = None
        self._unresolved.pop(inode_id, None)
        self.changed = True

    def remove(self, inode_id: int) -> None:
        self._detached.discard(inode_id)
        if inode_id in self._ids:
            del self._ids[inode_id]
            self._unresolved.pop(inode_id, None)
            self.changed = True

    def rows_below(self, row: int) -> Iterator[int]:
        """Rows of the leased files that are `row` or lie below it."""
        if self._tree.table.kind[row] == FILE:
            if int(self._tree.table.id[row]) in self._ids:
                yield row
            return
        for inode_id in list(self._ids):
            leased = self._tree.row(inode_id)
            if leased != NO_ROW and self._tree.is_ancestor(row, leased):
                yield leased

    def unresolved(self) -> Iterator[int]:
        """Ids of leased files that no path has led to: only their entries tell where they are."""
        yield from self._unresolved

    @property
    def keeps_paths(self) -> bool:
        """Whether there are entries that no path has led to, so that `moved` has to be told the paths."""
        return bool(self._unresolved)

    def moved(self, source: str, target: str) -> None:
        """A file or directory moved: paths of leased files may differ."""
        self.changed = self.changed or bool(self._ids)
        for entry in self._unresolved.values():
            if entry.fullPath == source or entry.fullPath.startswith(source + "/"):
                entry.fullPath = target + entry.fullPath[len(source) :]

    def encode(self) -> bytes:
        entries = [*map(self._encode_entry, self._ids), *map(self._encode_detached, sorted(self._detached))]
        return b"".join(entries)

    def _encode_detached(self, inode_id: int) -> bytes:
        if self._tree.is_gone(inode_id):
            return b""
        path = self._history.full_path(self._history.load_detached(inode_id))
        return encode_delimited(pb.FileUnderConstructionEntry(inodeId=inode_id, fullPath=path))

    def _encode_entry(self, inode_id: int) -> bytes:
        entry = self._unresolved.get(inode_id)
        if entry is not None:
            return b"" if self._tree.is_gone(inode_id) else encode_delimited(entry)
        row = self._tree.row(inode_id)
        if row == NO_ROW:
            return b""
        return encode_delimited(pb.FileUnderConstructionEntry(inodeId=inode_id, fullPath=self._tree.path(row)))
