"""Client views of inodes: the status of one inode, of a directory's children, or of all inodes."""

from __future__ import annotations

from dataclasses import dataclass

from engine.namespace import Namespace
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.permission import unpack_permission
from image_format.string_table import StringKind
from journal.ops import PermissionStatus

_KINDS = {FILE: "FILE", DIRECTORY: "DIRECTORY"}


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A client's view of an inode; times in ms since the epoch, length in bytes."""

    path: str
    id: int
    type: str
    owner: str
    group: str
    permission: str
    mtime: int
    atime: int
    replication: int
    length: int
    block_size: int
    blocks: tuple[tuple[int, int, int], ...]
    open: bool


def permission_status(namespace: Namespace, row: int) -> PermissionStatus:
    """Return the owner, group and mode of the inode in `row`."""
    user, group, mode = unpack_permission(int(namespace.table.permission[row]))
    return PermissionStatus(
        namespace.strings.lookup(user, StringKind.USER) or "",
        namespace.strings.lookup(group, StringKind.GROUP) or "",
        mode,
    )


def file_status(namespace: Namespace, row: int) -> FileStatus:
    table = namespace.table
    permissions = permission_status(namespace, row)
    blocks = tuple((block.block_id, block.num_bytes, block.genstamp) for block in table.file_blocks(row))
    return FileStatus(
        path=namespace.tree.path(row),
        id=int(table.id[row]),
        type=_KINDS.get(int(table.kind[row]), "SYMLINK"),
        owner=permissions.user,
        group=permissions.group,
        permission=f"{permissions.mode:o}",
        mtime=int(table.mtime[row]),
        atime=int(table.atime[row]),
        replication=max(0, int(table.replication[row])),
        length=sum(length for _, length, _ in blocks),
        block_size=int(table.block_size[row]),
        blocks=blocks,
        open=bool(table.is_under_construction(row)),
    )


def listing(namespace: Namespace, row: int) -> list[FileStatus]:
    """Return the children of a directory by name, or the file itself."""
    if namespace.table.kind[row] != DIRECTORY:
        return [file_status(namespace, row)]
    return [file_status(namespace, child) for _, child in sorted(namespace.tree.children(row))]


def walk(namespace: Namespace, row: int) -> list[FileStatus]:
    """Return the inode in `row` and its descendants, parents first and siblings by name."""
    found = []
    rows = [row]
    while rows:
        row = rows.pop()
        found.append(file_status(namespace, row))
        if namespace.table.kind[row] == DIRECTORY:
            rows.extend(child for _, child in sorted(namespace.tree.children(row), reverse=True))
    return found
