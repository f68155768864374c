"""Created lists of snapshot diffs: the inodes behind created names, and later changes to these inodes."""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import InconsistentNamespaceError
from engine.healing import HealedFault, HealingMode
from engine.namespace.diffs import CURRENT_STATE, DirectoryDiff, LinkCopy, Node
from engine.namespace.path_resolver import ROOT_ROW
from engine.namespace.references import WithName
from engine.namespace.snapshot_lookup import SnapshotLookup
from engine.namespace.tree import Tree
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DROPPED, SYMLINK


def _look_on(node: Node) -> None:
    """Do nothing: the diffs are combined only to be read."""


class CreatedLists:
    """Created lists whose entries no longer match the tree.

    The created lists of a NameNode contain inodes; the created lists of an image contain only names. A *stray* is an
    inode that left its directory without a record in the diff that created the inode. A NameNode keeps a stray in the
    created list, under each later name, until the NameNode fails on the stray. This class does the same. A removed
    stray is a *ghost*.
    """

    def __init__(self, tree: Tree, lookup: SnapshotLookup) -> None:
        self._tree, self._lookup = tree, lookup
        self._table, self._references, self._diffs = tree.table, tree.references, lookup.diffs
        # The directories that each stray left, and the diffs whose created lists contain the stray, by the stray's row.
        self._strays: dict[int, list[tuple[int, DirectoryDiff]]] = {}
        # The directories that each moved inode left without a reference, by the inode's row.
        self._shared: dict[int, list[int]] = {}

    @property
    def may_be_inconsistent(self) -> bool:
        """Whether `changes_since` may raise an error for any directory."""
        return bool(self._strays) or bool(self._shared) or self._diffs.has_links

    def created_node(self, directory: int, diff: DirectoryDiff, name: bytes) -> Node | None:
        """Return the node behind a created name of a diff; None if no such node exists."""
        diffs = self._diffs.of_directory(directory)
        assert diffs is not None
        found = diffs.created_node(diff, name)
        return self._lookup.current_child(directory, name) if found is None else found

    def make_stray(self, directory: int, name: bytes, row: int) -> None:
        """Make a departing child a stray, which its created list keeps under each later name."""
        diffs = self._diffs.of_directory(directory)
        for diff in [] if diffs is None else diffs.newest_first(name):
            if name in diff.created:
                if diff.created[name] is None:
                    diff.created[name] = row
                    self._strays.setdefault(row, []).append((directory, diff))
                    self._table.mark_special(row)
                return
            if name in diff.deleted:
                return

    def has_ghost(self, diff: DirectoryDiff, name: bytes) -> bool:
        """Return whether a created name belongs to a ghost; if another inode receives the name, a NameNode stops."""
        stray = diff.created.get(name)
        return stray is not None and bool(self._table.flags[stray] & DROPPED)

    def make_shared(self, directory: int, name: bytes, row: int) -> None:
        """Note a moved child that is not in the newest snapshot of its path: a newer diff may list it as deleted.

        Such moves happen below a directory that was renamed out of a snapshot to a place that only older snapshots
        contain.
        """
        diffs = self._diffs.of_directory(directory)
        last = None if diffs is None else diffs.last
        if last is not None and last.deleted.get(name) == row:
            self._shared.setdefault(row, []).append(directory)
            self._table.mark_special(row)

    def shared(self) -> Iterator[tuple[int, int, DirectoryDiff]]:
        """Yield (row, directory, diff) for each diff with a deleted inode that was moved to another directory."""
        for row in self._shared:
            for directory, diff in self._sharing(row, self._table.name(row)):
                yield row, directory, diff

    def _sharing(self, row: int, name: bytes) -> list[tuple[int, DirectoryDiff]]:
        found = []
        for directory in self._shared.get(row, ()):
            diffs = self._diffs.of_directory(directory)
            found += [
                (directory, diff) for diff in ([] if diffs is None else diffs.items) if diff.deleted.get(name) == row
            ]
        return found

    def check_replaceable(self, row: int) -> None:
        """Check the diff that created an inode, before the inode loses a name that snapshots retain.

        Raises:
            InconsistentNamespaceError: the diff contains an older reference to the inode, or the inode is a symlink to
                which its directory has a reference; see `report_stop`.
        """
        directory, name = int(self._table.parent[row]), self._table.name(row)
        if self._table.kind[row] == SYMLINK and self._references.hub(row) is not None:
            self.report_stop(directory, name)
            return
        diffs = self._diffs.of_directory(directory)
        for diff in [] if diffs is None else diffs.newest_first(name):
            node = self.created_node(directory, diff, name) if name in diff.created else None
            if node is not None and (node if isinstance(node, int) else node.row) == row:
                if isinstance(node, WithName):
                    self.report_stop(directory, name)
                return

    def rename(self, row: int, name: bytes) -> None:
        """Rename an unlinked inode in all lists that contain its name."""
        old = self._table.name(row)
        for directory, diff in self._strays.get(row, ()):
            if diff.created.get(old) == row:
                del diff.created[old]
                diff.created.setdefault(name, row)
                self._diffs.touch(directory)
        for directory, diff in self._sharing(row, old):
            if name not in diff.deleted:
                self._rename_deleted(directory, diff, old, name)
        if self._lookup.active and self._lookup.link_holder(row) != NO_ROW:
            self._rename_loaded_copies(self._lookup.link_holder(row), row, old, name)
        self._tree.rename(row, name)

    def _rename_loaded_copies(self, directory: int, row: int, old: bytes, name: bytes) -> None:
        """Rename the deleted entries of a link that are the link itself and not copies (`LinkCopy.loaded`)."""
        diffs = self._diffs.of_directory(directory)
        for diff in [] if diffs is None else diffs.items:
            copy = diff.deleted.get(old)
            if isinstance(copy, LinkCopy) and copy.loaded and copy.row == row:
                copy.name = name
                self._rename_deleted(directory, diff, old, name)

    def _rename_deleted(self, directory: int, diff: DirectoryDiff, old: bytes, name: bytes) -> None:
        """Rename an entry of a deleted list, and the matching created entry of an earlier diff."""
        diffs = self._diffs.of_directory(directory)
        assert diffs is not None
        diff.deleted[name] = diff.deleted.pop(old)
        self._diffs.touch(directory)
        for earlier in reversed(diffs.items[: diffs.items.index(diff)]):
            if old in earlier.created:
                earlier.created[name] = earlier.created.pop(old)
            if old in earlier.created or old in earlier.deleted or name in earlier.created:
                break

    def forget_strays(self, row: int) -> None:
        """Mark the diffs that created a removed inode as changed, because they are written without the inode."""
        for directory, _ in self._strays.get(row, ()):
            if self._diffs.get(directory) is not None:
                self._diffs.touch(directory)

    def changes_since(self, directory: int, snapshot_id: int) -> DirectoryDiff:
        """Combine all changes since a snapshot into one diff.

        A stray that is missing from the children, or a deleted symlink that still exists, is an inconsistency. Other
        contradictions between the diffs and the present children are ignored.

        Raises:
            InconsistentNamespaceError: the diffs are inconsistent with the children; see `report_stop`.
        """
        since = DirectoryDiff(snapshot_id, 0)
        diffs = self._diffs.of_directory(directory)
        for diff in [] if diffs is None else diffs.since(snapshot_id):
            since.combine(diff, _look_on)
        for name, stray in since.created.items():
            if stray is not None and self._lookup.current_child(directory, name) is None:
                self.report_stop(directory, name)
        for name, node in since.deleted.items():
            copied = isinstance(node, LinkCopy) and name not in since.created
            if copied and self._lookup.current_child(directory, name) is not None:
                self.report_stop(directory, name)
        return since

    def report_stop(self, directory: int, name: bytes) -> None:
        """Report a name in a directory's diffs that makes a NameNode terminate when it replays the same edits.

        Raises:
            InconsistentNamespaceError: the healing mode is not `HEAL`.
        """
        path = self._lookup.full_path(directory)
        what = f"the snapshot diffs of {path} are inconsistent with its children at {name!r}"
        hint = "A NameNode also terminates when it replays these edits: do not restart a running NameNode."
        text = f"{what}; a NameNode terminates when it replays these edits"
        healed = HealedFault("diff-created", "SNAPSHOT_DIFF", int(self._table.id[directory]), path, text)
        self._tree.healing_log.continue_past(healed, InconsistentNamespaceError(what, hint=hint))

    def check_strays(self) -> None:
        """Check directories with strays as a NameNode does when it computes quota usage after replay.

        Hadoop 3's SecondaryNameNode does not compute quota usage.

        Raises:
            InconsistentNamespaceError: see `changes_since`.
        """
        if self._tree.hadoop3 and self._tree.healing_log.mode is HealingMode.AS_HADOOP:
            return
        known: dict[int, set[int]] = {}
        for directory in self._left_by_strays():
            for snapshot_id in self.counted_at(directory, known):
                if snapshot_id != CURRENT_STATE:
                    self.changes_since(directory, snapshot_id)

    def check_moved(self, row: int, latest: int) -> None:
        """Check the directories below an inode that is about to lose its name in the newest snapshot by a move.

        Hadoop 2.7 computes the quota usage of these directories.

        Raises:
            InconsistentNamespaceError: see `changes_since`.
        """
        if self._tree.hadoop3 or not self._strays:
            return
        known: dict[int, set[int]] = {}
        for directory in self._left_by_strays():
            if self._tree.is_ancestor(row, directory) and latest in self.counted_at(directory, known):
                self.changes_since(directory, latest)

    def _left_by_strays(self) -> list[int]:
        left = {directory for places in self._strays.values() for directory, _ in places}
        return [directory for directory in left if self._diffs.get(directory) is not None]

    def counted_at(self, row: int, known: dict[int, set[int]]) -> set[int]:
        """Return the ids of the snapshots in which an inode's quota usage counts; `CURRENT_STATE` is the present state.

        Args:
            known: results by row, which are reused and extended.
        """
        if row not in known:
            known[row] = {CURRENT_STATE} if row == ROOT_ROW else set()
            directory, hub = self._lookup.parent(row), self._references.hub(row)
            if directory != NO_ROW:
                name = self._table.name(row)
                for snapshot_id in self.counted_at(directory, known):
                    if snapshot_id == CURRENT_STATE or self._lookup.same_node(
                        self._lookup.child_at(directory, name, snapshot_id), row
                    ):
                        known[row].add(snapshot_id)
            for named in [] if hub is None else hub.with_names:
                for snapshot_id in self.counted_at(named.parent, known) if named.parent != NO_ROW else ():
                    if snapshot_id == CURRENT_STATE:
                        known[row].add(named.last_snapshot)
                    elif self._lookup.child_at(named.parent, named.name, snapshot_id) is named:
                        known[row].add(snapshot_id)
        return known[row]
