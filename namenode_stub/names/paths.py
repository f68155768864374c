"""Paths of the live namespace: validation, resolution, and paths that must not be changed."""

from __future__ import annotations

from engine.errors import NamespaceError
from engine.namespace import ROOT_ROW, Namespace
from engine.namespace.op_paths import encode_name, join_names, split_path
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY, SYMLINK
from namenode_stub.refusals import (
    IllegalArgumentError,
    InvalidPathRefusalError,
    NotADirectoryRefusalError,
    NotThereError,
    SnapshotPathError,
    SymlinkInPathError,
)

DOT_SNAPSHOT = ".snapshot"
_RESERVED = ".reserved"


def client_path(path: str) -> str:
    """Normalize slashes in a path as Hadoop 3 does; a relative path is unchanged."""
    return join_names(split_path(path, hadoop3=True)) if path.startswith("/") else path


def checked_path(path: str) -> str:
    """Validate and return `path`.

    Raises:
        InvalidPathRefusalError: the path is not absolute and normalized, or has an invalid component.
    """
    if not path.startswith("/") or "//" in path or (path != "/" and path.endswith("/")):
        raise InvalidPathRefusalError(f"{path!a} is not a normalized absolute path")
    if any(part in (".", "..") for part in path.split("/")):
        raise InvalidPathRefusalError(f"{path!a} has a component that is not a name")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidPathRefusalError(f"{path!a} has a lone surrogate, which a name cannot contain") from error
    return path


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def is_directory(namespace: Namespace, row: int) -> bool:
    return bool(namespace.table.kind[row] == DIRECTORY)


def find(namespace: Namespace, path: str) -> int:
    """Return the row of the inode at `path`, or NO_ROW if the path does not exist.

    Raises:
        InvalidPathRefusalError: the path is malformed.
        SymlinkInPathError: a component before the last component is a symbolic link.
    """
    try:
        return namespace.tree.paths.find(checked_path(path))
    except NamespaceError:
        # the path leads through a file or a link, or into a snapshot
        last_existing(namespace, path)
        return NO_ROW


def existing(namespace: Namespace, path: str) -> int:
    """Return the row of the inode at `path`; raise NotThereError if it does not exist."""
    row = find(namespace, path)
    if row == NO_ROW:
        raise NotThereError(f"File does not exist: {path}")
    return row


def find_for_change(namespace: Namespace, path: str) -> int:
    """Call `find` for a path to be created, changed or removed.

    Raises:
        SnapshotPathError: the path is in a snapshot.
        IllegalArgumentError: a component of the path is reserved.
    """
    check_changeable(namespace, path)
    return find(namespace, path)


def check_changeable(namespace: Namespace, path: str) -> None:
    """Check that a path, existing or not, can be changed; raise the same errors as `find_for_change`."""
    parts = checked_path(path).split("/")[1:]
    if DOT_SNAPSHOT in parts:
        above = "/" + "/".join(parts[: parts.index(DOT_SNAPSHOT)])
        row = find(namespace, above)
        if row != NO_ROW and namespace.snapshots.is_snapshottable(int(namespace.table.id[row])):
            raise SnapshotPathError("Modification on a read-only snapshot is disallowed")
        raise IllegalArgumentError(f'"{DOT_SNAPSHOT}" is a reserved name.')
    if parts[0] == _RESERVED:
        raise IllegalArgumentError(f'"{_RESERVED}" is a reserved name.')


def last_existing(namespace: Namespace, path: str) -> tuple[int, int]:
    """Return the row of the last existing inode on the way to `path`, and the number of names up to this inode.

    Raises:
        SymlinkInPathError: a component before the last component is a symbolic link.
    """
    names = [] if path == "/" else path.split("/")[1:]
    row = ROOT_ROW
    for depth, name in enumerate(names):
        child = namespace.tree.child(row, encode_name(name))
        if child == NO_ROW:
            if namespace.table.kind[row] == SYMLINK:
                raise SymlinkInPathError(f"{'/' + '/'.join(names[:depth])} in {path} is a symbolic link")
            return row, depth
        row = child
    return row, len(names)


def existing_for_change(namespace: Namespace, path: str) -> int:
    """Call `find_for_change` for a path that must exist; raise NotThereError if the path is missing."""
    row = find_for_change(namespace, path)
    if row == NO_ROW:
        raise NotThereError(f"File does not exist: {path}")
    return row


def check_parent(namespace: Namespace, path: str) -> None:
    """Check that the parent of `path` exists; raise NotThereError or NotADirectoryRefusalError otherwise."""
    above = parent_of(path)
    row = find(namespace, above)
    if row == NO_ROW:
        raise NotThereError(f"Parent directory doesn't exist: {above}")
    if not is_directory(namespace, row):
        raise NotADirectoryRefusalError(f"Parent path is not a directory: {above}")
