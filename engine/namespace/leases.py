"""Files that are open for writing: the FILES_UNDERCONSTRUCTION section."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.errors import NamespaceError
from engine.namespace.diff_recorder import DiffRecorder
from engine.namespace.op_paths import has_odd_slashes
from engine.namespace.tree import Tree
from image_format.index import ImageIndex
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DROPPED, FILE, LEASED, UNDER_CONSTRUCTION
from image_format.kernels.open_files import (
    NO_PATH,
    UNREAD_DTYPE,
    count_entries,
    encode_entries,
    entry_sizes,
    read_entries,
)
from image_format.kernels.tables import UNKNOWN
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited


def is_covered(path: str, prefix: str) -> bool:
    """Return whether a rename or removal of `prefix` affects a lease's path (LeaseManager.findLeaseWithPrefixPath)."""
    return path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix) :][:1] in ("", "/"))


class LeasePaths:
    """Leases of Hadoop 2.7 with paths other than the paths of their files.

    A Hadoop 2.7 NameNode stores leases by path, with the spelling of the operations (LeaseManager.sortedLeasesByPath),
    and changes these strings at renames and closes. If the source of a rename ends with a slash, a lease's path loses a
    separator: a rename of `/a/` to `/b` changes `/a/f` to `/bf`. If only the target ends with a slash, the path
    contains a double slash and is invalid. When an image is written, each path is resolved; a path that does not lead
    to an open file is not written. As in a NameNode, the lease of that path nevertheless remains: if a file is opened
    at the path later, the lease applies to that file. While this class stores paths, plain functions instead of kernels
    replay closes, renames and removals.
    """

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._paths))

    def add(self, path: str) -> None:
        self._paths.add(path)

    def remove_below(self, prefix: str) -> None:
        """Remove the leases at `prefix` and below, after a close or removal."""
        self._paths = {path for path in self._paths if not is_covered(path, prefix)}

    def rename(self, source: str, target: str) -> None:
        """Apply a rename; the paths are spelled as in the operation (LeaseManager.changeLease)."""
        self._paths = {target + path[len(source) :] if is_covered(path, source) else path for path in self._paths}

    def detach(self, path: str, source: str, target: str) -> None:
        """Add the path of a plain lease after a rename that may separate the lease from its file; see `separates`."""
        self._paths.add(target + path[len(source) :] if is_covered(path, source) else path)


def separates(source: str, target: str) -> bool:
    """Return whether a rename may separate leases from their files because of the spelling of its paths."""
    return has_odd_slashes(source) or has_odd_slashes(target)


Rows = npt.NDArray[np.int64]
UnreadFiles = npt.NDArray[np.void]
"""`UNREAD_DTYPE`."""


class OpenFileFinder(Protocol):
    """Fast finder of many open files of an unchanged base image."""

    def find_open_files(self, section: npt.NDArray[np.uint8], spans: Rows, ids: Rows) -> tuple[Rows, UnreadFiles]:
        """Return (numbers of valid entries, their files), by ascending id; the plain parser must read other entries.

        Args:
            section: the section with the paths.
            spans: rows of (start, size); the size is negative if kernels cannot read the path.
            ids: ids of the inodes at these paths.
        """

    def load_open_files(self, files: UnreadFiles) -> None:
        """Create rows for the unchanged `files` that kernels can read."""


_SECTION = "FILES_UNDERCONSTRUCTION"
_MAX_ENTRY_OVERHEAD = 32
"""Maximum size of an entry in bytes, without its path."""


