"""Files open for writing, as listed for administrators (LeaseManager.getUnderConstructionFiles)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.namespace import ROOT_ROW, Namespace

_PAGE = 1000  # dfs.namenode.list.openfiles.num.responses


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file with a lease: its writer and the writer's address."""

    id: int
    path: str
    holder: str
    machine: str


def open_files_after(namespace: Namespace, inode_id: int, below: str = "/") -> tuple[list[OpenFile], bool]:
    """Return a page of the open files after an inode id, and whether more open files exist.

    Args:
        below: only files at or below this path.
    """
    table, prefix = namespace.table, f"{below.rstrip('/')}/"
    found = []
    for row in namespace.leases.rows_below(ROOT_ROW):
        path = namespace.tree.path(row)
        if int(table.id[row]) > inode_id and (path == below or path.startswith(prefix)):
            holder = table.pooled(int(table.client_name[row]))
            found.append(OpenFile(int(table.id[row]), path, holder, table.pooled(int(table.client_machine[row]))))
    found.sort(key=lambda file: file.id)
    return found[:_PAGE], len(found) > _PAGE
