"""Created lists of snapshot diffs: who has a name that came after a snapshot, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import InconsistentNamespaceError
from engine.healing import HealedFault, HealingMode
from engine.namespace.diffs import CURRENT_STATE, DirectoryDiff, LinkCopy, Node
from engine.namespace.lineage import Lineage
from engine.namespace.references import WithName
from engine.namespace.snapshots import SnapshotManager
from engine.namespace.tree import ROOT_ROW, Tree
from image_format.inode_table import NO_ROW, SYMLINK
from image_format.kernels.inode import DROPPED, SPECIAL


def _look_on(node: Node) -> None:
    """Diffs are combined only to look at them."""


class CreatedLists(Lineage):
    """A created list holds inodes, an image only names: what goes wrong between the two.

    A *stray* left its directory past the diff that has it as created. A NameNode keeps it there under any name it
    gets, until it trips over it; so do we. A stray that no longer exists is a *ghost*.
    """

    def __init__(self, tree: Tree, snapshots: SnapshotManager) -> None:
        super().__init__(tree, snapshots)
        # by the row of a stray: the directories that it left, and the diffs that have it
        self._strays: dict[int, list[tuple[int, DirectoryDiff]]] = {}
        # by the row of an inode that goes on elsewhere: the directories that it left plainly
        self._shared: dict[int, list[int]] = {}

    @property
    def may_be_inconsistent(self) -> bool:
        """Whether `changes_since` may find fault with any directory."""
        return bool(self._strays) or bool(self._shared) or self.diffs.has_links

    def created_node(self, directory: int, diff: DirectoryDiff, name: bytes) -> Node | None:
        """Who has a created name of a diff; None where nobody does."""
        diffs = self.diffs.of_directory(directory)
        assert diffs is not None
        found = diffs.created_node(diff, name)
        return self.current_child(directory, name) if found is None else found

    def make_stray(self, directory: int, name: bytes, row: int) -> None:
        """A child leaves unrecorded: a diff that has it as created goes on to do so, under any name it gets."""
        diffs = self.diffs.of_directory(directory)
        for diff in [] if diffs is None else diffs.newest_first(name):
            if name in diff.created:
                if diff.created[name] is None:
                    diff.created[name] = row
                    self._strays.setdefault(row, []).append((directory, diff))
                    self._table.marks[row] |= SPECIAL
                return
            if name in diff.deleted:
                return

    def has_ghost(self, diff: DirectoryDiff, name: bytes) -> bool:
        """Whether a ghost has a created name of a diff. A NameNode stops when another inode gets that name there."""
        stray = diff.created.get(name)
        return stray is not None and bool(self._table.flags[stray] & DROPPED)

    def make_shared(self, directory: int, name: bytes, row: int) -> None:
        """A child that the newest snapshot of its path does not have moves: a newer diff may keep it as deleted.

        That is so below a directory that was renamed out of a snapshot to a place with older ones only.
        """
        diffs = self.diffs.of_directory(directory)
        last = None if diffs is None else diffs.last
        if last is not None and last.deleted.get(name) == row:
            self._shared.setdefault(row, []).append(directory)
            self._table.marks[row] |= SPECIAL

    def shared(self) -> Iterator[tuple[int, int, DirectoryDiff]]:
        """(row, directory, diff) where a diff has an inode as deleted that moved elsewhere."""
        for row in self._shared:
            for directory, diff in self._sharing(row, self._table.name(row)):
                yield row, directory, diff

    def _sharing(self, row: int, name: bytes) -> list[tuple[int, DirectoryDiff]]:
        found = []
        for directory in self._shared.get(row, ()):
            diffs = self.diffs.of_directory(directory)
            found += [
                (directory, diff) for diff in ([] if diffs is None else diffs.items) if diff.deleted.get(name) == row
            ]
        return found

    def check_replaceable(self, row: int) -> None:
        """Before an inode leaves its name to snapshots, look for the diff that has it as created.

        Raises:
            InconsistentNamespaceError: what the diff has is an older reference to it, or a link itself where its
                directory has a reference, as `stops_at`.
        """
        directory, name = int(self._table.parent[row]), self._table.name(row)
        if self._table.kind[row] == SYMLINK and self._references.hub(row) is not None:
            self.stops_at(directory, name)
            return
        diffs = self.diffs.of_directory(directory)
        for diff in [] if diffs is None else diffs.newest_first(name):
            node = self.created_node(directory, diff, name) if name in diff.created else None
            if node is not None and (node if isinstance(node, int) else node.row) == row:
                if isinstance(node, WithName):
                    self.stops_at(directory, name)
                return

    def rename(self, row: int, name: bytes) -> None:
        """Give an unlinked inode another name, wherever it is known by it."""
        old = self._table.name(row)
        for directory, diff in self._strays.get(row, ()):
            if diff.created.get(old) == row:
                del diff.created[old]
                diff.created.setdefault(name, row)
                self.diffs.touch(directory)
        for directory, diff in self._sharing(row, old):
            if name not in diff.deleted:
                self._rename_deleted(directory, diff, old, name)
        if self.active and self.link_holder(row) != NO_ROW:
            self._rename_loaded_copies(self.link_holder(row), row, old, name)
        self._tree.rename(row, name)

    def _rename_loaded_copies(self, directory: int, row: int, old: bytes, name: bytes) -> None:
        """Copies that are the link itself get its new name."""
        diffs = self.diffs.of_directory(directory)
        for diff in [] if diffs is None else diffs.items:
            copy = diff.deleted.get(old)
            if isinstance(copy, LinkCopy) and copy.loaded and copy.row == row:
                copy.name = name
                self._rename_deleted(directory, diff, old, name)

    def _rename_deleted(self, directory: int, diff: DirectoryDiff, old: bytes, name: bytes) -> None:
        """A deleted entry gets another name, and so does the created entry that it resolves."""
        diffs = self.diffs.of_directory(directory)
        assert diffs is not None
        diff.deleted[name] = diff.deleted.pop(old)
        self.diffs.touch(directory)
        for earlier in reversed(diffs.items[: diffs.items.index(diff)]):
            if old in earlier.created:
                earlier.created[name] = earlier.created.pop(old)
            if old in earlier.created or old in earlier.deleted or name in earlier.created:
                break

    def forget_strays(self, row: int) -> None:
        """The inode is gone: diffs that know it as created are written without it."""
        for directory, _ in self._strays.get(row, ()):
            if self.diffs.get(directory) is not None:
                self.diffs.touch(directory)

    def changes_since(self, directory: int, snapshot_id: int) -> DirectoryDiff:
        """All that came and left since a snapshot, as one diff.

        What came and is not there, and what left and is there all the same, counts as never recorded.

        Raises:
            InconsistentNamespaceError: there is such a name, as `stops_at`.
        """
        since = DirectoryDiff(snapshot_id, 0)
        diffs = self.diffs.of_directory(directory)
        for diff in [] if diffs is None else diffs.since(snapshot_id):
            since.combine(diff, _look_on)
        for name, stray in since.created.items():
            if stray is not None and self.current_child(directory, name) is None:
                self.stops_at(directory, name)
        for name, node in since.deleted.items():
            copied = isinstance(node, LinkCopy) and name not in since.created
            if copied and self.current_child(directory, name) is not None:
                self.stops_at(directory, name)
        return since

    def stops_at(self, directory: int, name: bytes) -> None:
        """A NameNode that replays the same edits stops at a name in the diffs of a directory.

        Raises:
            InconsistentNamespaceError: so do we, where nothing is to be healed.
        """
        path = self.full_path(directory)
        what = f"the snapshot diffs of {path} are inconsistent with its children at {name!r}"
        hint = "A NameNode that replays these edits stops here as well: do not restart one that runs."
        text = f"{what}; a NameNode stops when it replays these edits"
        healed = HealedFault("diff-created", "SNAPSHOT_DIFF", int(self._table.id[directory]), path, text)
        self._tree.healing_log.continue_past(healed, InconsistentNamespaceError(what, hint=hint))

    def check_strays(self) -> None:
        """Look at directories with strays as a NameNode does that counts what quotas are used after replay.

        Hadoop 3's SecondaryNameNode does not count.

        Raises:
            InconsistentNamespaceError: as `changes_since`.
        """
        if self._tree.hadoop3 and self._tree.healing_log.mode is HealingMode.AS_HADOOP:
            return
        known: dict[int, set[int]] = {}
        for directory in self._left_by_strays():
            for snapshot_id in self.counted_at(directory, known):
                if snapshot_id != CURRENT_STATE:
                    self.changes_since(directory, snapshot_id)

    def check_moved(self, row: int, latest: int) -> None:
        """Look at the directories of an inode that leaves its name to the newest snapshot.

        Hadoop 2.7 counts what quotas it uses there.

        Raises:
            InconsistentNamespaceError: as `changes_since`.
        """
        if self._tree.hadoop3 or not self._strays:
            return
        known: dict[int, set[int]] = {}
        for directory in self._left_by_strays():
            if self._tree.is_ancestor(row, directory) and latest in self.counted_at(directory, known):
                self.changes_since(directory, latest)

    def _left_by_strays(self) -> list[int]:
        left = {directory for places in self._strays.values() for directory, _ in places}
        return [directory for directory in left if self.diffs.get(directory) is not None]

    def counted_at(self, row: int, known: dict[int, set[int]]) -> set[int]:
        """At which snapshots, and whether as it is now, an inode's quota usage is counted.

        Args:
            known: what was found out before.
        """
        if row not in known:
            known[row] = {CURRENT_STATE} if row == ROOT_ROW else set()
            directory, hub = self.parent(row), self._references.hub(row)
            if directory != NO_ROW:
                name = self._table.name(row)
                for snapshot_id in self.counted_at(directory, known):
                    if snapshot_id == CURRENT_STATE or self.same_node(self.child_at(directory, name, snapshot_id), row):
                        known[row].add(snapshot_id)
            for named in [] if hub is None else hub.with_names:
                for snapshot_id in self.counted_at(named.parent, known) if named.parent != NO_ROW else ():
                    if snapshot_id == CURRENT_STATE:
                        known[row].add(named.last_snapshot)
                    elif self.child_at(named.parent, named.name, snapshot_id) is named:
                        known[row].add(snapshot_id)
        return known[row]