class Leases:
    """Files with a lease; the row of the file contains the holder.

    An open file of the base receives its row when the file is first used. Until then, if its entry is valid,
    `Tree.leased_ids` contains its id, and its path is derived from the row of its directory. If snapshots may exist,
    all open files have rows (`read_files`).

    Hadoop 2.7's loader reads leases from the section, by path; `LeasePaths` contains the paths with odd slashes. Hadoop
    3's loader ignores the section and gives a lease to every file under construction, including files that exist only
    in snapshots.

    Args:
        tree: tree in which `read` looks up leased files or their directories, so that their paths are known later.
        recorder: returns paths of files that exist only in snapshots.
    """

    def __init__(self, tree: Tree, recorder: DiffRecorder) -> None:
        self._tree = tree
        self._recorder = recorder
        # Hadoop 2.7: leased files that were not found at their paths, by inode id.
        self._unresolved: dict[int, pb.FileUnderConstructionEntry] = {}
        self._odd = LeasePaths()
        self.changed = False
        # Hadoop 3: open files of the base that are not at their paths in the section.
        self._detached: set[int] = set()
        self._all_read = False
        self._finder: OpenFileFinder | None = None
        # Read-only: kernels are compiled for read-only sections.
        self._section: npt.NDArray[np.uint8] = np.frombuffer(b"", np.uint8)
        # Open files that had no row when the section was read, by ascending id.
        self._found: UnreadFiles = np.zeros(0, UNREAD_DTYPE)

    def read(self, base: ImageIndex, finder: OpenFileFinder | None = None) -> None:
        """Read the leases of an unchanged image.

        Args:
            finder: finds most open files faster than the plain parser and `Tree.find`.

        Raises:
            RecordError: the section is damaged.
        """
        tree, table = self._tree, self._tree.table
        section = base.section(_SECTION)
        reader = MessageReader(section, base.place(_SECTION))
        others: Rows | None = None
        if section is not None and finder is not None and (count := int(count_entries(section))) > 0:
            offsets, ids, spans = (np.empty(shape, np.int64) for shape in (count, count, (count, 2)))
            read_entries(section, offsets, ids, spans)
            base.begin_reads(ids)
            numbers, files = finder.find_open_files(section, spans, ids)
            others = np.delete(offsets, numbers)
            self._finder, self._section = finder, section
            self._keep(files)
        for entry in reader.rest(pb.FileUnderConstructionEntry, None if others is None else others.tolist()):
            if self._is_odd(entry.fullPath):
                self._odd.add(entry.fullPath)
                continue
            row = self._row_at(entry)
            if row != NO_ROW and (not tree.hadoop3 or table.is_under_construction(row)):
                table.marks[row] |= LEASED
            elif tree.hadoop3:
                self.changed = True
            else:
                self._unresolved[entry.inodeId] = entry
        if tree.hadoop3 and (self.changed or self._recorder.lookup.active):
            leased = np.concatenate([tree.table.id[self._leased()], tree.leased_ids])
            self._detached = set(np.setdiff1d(base.open_file_ids(), leased).tolist())
            self.changed = self.changed or bool(self._detached)

    def _keep(self, files: UnreadFiles) -> None:
        self._found, self._tree.leased_ids = files, np.ascontiguousarray(files["id"])

    def _unread(self) -> UnreadFiles:
        """Return the leased files of the base that are unchanged and have not moved."""
        tree = self._tree
        unread = tree.table.row_of.get_all(tree.leased_ids) == UNKNOWN
        found: UnreadFiles = self._found[unread & ~tree.dropped[self._found["slot"]]]
        return found

    def read_files(self) -> None:
        """Create a row for each leased file before operations such as snapshots may affect files that were not read."""
        self._all_read = True
        if self._finder is not None and self._found.size:
            self._finder.load_open_files(self._unread())
        for file in self._unread():
            self._tree.child(int(file["directory"]), self._name(file))
        self._keep(self._found[:0])

    def unread_ids(self) -> Rows:
        """Return the ids of all leased base files without a row, including files that were not found at their paths."""
        others = np.array([*self._detached, *self._unresolved], np.int64)
        ids = np.concatenate([self._tree.leased_ids, others])
        found: Rows = ids[self._tree.table.row_of.get_all(ids) == UNKNOWN]
        return found

    def _name(self, file: np.void) -> bytes:
        start = int(file["name_offset"])
        return self._section[start : start + int(file["name_length"])].tobytes()

    @property
    def differ(self) -> bool:
        """Whether the section differs from the base image."""
        return self.changed or bool(self._odd) or bool(self._tree.dropped[self._found["slot"]].any())

    @property
    def plain(self) -> bool:
        """Whether the rows' marks cover all leases: every leased file was found at its path."""
        return not self._unresolved and not self._detached and not self._odd

    def _leased(self) -> npt.NDArray[np.int64]:
        """Return the rows with the `LEASED` mark."""
        table = self._tree.table
        return np.flatnonzero(table.marks[: table.count] & LEASED)

    def _row_at(self, entry: pb.FileUnderConstructionEntry) -> int:
        """Return the row of an entry's inode if the inode is at the entry's path, otherwise `NO_ROW`."""
        row = self._leads_to(entry.fullPath)
        return row if row != NO_ROW and int(self._tree.table.id[row]) == entry.inodeId else NO_ROW

    def _is_odd(self, path: str) -> bool:
        """Return whether `LeasePaths` stores leases with this path."""
        return not self._tree.hadoop3 and has_odd_slashes(path)

    def add(self, row: int, path: str = "") -> None:
        """Add a lease to a file without a lease.

        Args:
            path: the spelling in the operation; by default, the plain path of the file.
        """
        self.changed = True
        if self._is_odd(path):
            self._odd.add(path)
            return
        inode_id = int(self._tree.table.id[row])
        self._detached.discard(inode_id)
        self._unresolved.pop(inode_id, None)
        self._tree.table.marks[row] |= LEASED

    def closed(self, row: int, path: str) -> None:
        """Handle the close of a file by `path`, which may be spelled differently from the path of the lease."""
        if self._odd:
            self._odd.remove_below(path)
        if self._is_odd(path):
            # the lease stays, but `encode` omits a file that is not under construction
            self.changed = True
        else:
            self.remove(row)

    def removed(self, row: int, path: str) -> None:
        """Prepare for the removal of an inode by `path`, whose spelling may not cover all leases below the inode."""
        if self._odd:
            self._odd.remove_below(path)
        # the path of a directory with one trailing slash covers everything below it
        if self._is_odd(path) and (self._tree.table.kind[row] == FILE or path != f"{self._tree.path(row)}/"):
            for leased in map(self._tree.path, self.rows_below(row)):
                if not is_covered(leased, path):
                    self._odd.add(leased)

    def remove(self, row: int) -> None:
        inode_id, marks = int(self._tree.table.id[row]), self._tree.table.marks
        self._detached.discard(inode_id)
        if marks[row] & LEASED or inode_id in self._unresolved:
            marks[row] &= ~LEASED & 0xFF
            self._unresolved.pop(inode_id, None)
            self.changed = True

    def rows_below(self, row: int) -> Iterator[int]:
        """Yield the rows of leased files at or below `row`, according to the last known places of the files."""
        table = self._tree.table
        if table.kind[row] == FILE:
            if table.marks[row] & LEASED or int(table.id[row]) in self.unresolved():
                yield row
            return
        self.read_files()
        detached = [
            self._recorder.lookup.load_detached(each) for each in self._detached if not self._tree.is_gone(each)
        ]
        for leased in [*self._leased().tolist(), *map(self._tree.row, self._unresolved), *detached]:
            if leased != NO_ROW and not table.flags[leased] & DROPPED and self._tree.is_ancestor(row, leased):
                yield leased

    def unresolved(self) -> set[int]:
        """Return the ids of leased files that were not found at their paths."""
        return self._detached.union(self._unresolved)

    @property
    def keeps_paths(self) -> bool:
        """Whether the files of some entries were not found; `moved` then needs the paths."""
        return bool(self._unresolved)

    def respelled(self, row: int, source: str, target: str) -> None:
        """Prepare for the move of a file or directory, with paths as the operation spells them."""
        if self._tree.hadoop3:
            return
        if self._odd:
            self._odd.rename(source, target)
        if separates(source, target):
            for leased in list(self.rows_below(row)):
                self.remove(leased)
                self._odd.detach(self._tree.path(leased), source, target)

    def replaced(self, row: int, source: int) -> None:
        """Prepare for a move of `source` to the place of `row`; a Hadoop 2.7 NameNode retains the lease of `row` by
        path.

        FSDirRenameOp removes the leases at the source's path only. The retained lease matters if `source` is open with
        another lease. If `source` is closed, the retained lease has no effect of its own: it would only repeat the
        entry of a file that is later opened at this place by a path with odd slashes.
        """
        table = self._tree.table
        if not self._tree.hadoop3 and table.marks[row] & LEASED and table.is_under_construction(source):
            self._odd.add(self._tree.path(row))

    def moved(self, source: str, target: str) -> None:
        """Handle the move of a file or directory, which may change paths of leased files."""
        self.changed = self.changed or bool(self._unresolved or self._found.size or self._leased().size)
        for entry in self._unresolved.values():
            if entry.fullPath == source or entry.fullPath.startswith(source + "/"):
                entry.fullPath = target + entry.fullPath[len(source) :]

    def encode(self) -> bytes:
        table = self._tree.table
        rows, unread = self._leased(), self._unread()
        rows = rows[table.flags[rows] & DROPPED == 0]
        if not self._tree.hadoop3:
            # Exclude files that were closed by a path other than the path of their lease.
            rows = rows[table.flags[rows] & UNDER_CONSTRUCTION != 0]
        wanted = np.concatenate([rows, ~np.arange(unread.size)])
        wanted = wanted[np.argsort(np.concatenate([table.id[rows], unread["id"]]))]
        unresolved = (encode_delimited(e) for i, e in self._unresolved.items() if not self._tree.is_gone(i))
        detached = map(self._encode_detached, sorted(self._detached))
        return b"".join([*self._encode_files(wanted, unread), *unresolved, *detached, *self._encode_odd()])

    def _encode_files(self, wanted: Rows, unread: UnreadFiles) -> Iterator[bytes]:
        """Encode the entries of live files; a kernel encodes the entries whose paths it can build.

        Args:
            wanted: rows, or inverted indexes of `unread`.
        """
        table, known = self._tree.table, np.zeros(wanted.size, np.bool_)
        sizes = np.full(wanted.size, NO_PATH, np.int64)
        files = table.rows, table.names, unread, self._section
        if not self._in_snapshots:
            entry_sizes(*files, wanted, sizes)
            known = sizes != NO_PATH
        edges = [0, *(np.flatnonzero(np.diff(known)) + 1).tolist(), wanted.size]
        for start, end in itertools.pairwise(edges):
            some = wanted[start:end]
            if some.size and known[start]:
                out = np.empty(int(sizes[start:end].sum()) + _MAX_ENTRY_OVERHEAD * some.size, np.uint8)
                yield out[: encode_entries(*files, some, sizes[start:end], out)].tobytes()
            else:
                for row in some.tolist():
                    yield self._encode_row(row) if row >= 0 else self._encode_unread(unread[~row])

    @property
    def _in_snapshots(self) -> bool:
        """Whether only the recorder can build the paths of files."""
        return self._all_read and self._recorder.lookup.active

    def _encode_row(self, row: int) -> bytes:
        path = self._recorder.lookup.full_path if self._in_snapshots else self._tree.path
        return self._encode(int(self._tree.table.id[row]), path(row))

    def _encode_unread(self, file: np.void) -> bytes:
        return self._encode(int(file["id"]), f"{self._tree.path(int(file['directory']))}/{self._name(file).decode()}")

    @staticmethod
    def _encode(inode_id: int, path: str) -> bytes:
        return encode_delimited(pb.FileUnderConstructionEntry(inodeId=inode_id, fullPath=path))

    def _encode_odd(self) -> Iterator[bytes]:
        table = self._tree.table
        for path in self._odd:
            row = self._leads_to(path)
            if row == NO_ROW or not table.is_under_construction(row):
                continue
            if not (table.marks[row] & LEASED and self._tree.path(row) == path):
                # encode a lone surrogate as Java does
                yield self._encode(int(table.id[row]), path.encode("utf-8", "replace").decode("utf-8"))

    def _leads_to(self, path: str) -> int:
        """Return the row of the file at a path, or `NO_ROW` if the file does not exist."""
        try:
            row = self._tree.paths.find(path)
        except NamespaceError:
            return NO_ROW
        return row if row == NO_ROW or self._tree.table.kind[row] == FILE else NO_ROW

    def _encode_detached(self, inode_id: int) -> bytes:
        if self._tree.is_gone(inode_id):
            return b""
        path = self._recorder.lookup.full_path(self._recorder.lookup.load_detached(inode_id))
        return self._encode(inode_id, path)
