"""Reads of clients: the status of an inode, a page of a directory, totals below it (FSDirStatAndListingOp)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.namespace import Namespace
from engine.namespace.tree import MAX_QUOTA
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.name_order import name_key
from journal.ops import XAttr
from namenode_stub.names.inode_views import DOT_SNAPSHOT_VIEW, InodeView, replication_at, view_of, xattrs_of
from namenode_stub.names.past_states import DotSnapshot, InodePlace, children_at, resolve, size_at
from namenode_stub.names.policies_in_force import place_and_policies, policies_at
from namenode_stub.names.snapshot_operations import snapshot_names
from namenode_stub.names.transactions import Transactions
from namenode_stub.refusals import NotThereError, SnapshotRefusedError


@dataclass(frozen=True, slots=True)
class ListingPage:
    """A page of a directory's children, and the number of children after it."""

    entries: tuple[InodeView, ...]
    remaining: int


@dataclass(frozen=True, slots=True)
class SubtreeContent:
    """Totals below a path; `space` counts replicas, quotas are -1 if unset."""

    length: int
    files: int
    directories: int
    space: int
    ns_quota: int
    ds_quota: int


@dataclass(frozen=True, slots=True)
class SnapshottableDirectory:
    """A snapshottable directory, and its number of snapshots."""

    view: InodeView
    parent: str
    snapshots: int


class Views:
    """Reads of the live namespace and its snapshots; all raise NotServingError once the service has ended.

    Args:
        page_size: maximum children in one answer (dfs.ls.limit).
    """

    def __init__(self, transactions: Transactions, page_size: int) -> None:
        self._transactions = transactions
        self._page_size = page_size

    # ---- one inode ---------------------------------------------------------------------------------------------

    def status(self, path: str, *, follow: bool = True) -> InodeView | None:
        """Return the status of a path, None if it does not exist; `follow` refuses a link as the last component."""
        with self._transactions.view() as namespace:
            place, policies = place_and_policies(namespace, path, follow=follow)
            if isinstance(place, DotSnapshot):
                return DOT_SNAPSHOT_VIEW
            return None if place is None else view_of(namespace, place, policies=policies)

    def file(self, path: str) -> InodeView:
        """Return the status of a file; raises NotThereError if it does not exist."""
        found = self.status(path)
        if found is None or found.kind != FILE:
            raise NotThereError(f"File does not exist: {path}")
        return found

    def existing(self, path: str, *, follow: bool = True) -> InodeView:
        """Return the status of a path; raises NotThereError if it does not exist."""
        found = self.status(path, follow=follow)
        if found is None:
            raise NotThereError(f"File does not exist: {path}")
        return found

    def xattrs(self, path: str) -> list[XAttr]:
        """Return the extended attributes of an inode; raises NotThereError if it does not exist."""
        with self._transactions.view() as namespace:
            return xattrs_of(namespace, _inode(namespace, path))

    # ---- directories -------------------------------------------------------------------------------------------

    def listing(self, path: str, start_after: bytes = b"") -> ListingPage | None:
        """Return a page of the children after a name; a file itself; None if the path does not exist."""
        with self._transactions.view() as namespace:
            place, policies = place_and_policies(namespace, path, follow=True)
            if place is None:
                return None
            if isinstance(place, InodePlace) and namespace.table.kind[place.row] != DIRECTORY:
                return ListingPage((view_of(namespace, place, policies=policies),), 0)
            children = _snapshots(namespace, place) if isinstance(place, DotSnapshot) else _all(namespace, place)
            wanted = [child for child in children if not start_after or name_key(child[0]) > name_key(start_after)]
            page = wanted[: self._page_size]
            entries = tuple(
                view_of(namespace, child, name, policies_at(namespace, child, policies)) for name, child in page
            )
            return ListingPage(entries, len(wanted) - len(page))

    def sums(self, path: str) -> SubtreeContent:
        """Return the totals at and below a path (ContentSummary); raises NotThereError if it does not exist.

        Unlike in Hadoop, inodes that exist only in snapshots are counted only below `.snapshot`.
        """
        with self._transactions.view() as namespace:
            top = _inode(namespace, path)
            length = files = directories = space = 0
            for place in _walk(namespace, top):
                kind = namespace.table.kind[place.row]
                directories += int(kind == DIRECTORY)
                if kind == FILE:
                    size = size_at(namespace, place)
                    files, length = files + 1, length + size
                    space += size * replication_at(namespace, place)
            table = namespace.table
            quotas = [int(table.ns_quota[top.row]), int(table.ds_quota[top.row])]
            if table.kind[top.row] != DIRECTORY:
                quotas = [-1, -1]
            return SubtreeContent(length, files, directories, space, *(-1 if q > MAX_QUOTA else q for q in quotas))

    # ---- snapshots ---------------------------------------------------------------------------------------------

    def snapshottable(self) -> list[SnapshottableDirectory]:
        """Return the snapshottable directories, by path."""
        with self._transactions.view() as namespace:
            rows = namespace.tree.locate(list(namespace.snapshots.snapshottable_ids))
            found = []
            for row in sorted(rows, key=namespace.tree.path):
                parent = namespace.tree.path(int(namespace.table.parent[row])) if namespace.table.name(row) else ""
                view = view_of(namespace, InodePlace(row), namespace.table.name(row))
                found.append(SnapshottableDirectory(view, parent, len(snapshot_names(namespace, row))))
            return found

    def snapshots(self, path: str) -> list[tuple[int, InodeView]]:
        """Return id and root of each snapshot of a directory; raises SnapshotRefusedError if it cannot have any."""
        with self._transactions.view() as namespace:
            place = _inode(namespace, path)
            if not namespace.snapshots.is_snapshottable(int(namespace.table.id[place.row])):
                raise SnapshotRefusedError(f"Directory is not a snapshottable directory: {path}")
            return [
                (root.snapshot_id, view_of(namespace, root, name))
                for name, root in _snapshots(namespace, DotSnapshot(place.row))
            ]


def _inode(namespace: Namespace, path: str) -> InodePlace:
    place = resolve(namespace, path, follow=True)
    if not isinstance(place, InodePlace):
        raise NotThereError(f"File does not exist: {path}")
    return place


def _all(namespace: Namespace, place: InodePlace) -> Sequence[tuple[bytes, InodePlace]]:
    return list(children_at(namespace, place))


def _snapshots(namespace: Namespace, place: DotSnapshot) -> Sequence[tuple[bytes, InodePlace]]:
    names = snapshot_names(namespace, place.row)
    return [(name, InodePlace(place.row, names[name])) for name in sorted(names, key=name_key)]


def _walk(namespace: Namespace, place: InodePlace) -> Iterator[InodePlace]:
    places = [place]
    while places:
        place = places.pop()
        yield place
        if namespace.table.kind[place.row] == DIRECTORY:
            places.extend(child for _, child in children_at(namespace, place))
