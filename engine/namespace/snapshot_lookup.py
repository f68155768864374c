"""Queries about snapshots: the snapshots that contain a path, and the content of a directory at a snapshot."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.namespace.diff_store import DiffStore
from engine.namespace.diffs import CURRENT_STATE, NO_SNAPSHOT, DirectoryDiff, LinkCopy, Node
from engine.namespace.path_resolver import ROOT_ROW
from engine.namespace.references import WithName
from engine.namespace.snapshots import SnapshotManager
from engine.namespace.tree import Tree
from hadoop_common.java_utf8 import decode_java_utf8
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY, DROPPED, FILE, SYMLINK


class SnapshotLookup:
    """Read-only queries on a tree with snapshots.

    In all methods, `latest` is the id of the newest snapshot that contains a path, as returned by `latest`.
    """

    def __init__(self, tree: Tree, snapshots: SnapshotManager) -> None:
        self._tree = tree
        self._table = tree.table
        self._references = tree.references
        self._snapshots = snapshots
        self._link_holders: dict[int, int] = {}
        self._bare_roots: list[int] = []
        self._bare_roots_of = -1
        self.diffs = DiffStore(
            tree.base, tree.table, tree.load_all, tree.place, tree.references, snapshots, tree.links.get
        )

    @property
    def active(self) -> bool:
        """Whether snapshots, diffs or references may exist."""
        return self._snapshots.any or self.diffs.any or self._references.any

    @property
    def may_have_files(self) -> bool:
        """Whether snapshots may contain files, now or after the next snapshot."""
        if self._snapshots.any or any(self._snapshots.snapshottable_ids):
            return True
        return self.diffs.owners.size > 0 or self._references.any

    def lost_roots(self) -> list[tuple[int, DirectoryDiff]]:
        """Return the directories that have the root diff of a deleted snapshot.

        A NameNode that merges diffs may assign a snapshot's root diff to a snapshot of a directory above. If that
        snapshot is deleted while the directory is in another place, the diff remains.
        """
        if not self._snapshots.any_gone:
            return []
        rows = (row for row in self.diffs.directories_read() if not self._table.flags[row] & DROPPED)
        return [
            (row, diff)
            for row in rows
            for diff in self.diffs.known(row)
            if diff.is_root and not self._snapshots.exists(diff.snapshot_id)
        ]

    def is_snapshottable(self, row: int) -> bool:
        """Return whether a directory may have snapshots; the root always may."""
        return row == ROOT_ROW or self._snapshots.is_snapshottable(int(self._table.id[row]))

    def parent(self, row: int) -> int:
        """Return the row of an inode's directory; `NO_ROW` for the root and for inodes that exist only in snapshots."""
        if row == ROOT_ROW:
            return NO_ROW
        hub = self._references.hub(row)
        if hub is not None and hub.dst_snapshot is None:
            return NO_ROW
        return int(self._table.parent[row])

    def link_holder(self, row: int) -> int:
        """Return the directory that a NameNode, after loading the image, uses as the parent of a renamed base symlink.

        The copies of the link in deleted lists have the same record. The loader uses the directory of the last of these
        lists as the link's parent. For any other inode, the result is `NO_ROW`.
        """
        if self._table.kind[row] != SYMLINK or self._table.slot[row] < 0 or self._references.hub(row) is None:
            return NO_ROW
        if row not in self._link_holders:
            inode_id = int(self._table.id[row])
            deleter = int(self._tree.base.snapshot_index.deleters(np.array([inode_id], np.int64))[0])
            self._link_holders[row] = self.load_detached(deleter) if deleter else NO_ROW
        return self._link_holders[row]

    def chain(self, row: int) -> list[int]:
        """Return the rows from the root down to an inode."""
        rows = [row]
        while (row := self.parent(row)) != NO_ROW:
            rows.append(row)
        return rows[::-1]

    def is_moved(self, row: int) -> bool:
        """Return whether an inode, or a directory above it, was renamed out of a snapshot."""
        return any(self._references.is_dst(above) for above in self.chain(row))

    def full_path(self, row: int) -> str:
        """Return the path of an inode, or the known part if it exists only in snapshots (INode.getFullPathName)."""
        return decode_java_utf8(b"/".join(self._table.name(above) for above in self.chain(row)))

    def load_detached(self, inode_id: int) -> int:
        """Load an inode of the base that may exist only in snapshots, and the inodes above it; return its row."""
        base = self._tree.base.snapshot_index
        known = self._table.row_of.get(inode_id)
        if known is not None:
            if self._table.parent[known] == NO_ROW and self._references.hub(known) is not None:
                # The inode was found by a name in a snapshot; the directory that refers to the inode was not opened.
                above = base.chains(np.array([inode_id], np.int64))[0][:-1].tolist()
                for directory in map(self.load_detached, above[-1:]):
                    if directory != NO_ROW:
                        self._tree.open_directory(directory)
            return known
        top = int(base.chains(np.array([inode_id], np.int64))[0][0])
        deleter = int(base.deleters(np.array([top], np.int64))[0])
        if top not in self._table.row_of and deleter not in (0, top):
            self.diffs.read(self.load_detached(deleter))
        self._tree.locate([inode_id])
        return self._tree.load(inode_id)

    def rows_with_diffs(self, snapshot_id: int) -> list[int]:
        """Return the rows of inodes that the deletion of a snapshot may change directly.

        These inodes have a diff of the snapshot, or are snapshottable directories that never had diffs. For Hadoop 3,
        inodes that no longer have diffs are included.
        """
        wanted = [snapshot_id, NO_SNAPSHOT] if self._tree.hadoop3 else [snapshot_id]
        unread = [inode_id for each in wanted for inode_id in self.diffs.unread_at(each)]
        for inode_id in unread:
            row = self.load_detached(inode_id)
            if row != NO_ROW:
                self.diffs.read(row)
        roots = self._roots_without_diffs()
        return [row for each in wanted for row in self.diffs.rows_at(each)] + roots

    def _roots_without_diffs(self) -> list[int]:
        """Return the rows of snapshottable directories that never had diffs."""
        if self._bare_roots_of != self._snapshots.roots_changed:
            rows = map(self.load_detached, self._snapshots.snapshottable_ids)
            self._bare_roots = [row for row in rows if row != NO_ROW]
            self._bare_roots_of = self._snapshots.roots_changed
        flags = self._table.flags
        self._bare_roots = [
            row for row in self._bare_roots if self.diffs.get(row) is None and not flags.item(row) & DROPPED
        ]
        return self._bare_roots

    def latest(self, row: int) -> int:
        """Return the newest snapshot that contains the path of an existing inode (INodesInPath.resolve)."""
        if not self.active:
            return CURRENT_STATE
        *above, last = self.chain(row)
        found = self._latest_above(above)
        if self._table.kind[last] == DIRECTORY and not self._references.is_dst(last):
            found = self._newer(found, last)
        return found

    def latest_below(self, directory: int) -> int:
        """Return the newest snapshot that contains the path of a new child of a directory."""
        return self._latest_above(self.chain(directory)) if self.active else CURRENT_STATE

    def _latest_above(self, rows: list[int]) -> int:
        found = CURRENT_STATE
        for row in rows:
            hub = self._references.hub(row)
            if hub is None or hub.dst_snapshot is None:
                found = self._newer(found, row)
            elif found == CURRENT_STATE or (hub.dst_snapshot != CURRENT_STATE and hub.dst_snapshot >= found):
                # The new place has no newer snapshot, so changes are recorded for the old place.
                found = self._last_id(row)
        return found

    def _newer(self, found: int, directory: int) -> int:
        last = self._last_id(directory)
        if found == CURRENT_STATE or (last != CURRENT_STATE and last > found):
            return last
        return found

    def _last_id(self, row: int) -> int:
        diffs = self.diffs.get(row)
        return CURRENT_STATE if diffs is None else diffs.last_id

    def in_latest(self, row: int, latest: int) -> bool:
        """Return whether the latest snapshot contains this inode (INode.isInLatestSnapshot of the inode itself)."""
        if latest in (CURRENT_STATE, NO_SNAPSHOT):
            return False
        while row != ROOT_ROW:
            moved = self._references.hub(row) is not None
            directory = self.link_holder(row) if moved else int(self._table.parent[row])
            if directory == NO_ROW:
                return True
            self._find_born(directory, row)
            found = self.child_at(directory, self._table.name(row), latest)
            # In its directory, the entry of a renamed link is a reference to the link.
            is_link = isinstance(found, LinkCopy) and found.loaded and found.row == row
            if not (is_link if moved else found == row):
                return False
            row = directory
        return True

    def _find_born(self, directory: int, row: int) -> None:
        """Set `born` of a child of a directory; see `INODE_DTYPE`."""
        if self._table.born.item(row) == 0:
            name, diffs = self._table.name(row), self.diffs.of_directory(directory)
            known = [] if diffs is None else diffs.newest_first(name)
            born = next((diff.snapshot_id + 1 for diff in known if name in diff.created), NO_SNAPSHOT)
            self._table.born[row] = born

    def node_in_latest(self, node: int | WithName, latest: int) -> bool:
        """Return whether the latest snapshot contains an entry of a directory: an inode or a reference."""
        if latest in (CURRENT_STATE, NO_SNAPSHOT):
            return False
        if isinstance(node, WithName):
            directory, name = node.parent, node.name
        else:
            directory, name = int(self._table.parent[node]), self._table.name(node)
        if node == ROOT_ROW or directory == NO_ROW:
            return True
        return self.same_node(self.child_at(directory, name, latest), node) and self.in_latest(directory, latest)

    @staticmethod
    def same_node(found: Node | None, node: Node) -> bool:
        return found == node if isinstance(node, int) else found is node

    def in_current_state(self, row: int) -> bool:
        """Return whether a path currently resolves to the inode (INode.isInCurrentState)."""
        while row != ROOT_ROW:
            directory = self.parent(row)
            if directory == NO_ROW or self._tree.child(directory, self._table.name(row)) != row:
                return False
            row = directory
        return True

    def is_current_deleted(self, row: int) -> bool:
        """Return whether a file with diffs exists only in snapshots."""
        diffs = self.diffs.of_file(row)
        assert diffs is not None
        if diffs.current_deleted is None:
            # Hadoop 2.7 does not perform this check when it loads an image, and continues as if the file existed.
            diffs.current_deleted = self._tree.hadoop3 and not self._tree.was_in_current_state(row)
        return diffs.current_deleted

    def prior_of_directory(self, row: int, snapshot_id: int) -> int:
        """Return the newest snapshot of a path before a given snapshot (Snapshot.findLatestSnapshot)."""
        found = NO_SNAPSHOT
        while row != NO_ROW:
            diffs = self.diffs.get(row)
            if diffs is not None:
                found = diffs.update_prior(snapshot_id, found)
            row = self.parent(row)
        return found

    def child_at(self, directory: int, name: bytes, snapshot_id: int) -> Node | None:
        """Return the child with a name at a snapshot, or at present."""
        diffs = self.diffs.of_directory(directory)
        if diffs is not None:
            for diff in diffs.since(snapshot_id):
                if name in diff.deleted:
                    return diff.deleted[name]
                if name in diff.created:
                    return None
        return self.current_child(directory, name)

    def children_at(self, directory: int, entries: Iterable[tuple[bytes, Node]], snapshot_id: int) -> list[Node]:
        """Return the nodes of `entries` (present or former children) that `child_at` would return."""
        diffs = self.diffs.of_directory(directory)
        since = [] if diffs is None else diffs.since(snapshot_id)
        return [node for name, node in entries if self._has_child(directory, name, node, since)]

    def _has_child(self, directory: int, name: bytes, node: Node, since: Iterable[DirectoryDiff]) -> bool:
        for diff in since:
            if name in diff.deleted:
                return self.same_node(diff.deleted[name], node)
            if name in diff.created:
                return False
        return self._is_plain_child(directory, node) or self.same_node(self.current_child(directory, name), node)

    def _is_plain_child(self, directory: int, node: Node) -> bool:
        """Return whether a directory contains a node, as far as this is known without a search by name.

        This is known only for files with diffs; the result for any other node is False.
        """
        if not isinstance(node, int) or self._table.kind.item(node) != FILE or self._references.hub(node) is not None:
            return False
        diffs = self.diffs.of_file(node)
        return diffs is not None and diffs.current_deleted is False and self._table.parent.item(node) == directory

    def current_child(self, directory: int, name: bytes) -> Node | None:
        """Return the present entry of a directory by name."""
        misplaced = self._tree.misplaced(directory).get(name)
        if misplaced is not None:
            return misplaced
        row = self._tree.child(directory, name)
        return None if row == NO_ROW else row
