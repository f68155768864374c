"""Resolution of paths in the tree, as a NameNode resolves them during replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.errors import NamespaceError
from engine.namespace.op_paths import SNAPSHOT_NAME, check_new_name, encode_name, is_plain, join_names, split_path
from image_format.inode_table import NO_ROW, InodeTable
from image_format.kernels.inode import DIRECTORY, SYMLINK

ROOT_ROW = 0


class ResolvedPath(NamedTuple):
    """Target of a path.

    Attributes:
        row: row of the inode at the path, or `NO_ROW` if it does not exist.
        parent: row of the inode at the path without its last component, even if that inode is not a directory; `NO_ROW`
            if that inode does not exist, and for the root.
        name: the last component, empty for the root.
    """

    row: int
    parent: int
    name: bytes


class PathResolver:
    """Resolution of paths to rows, with a cache of directories by path.

    Args:
        child: returns the row of a directory's child by name, or `NO_ROW` if it does not exist.
        names_of: returns the path components of a row.
        is_snapshottable: returns whether a directory is snapshottable, by its inode id.
        hadoop3: whether Hadoop 3's rules apply.
    """

    def __init__(
        self,
        table: InodeTable,
        child: Callable[[int, bytes], int],
        names_of: Callable[[int], list[bytes]],
        is_snapshottable: Callable[[int], bool],
        *,
        hadoop3: bool,
    ) -> None:
        self._table, self._child, self._names_of = table, child, names_of
        self._is_snapshottable = is_snapshottable
        self._hadoop3 = hadoop3
        self._cache: dict[str, int] = {}

    def find(self, path: str) -> int:
        """Return the row at an absolute path, or `NO_ROW` if it is missing; raise the same errors as `resolve`."""
        return self.resolve(path).row

    def resolve(self, path: str) -> ResolvedPath:
        """Resolve a path as a NameNode does during replay (INodesInPath.resolve).

        Raises:
            NamespaceError: the path is relative, or leads through a symbolic link, into a snapshot, or (in Hadoop 3)
                through a file.
        """
        if not is_plain(path):
            return self.follow(split_path(path, hadoop3=self._hadoop3))
        head, _, last = path.rpartition("/")
        name, parent = encode_name(last), self._directory(head)
        return ResolvedPath(NO_ROW if parent == NO_ROW else self._step(parent, name), parent, name)

    def follow(self, names: Sequence[bytes]) -> ResolvedPath:
        """Resolve a path given as components."""
        row, parent = ROOT_ROW, NO_ROW
        for name in names:
            parent = row
            if row != NO_ROW:
                row = self._step(row, name)
        return ResolvedPath(row, parent, names[-1] if names else b"")

    def find_parent(self, path: str) -> tuple[int, bytes]:
        """Return (row of the directory of `path`, local name).

        Raises:
            NamespaceError: see `resolve`; also if the directory does not exist, or is not a directory.
        """
        place = self.resolve(path)
        if place.row == ROOT_ROW:
            raise NamespaceError(f"{path!r} has no parent directory")
        if place.parent == NO_ROW or self._table.kind[place.parent] != DIRECTORY:
            raise NamespaceError(f"parent directory of {path} does not exist")
        return place.parent, place.name

    def last_existing(self, path: str) -> tuple[int, bytes]:
        """Return (row of the last existing inode on the path, last component), which SYMLINK uses.

        Raises:
            NamespaceError: see `resolve`; also if the path is the root's.
        """
        names = split_path(path, hadoop3=self._hadoop3)
        if not names:
            raise NamespaceError(f"{path!r} has no parent directory")
        row = ROOT_ROW
        for name in names:
            child = self._step(row, name)
            if child == NO_ROW:
                break
            row = child
        return row, names[-1]

    def check_new_name(self, directory: int, name: bytes) -> None:
        """Raise NamespaceError for a name that is not allowed in a directory."""
        check_new_name(name, in_root=directory == ROOT_ROW)

    def clear_cache(self) -> None:
        """Clear the cache of paths, after directories were moved or removed."""
        self._cache.clear()

    def _step(self, row: int, name: bytes) -> int:
        """Return the row of a component below an inode; a path can continue only below a directory."""
        if self._table.kind[row] != DIRECTORY:
            if self._hadoop3 or self._table.kind[row] == SYMLINK:
                raise NamespaceError(f"{join_names(self._names_of(row))} is not a directory")
            return NO_ROW
        if name == SNAPSHOT_NAME and (row == ROOT_ROW or self._is_snapshottable(int(self._table.id[row]))):
            raise NamespaceError(f"{join_names([*self._names_of(row), name])} cannot be changed")
        return self._child(row, name)

    def _directory(self, path: str) -> int:
        """Return the row at a plain path, usually a directory's row; the empty path means the root."""
        row = self._cache.get(path)
        if row is None:
            head, _, last = path.rpartition("/")
            above = self._cache.get(head) if last else None
            if above is None:
                row = self.follow(split_path(path or "/", hadoop3=self._hadoop3)).row
            else:
                row = self._step(above, encode_name(last))
            # Missing paths and files are not cached, so a new directory invalidates nothing.
            if row != NO_ROW and self._table.kind[row] == DIRECTORY:
                self._cache[path] = row
        return row
