"""The directory tree of the delta: look-up, insertion and removal over an untouched base image."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from checkpointer.errors import NamespaceError, UnsupportedNamespaceError
from image_format.errors import ImageFormatError
from image_format.index import BaseImage, Ids
from image_format.inode_table import DIRECTORY, NO_ROW, InodeTable
from image_format.kernels.inode import DIRTY, DROPPED, UNKNOWN_FIELDS

__all__ = ["ROOT_ID", "ROOT_ROW", "Tree", "encodable", "encode_name", "split_path"]

ROOT_ID = 16385
ROOT_ROW = 0
_LARGEST_QUOTA = (1 << 63) - 1


def encode_name(name: str) -> bytes:
    """A path component as an inode name: UTF-8, a lone surrogate becomes '?' as in Java."""
    return name.encode("utf-8", "replace")


def encodable(text: str) -> str:
    """`text` as a NameNode writes it into an image: a lone surrogate becomes '?'."""
    return text.encode("utf-8", "replace").decode()


def split_path(path: str) -> list[bytes]:
    """Components of an absolute path; the root has none.

    Raises:
        NamespaceError: the path is not absolute.
    """
    if not path.startswith("/"):
        raise NamespaceError(f"path {path!r} is not absolute")
    return [encode_name(part) for part in path.split("/") if part]


class Tree:
    """Inodes by path and by id: rows of touched inodes, and for each touched directory the names looked up in it.

    `entries[directory row][name]` is the row of the child, or `NO_ROW` where the directory has no child of that
    name any more (or never had). A name that is not there is still as the base image says; `changes` is the part
    that differs from it.

    Args:
        base: the image below.
        table: rows of the inodes touched so far; row 0 becomes the root.
        diff_owners: ids of inodes with snapshot diffs, which this tree does not change.
    """

    def __init__(self, base: BaseImage, table: InodeTable, diff_owners: frozenset[int] = frozenset()) -> None:
        self.base = base
        self.table = table
        self.entries: dict[int, dict[bytes, int]] = {}
        self.changes: dict[int, dict[bytes, int]] = {}
        self.dropped: npt.NDArray[np.bool_] = np.zeros(base.slot_count, np.bool_)
        self.inode_count = base.slot_count
        self._diff_owners = diff_owners
        self._watched: Ids = np.array(sorted(diff_owners), np.int64)
        self._directory_cache: dict[str, int] = {}
        if self._load(ROOT_ID) != ROOT_ROW:
            raise ImageFormatError(
                f"no root inode {ROOT_ID}",
                file=base.file,
                section="INODE",
                hint="Use another copy of the image.",
            )

    # ---- look-up -------------------------------------------------------------------------------------------

    def _load(self, inode_id: int) -> int:
        """Row of an inode of the base image, decoded if need be; NO_ROW for one the image does not have (now)."""
        row = self.table.row_of.get(inode_id)
        if row is not None:
            return row
        slot = self.base.slot(inode_id)
        if slot < 0 or self.dropped[slot]:
            return NO_ROW
        row = self.table.load(self.base.inode_buffer, self.base.inode_offset(slot), slot)
        self._default_namespace_quota(row)
        return row

    def _default_namespace_quota(self, row: int) -> None:
        """Hadoop's loader gives a directory that has only storage type quotas the largest namespace quota."""
        table = self.table
        limited = table.kind[row] == DIRECTORY and bool(table.feature(row).type_quotas)
        if limited and table.ns_quota[row] < 0 and table.ds_quota[row] < 0 and not table.flags[row] & UNKNOWN_FIELDS:
            table.ns_quota[row] = _LARGEST_QUOTA
            table.flags[row] |= DIRTY

    def watch(self, inode_ids: Iterable[int]) -> None:
        """`drop` is to tell of these inodes of the base even where no path has led to them."""
        self._watched = np.union1d(self._watched, np.fromiter(inode_ids, np.int64))

    def load_type_quotas(self) -> None:
        """Load the directories whose records are not as Hadoop would have loaded them, so that they are rewritten.

        The last step before writing: the rows have no place in the tree.
        """
        for inode_id in self.base.type_quota_ids.tolist():
            self._load(inode_id)

    def row(self, inode_id: int) -> int:
        """Row of a live inode that a path has led to before, `NO_ROW` otherwise."""
        row = self.table.row_of.get(inode_id, NO_ROW)
        return NO_ROW if row != NO_ROW and self.table.flags[row] & DROPPED else row

    def child(self, directory: int, name: bytes) -> int:
        """Row of the child called `name`, `NO_ROW` where there is none.

        Raises:
            UnsupportedNamespaceError: the directory has snapshot diffs or references.
        """
        names = self.entries.get(directory)
        if names is None:
            names = self._open_directory(directory)
        row = names.get(name)
        if row is None:
            row = NO_ROW
            if self.table.slot[directory] >= 0:
                inode_id = self.base.child(int(self.table.id[directory]), name)
                if inode_id:
                    row = self._load(inode_id)
                    self.table.parent[row] = directory
            names[name] = row
        return row

    def _open_directory(self, directory: int) -> dict[bytes, int]:
        inode_id = int(self.table.id[directory])
        if inode_id in self._diff_owners:
            raise UnsupportedNamespaceError(f"directory {self.path(directory)} has snapshots")
        if self.base.reference_children(inode_id).size:
            raise UnsupportedNamespaceError(f"directory {self.path(directory)} has children renamed since a snapshot")
        names: dict[bytes, int] = {}
        self.entries[directory] = names
        return names

    def find(self, path: str) -> int:
        """Row of the inode at an absolute path, `NO_ROW` where there is none."""
        head, _, last = path.rpartition("/")
        if not last:
            return self._walk(path)
        directory = self._directory(head)
        return NO_ROW if directory == NO_ROW else self.child(directory, encode_name(last))

    def _walk(self, path: str) -> int:
        row = ROOT_ROW
        for name in split_path(path or "/"):
            row = self.child(row, name)
            if row == NO_ROW:
                return NO_ROW
        return row

    def _directory(self, path: str) -> int:
        row = self._directory_cache.get(path)
        if row is None:
            row = self._walk(path)
            # Absent paths and files are not cached: making a directory there would have to find and forget them.
            if row != NO_ROW and self.table.kind[row] == DIRECTORY:
                self._directory_cache[path] = row
        return row

    def find_parent(self, path: str) -> tuple[int, bytes]:
        """(row of the directory that holds or would hold `path`, local name).

        Raises:
            NamespaceError: that directory does not exist, or is none.
        """
        head, _, last = path.rpartition("/")
        if not last:
            raise NamespaceError(f"{path!r} has no parent directory")
        directory = self._directory(head)
        if directory == NO_ROW or self.table.kind[directory] != DIRECTORY:
            raise NamespaceError(f"parent directory of {path} does not exist")
        return directory, encode_name(last)

    def is_gone(self, inode_id: int) -> bool:
        """Whether there is no such inode, or no more."""
        row = self.table.row_of.get(inode_id)
        if row is not None:
            return bool(self.table.flags[row] & DROPPED)
        slot = self.base.slot(inode_id)
        return slot < 0 or bool(self.dropped[slot])

    def path(self, row: int) -> str:
        """Absolute path of a live inode."""
        parts: list[bytes] = []
        while row != ROOT_ROW:
            parts.append(self.table.name(row))
            row = int(self.table.parent[row])
        return "/" + b"/".join(reversed(parts)).decode("utf-8", "replace")

    def is_ancestor(self, ancestor: int, row: int) -> bool:
        """Whether `row` is `ancestor` or lies below it."""
        while row not in (ancestor, ROOT_ROW):
            row = int(self.table.parent[row])
        return row == ancestor

    def children(self, directory: int) -> Iterator[tuple[bytes, int]]:
        """(name, row) of every child, in no order; loads all of them."""
        inode_id = int(self.table.id[directory])
        if self.table.slot[directory] >= 0:
            for child in self.base.children(inode_id).tolist():
                if child not in self.table.row_of:
                    row = self._load(child)
                    self.table.parent[row] = directory
                    self.entries.setdefault(directory, {})[self.table.name(row)] = row
        yield from ((n, r) for n, r in list(self.entries.get(directory, {}).items()) if r != NO_ROW)

    # ---- change --------------------------------------------------------------------------------------------

    def touch(self, row: int) -> None:
        """Mark a row as changed.

        Raises:
            UnsupportedNamespaceError: it is in a snapshot, or its record has fields this version does not know,
                which a rewrite would lose.
        """
        inode_id = int(self.table.id[row])
        if self.table.flags[row] & UNKNOWN_FIELDS:
            offset = self.base.inode_offset(int(self.table.slot[row]))
            raise UnsupportedNamespaceError(
                f"inode {inode_id} ({self.path(row)}; {self.base.file}, section INODE, offset {offset}) "
                "has fields this version does not know"
            )
        if inode_id in self._diff_owners:
            raise UnsupportedNamespaceError(f"{self.path(row)} is in a snapshot")
        self.table.flags[row] |= DIRTY

    def raise_mtime(self, directory: int, mtime: int) -> None:
        """A directory's modification time never goes back (INode.updateModificationTime)."""
        if mtime > self.table.mtime[directory]:
            self.touch(directory)
            self.table.mtime[directory] = mtime

    def _set_entry(self, directory: int, name: bytes, row: int) -> None:
        changed = self.changes.get(directory)
        if changed is None:
            inode_id = int(self.table.id[directory])
            if self.base.has_unknown_fields(inode_id):
                raise UnsupportedNamespaceError(
                    f"the entry of directory {self.path(directory)} ({self.base.file}, section INODE_DIR) "
                    "has fields this version does not know"
                )
            changed = self.changes[directory] = {}
        self.entries[directory][name] = changed[name] = row

    def insert(self, directory: int, name: bytes, row: int) -> None:
        """Make `row` the child `name`, which the directory must not have."""
        self._set_entry(directory, name, row)
        self.table.parent[row] = directory
        self.raise_mtime(directory, int(self.table.mtime[row]))

    def add(self, directory: int, name: bytes, inode_id: int, kind: int) -> int:
        """A new inode that is not in the tree yet; `insert` puts it there once its times are set.

        Raises:
            NamespaceError: the id is taken, or none that an inode below the root may have.
        """
        if inode_id <= ROOT_ID:
            raise NamespaceError(f"inode id {inode_id} of {self.path(directory)}/{name!r} is reserved")
        if inode_id in self.table.row_of or self.base.slot(inode_id) >= 0:
            raise NamespaceError(f"inode id {inode_id} of {self.path(directory)}/{name!r} is in use")
        self.inode_count += 1
        return self.table.add(inode_id, kind, name)

    def unlink(self, row: int) -> None:
        """Take a child out of its directory; the inode itself stays."""
        self._set_entry(int(self.table.parent[row]), self.table.name(row), NO_ROW)
        if self.table.kind[row] == DIRECTORY:
            self._directory_cache.clear()

    def move(self, row: int, directory: int, name: bytes) -> None:
        """Put an unlinked inode under `directory` as `name`.

        Raises:
            UnsupportedNamespaceError: it has snapshot diffs, or its name changes and the record cannot be rewritten.
        """
        self._check_no_diffs(int(self.table.id[row]))
        if self.table.name(row) != name:
            self.touch(row)
            self.table.set_name(row, name)
        self.insert(directory, name, row)

    def drop(self, row: int) -> Iterator[int]:
        """Remove an unlinked inode and all below it; yields the ids of the inodes with rows and of watched ones.

        Raises:
            UnsupportedNamespaceError: something below has snapshot diffs or is a reference.
        """
        rows = [row]
        untouched: list[int] = []
        while rows:
            row = rows.pop()
            inode_id = int(self.table.id[row])
            self._check_no_diffs(inode_id)
            yield inode_id
            slot = int(self.table.slot[row])
            self.table.flags[row] |= DROPPED
            self.inode_count -= 1
            if slot >= 0:
                self.dropped[slot] = True
            if self.table.kind[row] == DIRECTORY:
                rows.extend(child for child in self.entries.pop(row, {}).values() if child != NO_ROW)
                self.changes.pop(row, None)
                if slot >= 0:
                    self._check_no_references(inode_id)
                    row_of = self.table.row_of
                    children = [child for child in self.base.children(inode_id).tolist() if child not in row_of]
                    untouched.extend((yield from self._drop_untouched(np.array(children, np.int64))))
                    self.base.forget_directory(inode_id)
        while untouched:
            inode_id = untouched.pop()
            self._check_no_references(inode_id)
            untouched.extend((yield from self._drop_untouched(self.base.children(inode_id))))
            self.base.forget_directory(inode_id)

    def _drop_untouched(self, inode_ids: Ids) -> Generator[int, None, list[int]]:
        """Drop inodes of the base that no path has led to; returns those with children, which are still there."""
        self.inode_count -= inode_ids.size
        if self._watched.size:
            near = np.searchsorted(self._watched, inode_ids)
            near[near == self._watched.size] = 0
            for inode_id in inode_ids[self._watched[near] == inode_ids].tolist():
                self._check_no_diffs(inode_id)
                yield inode_id
        directories: list[int] = self.base.drop_inodes(inode_ids, self.dropped).tolist()
        return directories

    def _check_no_diffs(self, inode_id: int) -> None:
        if inode_id in self._diff_owners:
            raise UnsupportedNamespaceError(f"inode {inode_id} is in a snapshot")

    def _check_no_references(self, inode_id: int) -> None:
        if self.base.reference_children(inode_id).size:
            raise UnsupportedNamespaceError(f"directory {inode_id} has children renamed since a snapshot")
