"""Deletion with snapshots: inodes that are removed permanently, and data that no remaining snapshot needs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from engine.errors import InconsistentNamespaceError
from engine.healing import HealedFault, HealingMode
from engine.namespace.diffs import (
    CURRENT_STATE,
    NO_SNAPSHOT,
    DirectoryDiff,
    DirectoryDiffs,
    FileDiffs,
    LinkCopy,
    Node,
    row_of,
)
from engine.namespace.path_resolver import ROOT_ROW
from engine.namespace.reclaim_files import FileReclaimer
from engine.namespace.references import Hub, WithName
from engine.namespace.tree import Tree
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY, DROPPED, FILE, SYMLINK
from image_format.name_order import name_key

SnapshotPaths = dict[int, list[int | WithName]]
"""Present and former entries on the searched paths, by the row of their directory."""


def find_snapshot_paths(tree: Tree, root: int, rows: list[int]) -> SnapshotPaths | None:
    """Find the paths from `root`, whose snapshot is deleted, to `rows`; only entries on these paths can change.

    Returns:
        None if the paths are unknown.
    """
    references, parents = tree.references, tree.table.parent
    waiting = list(rows)
    seen = set(waiting)
    paths: SnapshotPaths = {}
    while waiting:
        row = waiting.pop()
        if row in (ROOT_ROW, root):
            # The directories above are not needed.
            continue
        hub = references.hub(row)
        places: list[tuple[int, int | WithName]] = [(parents.item(row), row)]
        if hub is not None:
            places += [(named.parent, named) for named in hub.with_names]
        for directory, node in places:
            if directory == NO_ROW:
                return None
            paths.setdefault(directory, []).append(node)
            if directory not in seen:
                seen.add(directory)
                waiting.append(directory)
    return paths


class Reclaimer(FileReclaimer):
    """Deletion of a path or of a snapshot.

    Like INode.cleanSubtree, the `clean...` methods remove the data that only snapshots between `prior` and `snapshot`
    need. Like INode.destroyAndCollectBlocks, the `destroy...` methods remove an inode regardless of references to it.
    Each kind of inode and of reference has its own method.
    """

    _paths: SnapshotPaths | None = None
    _wanted_in: dict[int, list[tuple[bytes, Node]]]

    def remove_snapshot(self, row: int, prior: int) -> None:
        """Remove the data that only the deleted snapshot of a directory needs."""
        self._wanted_in = {}
        # If created lists may be inconsistent, a NameNode may terminate at an inode outside these paths.
        if not self._recorder.created.may_be_inconsistent:
            flags = self._table.flags
            rows = [
                at
                for at in self._recorder.lookup.rows_with_diffs(self._deleted_snapshot)
                if not flags.item(at) & DROPPED
            ]
            self._paths = find_snapshot_paths(self._tree, row, rows)
        self.clean_inode(row, self._deleted_snapshot, prior)

    # ---- queries -------------------------------------------------------------------------------------------

    def _id(self, node: Node) -> int:
        return int(self._table.id[row_of(node)])

    @staticmethod
    def _rows(nodes: Iterable[Node]) -> set[int]:
        return {row_of(node) for node in nodes}

    def _children_at(self, directory: int, snapshot_id: int) -> list[Node]:
        """Return the entries of a directory at a snapshot in name order, except untouched entries."""
        names: dict[bytes, Node] = dict(self._tree.marked_children(directory))
        names.update(self._tree.misplaced(directory))
        diffs = self._diffs.of_directory(directory)
        if diffs is not None:
            since = self._recorder.created.changes_since(directory, snapshot_id)
            for name in since.created:
                names.pop(name, None)
            names.update(since.deleted)
        return [names[name] for name in sorted(names, key=name_key)]

    def _prior_of(self, hub: Hub, named: WithName | None) -> int:
        """Return the newest snapshot of an inode under one of its names (INodeReference.getPriorSnapshot)."""
        diffs = self._diffs.get(hub.row)
        return NO_SNAPSHOT if named is None or diffs is None else diffs.prior(named.last_snapshot)

    def _hub(self, row: int) -> Hub:
        hub = self._references.hub(row)
        assert hub is not None
        return hub

    # ---- destroy -------------------------------------------------------------------------------------------

    def destroy(self, node: Node) -> None:
        """Destroy an entry of a directory or of a deleted list."""
        if isinstance(node, WithName):
            self._destroy_name(node)
        elif isinstance(node, LinkCopy):
            self._destroy_link_copy(node)
        elif self._references.is_dst(node):
            self.destroy_dst(node)
        else:
            self.destroy_inode(node)

    def _destroy_link_copy(self, copy: LinkCopy) -> None:
        """Destroy a copy of a link; a NameNode also discards the link's inode, even if other entries refer to it."""
        row = copy.row
        if not self._references.is_dst(row) and not self._recorder.lookup.in_current_state(row):
            self.destroy_inode(row)
        elif self._tree.healing_log.mode is HealingMode.AS_HADOOP:
            self._tree.unmap(row)
        elif not self._table.flags[row] & DROPPED:
            text = "a symlink was kept, although a NameNode discards it with its copy in a snapshot"
            self._tree.healing_log.add(
                HealedFault(
                    "reference-inode", "INODE_REFERENCE", self._id(row), self._recorder.lookup.full_path(row), text
                )
            )

    def destroy_inode(self, row: int) -> None:
        """Destroy an inode and its descendants."""
        if self._table.flags[row] & DROPPED:
            return
        if self._table.kind[row] == DIRECTORY:
            diffs = self._diffs.of_directory(row)
            if diffs is not None:
                for diff in diffs.items:
                    self._destroy_deleted(diff)
                diffs.items.clear()
            for node in self._children_at(row, CURRENT_STATE):
                self.destroy(node)
            self._tree.drop_untouched(row)
        self._diffs.remove(row)
        self._references.forget(row)
        self._gone(row)
        self._tree.drop(row)

    def _destroy_deleted(self, diff: DirectoryDiff) -> None:
        for name in sorted(diff.deleted, key=name_key):
            self.destroy(diff.deleted[name])
        diff.deleted.clear()

    def _destroy_created(self, directory: int, diff: DirectoryDiff) -> None:
        """Destroy the inodes that were created after a diff's snapshot (ChildrenDiff.destroyCreatedList)."""
        for name in sorted(diff.created, key=name_key):
            node = self._recorder.created.created_node(directory, diff, name)
            if node is None:
                continue
            if node is self._tree.misplaced(directory).get(name):
                self.destroy(node)
                self._tree.drop_misplaced(directory, name)
                continue
            present = self._tree.child(directory, name)
            self.destroy(node)
            if present == row_of(node):
                self._tree.unlink(directory, name)
        diff.created.clear()
        self._diffs.touch(directory)

    def _destroy_name(self, named: WithName) -> None:
        hub = self._hub(named.row)
        snapshot = self._prior_of(hub, named)
        self._references.remove_name(hub, named)
        if hub.count <= 0:
            self.destroy_inode(named.row)
            return
        prior = self._prior_of(hub, hub.before(named))
        if snapshot != NO_SNAPSHOT and (prior == NO_SNAPSHOT or snapshot > prior):
            self.clean_inode(named.row, snapshot, prior)

    def destroy_dst(self, row: int) -> None:
        """Destroy the present place of a moved inode; snapshots may still contain the inode under older names."""
        hub = self._hub(row)
        self._references.remove_dst(hub)
        if hub.count <= 0:
            self.destroy_inode(row)
            return
        prior = self._prior_of(hub, hub.with_names[-1])
        diffs = self._diffs.get(row)
        if diffs is None or prior == NO_SNAPSHOT:
            if self._table.kind[row] == SYMLINK:
                return
            self._report_stop(row, "was renamed out of a snapshot, but has no snapshot diff")
            return
        snapshot = diffs.last_id if diffs.last_id != prior else CURRENT_STATE
        if isinstance(diffs, FileDiffs):
            diffs.current_deleted = True
            self.clean_inode(row, snapshot, prior)
        else:
            self._destroy_dst_subtree(row, snapshot, prior)

    def _destroy_dst_subtree(self, node: Node, snapshot: int, prior: int) -> None:
        """Implement DirectoryWithSnapshotFeature.destroyDstSubtree."""
        if isinstance(node, WithName) and snapshot != CURRENT_STATE:
            self.clean(node, snapshot, prior)
            return
        if isinstance(node, LinkCopy):
            return
        row = row_of(node)
        if self._table.kind[row] == FILE:
            self.clean_inode(row, snapshot, prior)
        elif self._table.kind[row] == DIRECTORY:
            excluded: set[int] = set()
            diffs = self._diffs.of_directory(row)
            if diffs is not None:
                at_prior = diffs.of(prior)
                if at_prior is not None:
                    excluded = self._rows(at_prior.deleted.values())
                if snapshot != CURRENT_STATE:
                    self._remove_diff(row, diffs, snapshot, prior)
                at_prior = diffs.of(prior)
                if at_prior is not None:
                    self._destroy_created(row, at_prior)
            for child in self._children_at(row, prior):
                if row_of(child) not in excluded:
                    self._destroy_dst_subtree(child, snapshot, prior)

    def _report_stop(self, row: int, what: str) -> None:
        """Report an inode that makes a NameNode terminate when it replays the same edits; leave the inode unchanged.

        Raises:
            InconsistentNamespaceError: the healing mode is not `HEAL`.
        """
        text = f"the inode {what}; a NameNode terminates when it replays these edits"
        healed = HealedFault("diff-deleted", "SNAPSHOT_DIFF", self._id(row), self._recorder.lookup.full_path(row), text)
        error = InconsistentNamespaceError(f"inode {self._id(row)} {what}")
        self._tree.healing_log.continue_past(healed, error)

    # ---- clean ---------------------------------------------------------------------------------------------

    def clean(self, node: Node, snapshot: int, prior: int) -> None:
        """Remove the parts of a directory's entry that only `snapshot` needs; see the docstring of the class."""
        if isinstance(node, LinkCopy) or self._table.flags.item(row_of(node)) & DROPPED:
            return
        if isinstance(node, int) and not self._references.is_dst(node):
            self.clean_inode(node, snapshot, prior)
            return
        hub = self._hub(row_of(node))
        if isinstance(node, WithName):
            if snapshot == CURRENT_STATE:
                self._report_stop(node.row, "exists only in snapshots, but an edit deletes it")
                return
            named = hub.before(node)
        else:
            if snapshot == CURRENT_STATE and prior == NO_SNAPSHOT:
                self.destroy_dst(node)
                return
            named = hub.with_names[-1] if hub.with_names else None
        if prior == NO_SNAPSHOT:
            prior = self._prior_of(hub, named)
        if snapshot == CURRENT_STATE or prior == NO_SNAPSHOT or snapshot > prior:
            self.clean_inode(hub.row, snapshot, prior)

    def clean_inode(self, row: int, snapshot: int, prior: int) -> None:
        """Remove the parts of an inode that only `snapshot` needs, regardless of references to the inode."""
        kind = self._table.kind.item(row)
        if kind == FILE:
            self.clean_file(row, snapshot, prior)
        elif kind == DIRECTORY:
            self._clean_directory(row, snapshot, prior)
        elif snapshot == CURRENT_STATE and prior == NO_SNAPSHOT:
            self.destroy_inode(row)

    # ---- directories ---------------------------------------------------------------------------------------

    def _remove_diff(self, row: int, diffs: DirectoryDiffs, snapshot: int, prior: int) -> DirectoryDiff | None:
        """Delete and return the diff of a snapshot; the previous diff receives its changes."""
        self._diffs.touch(row)
        removed, earlier = diffs.remove_diff(snapshot, prior) or (None, None)
        self._diffs.note(row, prior if diffs.any else NO_SNAPSHOT)
        if removed is None:
            return None
        if earlier is None:
            self._destroy_deleted(removed)
        else:
            for name in removed.created.keys() - removed.deleted if self._recorder.created.may_be_inconsistent else ():
                if self._recorder.created.has_ghost(earlier, name):
                    self._recorder.created.report_stop(row, name)
            earlier.combine(removed, self.destroy, lambda name: self._recorder.created.report_stop(row, name))
        return removed

    def _clean_directory(self, row: int, snapshot: int, prior: int) -> None:
        diffs = self._diffs.of_directory(row)
        if diffs is None and self._recorder.lookup.is_snapshottable(row):
            diffs = self._diffs.directory(row)
            self._diffs.note(row, NO_SNAPSHOT)
        if diffs is None:
            if snapshot == CURRENT_STATE and prior == NO_SNAPSHOT:
                self.destroy_inode(row)
            else:
                self._clean_children(row, snapshot, prior, set())
            return
        if snapshot == CURRENT_STATE:
            self._recorder.record_in(row, prior)
            if diffs.last is not None:
                self._destroy_created(row, diffs.last)
            self._clean_children(row, snapshot, prior, set())
        else:
            self._clean_snapshot(row, diffs, snapshot, diffs.update_prior(snapshot, prior))
        if self._tree.hadoop3 and not diffs.any and not self._recorder.lookup.is_snapshottable(row):
            self._diffs.remove(row)

    def _clean_children(self, row: int, snapshot: int, prior: int, excluded: set[int]) -> None:
        at = prior if snapshot != CURRENT_STATE and prior != NO_SNAPSHOT else snapshot
        wanted = self._wanted(row, snapshot)
        if wanted is None:
            children = self._children_at(row, at)
        else:
            children = self._recorder.lookup.children_at(row, wanted, at)
        kinds, flags, references = self._table.kind, self._table.flags, self._references
        for child in children:
            if row_of(child) in excluded:
                continue
            # Most children are files without references.
            if isinstance(child, int) and kinds.item(child) == FILE and references.hub(child) is None:
                if not flags.item(child) & DROPPED:
                    self.clean_file(child, snapshot, prior)
            else:
                self.clean(child, snapshot, prior)

    def _wanted(self, row: int, snapshot: int) -> list[tuple[bytes, Node]] | None:
        """Return (name, node) for the entries that the deletion of a snapshot may change, in name order.

        Returns:
            None if these entries are unknown.
        """
        if self._paths is None or snapshot != self._deleted_snapshot:
            return None
        if row not in self._wanted_in:
            named = [(self._name(node), node) for node in self._paths.get(row, ())]
            self._wanted_in[row] = sorted(named, key=lambda pair: name_key(pair[0]))
        return self._wanted_in[row]

    def _clean_snapshot(self, row: int, diffs: DirectoryDiffs, snapshot: int, prior: int) -> None:
        """Implement DirectoryWithSnapshotFeature.cleanDirectory for a snapshot."""
        wanted = self._wanted(row, snapshot)
        if wanted is not None and self._references.hub(row) is None:
            self._clean_wanted(row, diffs, snapshot, prior, wanted)
            return
        created: set[int] = set()
        deleted: set[int] = set()
        at_prior = diffs.of(prior) if prior != NO_SNAPSHOT else None
        if at_prior is not None:
            created = self._rows(self._created_nodes(row, at_prior))
            deleted = self._rows(at_prior.deleted.values())
        self._remove_diff(row, diffs, snapshot, prior)
        self._clean_children(row, snapshot, prior, deleted)
        at_prior = diffs.of(prior) if prior != NO_SNAPSHOT else None
        if at_prior is None:
            return
        forsaken = created and self._is_forsaken(row, diffs, prior)
        for node in self._created_nodes(row, at_prior):
            if row_of(node) not in created:
                continue
            if forsaken:
                name = self._name(node)
                self.destroy(node)
                if self._tree.child(row, name) >= 0:
                    self._tree.unlink(row, name)
                at_prior.created.pop(name, None)
            else:
                self.clean(node, snapshot, NO_SNAPSHOT)
        for name in sorted(at_prior.deleted, key=name_key):
            node = at_prior.deleted[name]
            if row_of(node) not in deleted:
                self._clean_deleted(node, snapshot, prior)

    def _clean_wanted(
        self, row: int, diffs: DirectoryDiffs, snapshot: int, prior: int, wanted: list[tuple[bytes, Node]]
    ) -> None:
        """Perform `_clean_snapshot` only for the entries that may change."""
        if prior == NO_SNAPSHOT:
            self._remove_diff(row, diffs, snapshot, prior)
            self._clean_children(row, snapshot, prior, set())
            return
        names = [name for name, _ in wanted]
        before, going = diffs.of(prior), diffs.of(snapshot)
        created: set[int] = set()
        deleted: set[int] = set()
        if before is not None:
            created = self._rows(self._created_among(row, before, names))
            asked = {*names, *self._other_names(going)} if before.deleted else ()
            deleted = self._rows([before.deleted[name] for name in asked if name in before.deleted])
        removed = self._remove_diff(row, diffs, snapshot, prior)
        self._clean_children(row, snapshot, prior, deleted)
        at_prior = diffs.of(prior)
        if at_prior is None:
            return
        for node in self._created_among(row, at_prior, names) if created else []:
            if row_of(node) in created:
                self.clean(node, snapshot, NO_SNAPSHOT)
        moved = removed if removed is not None or before is not None else at_prior
        for name in sorted(() if moved is None else moved.deleted, key=name_key):
            gone = at_prior.deleted.get(name)
            if gone is not None and row_of(gone) not in deleted:
                self._clean_deleted(gone, snapshot, prior)

    def _created_among(self, row: int, diff: DirectoryDiff, names: list[bytes]) -> list[Node]:
        found = [name for name in dict.fromkeys(names) if name in diff.created]
        nodes = [self._recorder.created.created_node(row, diff, name) for name in found]
        return [node for node in nodes if node is not None]

    def _other_names(self, diff: DirectoryDiff | None) -> list[bytes]:
        """Return all names of the inodes in a deleted list that were renamed out of snapshots."""
        found = []
        for node in () if diff is None else diff.deleted.values():
            row = row_of(node)
            hub = self._references.hub(row)
            if hub is not None:
                found += [self._table.name(row), *(named.name for named in hub.with_names)]
        return found

    def _name(self, node: Node) -> bytes:
        return self._table.name(node) if isinstance(node, int) else node.name

    def _created_nodes(self, row: int, diff: DirectoryDiff) -> list[Node]:
        nodes = (self._recorder.created.created_node(row, diff, name) for name in sorted(diff.created, key=name_key))
        return [node for node in nodes if node is not None]

    def _is_forsaken(self, row: int, diffs: DirectoryDiffs, prior: int) -> bool:
        """Return whether a Hadoop 3 directory exists only in one snapshot, under a former name."""
        hub = self._references.hub(row)
        return (
            self._tree.hadoop3
            and hub is not None
            and hub.count == 1
            and diffs.last_id == prior
            and not self._recorder.lookup.in_current_state(row)
        )

    def _clean_deleted(self, start: Node, after: int, prior: int) -> None:
        """Implement DirectoryWithSnapshotFeature.cleanDeletedINode."""
        queue: deque[tuple[Node, bool]] = deque([(start, False)])
        while queue:
            node, as_inode = queue.popleft()
            if isinstance(node, LinkCopy):
                continue
            if isinstance(node, WithName) and not as_inode:
                if node.last_snapshot >= after:
                    hub = self._hub(node.row)
                    if hub.with_names and hub.with_names[-1] is node and hub.dst_snapshot is None:
                        queue.append((node, True))
                    else:
                        self.clean(node, after, prior)
                continue
            row = row_of(node)
            if self._table.kind.item(row) == FILE:
                diffs = self._diffs.of_file(row)
                if diffs is not None:
                    self.remove_file_diff(row, diffs, after, prior)
            elif self._table.kind[row] == DIRECTORY:
                queue.extend((child, False) for child in self._kept_children(row, prior))

    def _kept_children(self, row: int, prior: int) -> list[Node]:
        """Destroy children added to a deleted directory after `prior`; return the children that `prior` contains."""
        diffs = self._diffs.of_directory(row)
        at_prior = None if diffs is None else diffs.of(prior)
        if at_prior is not None:
            self._destroy_created(row, at_prior)
        deleted = {} if at_prior is None else at_prior.deleted
        return [child for child in self._children_at(row, prior) if self._name(child) not in deleted]
