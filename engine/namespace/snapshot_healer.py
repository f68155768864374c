"""Healing of inconsistent snapshots before an image is written, with the smallest possible changes.

Hadoop's copies of symlinks in snapshots share the id of the link. A NameNode may discard the link's inode although a
snapshot or a directory still refers to this inode. The healer restores the records of these inodes. A link with other
names in snapshots receives references, like every other renamed inode. The healer checks only directories whose diffs
were read, because no other directory can have become inconsistent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.healing import HealedFault
from engine.namespace.diff_recorder import DiffRecorder
from engine.namespace.diffs import CURRENT_STATE, DirectoryDiff, DirectoryDiffs, LinkCopy, Node, row_of
from engine.namespace.references import Hub, WithName
from engine.namespace.tree import Tree
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY, DIRTY, DROPPED, OPENED, SYMLINK

_DIFFS, _CHILDREN, _INODES, _REFERENCES = "SNAPSHOT_DIFF", "INODE_DIR", "INODE", "INODE_REFERENCE"


@dataclass(frozen=True, slots=True, eq=False)
class _DeletedEntry:
    """Entry of a deleted list: a diff of `directory` contains `node` under `name`."""

    directory: int
    diff: DirectoryDiff
    name: bytes
    node: Node


class SnapshotHealer:
    """Healer that passes once over the directories whose diffs were read, and over changed names.

    Args:
        tree, recorder: the namespace to heal; changes are added to `tree.healing_log`.
    """

    def __init__(self, tree: Tree, recorder: DiffRecorder) -> None:
        self._tree, self._recorder = tree, recorder
        self._table, self._references, self._diffs = tree.table, tree.references, recorder.diffs

    def run(self) -> None:
        """Heal the snapshots.

        Raises:
            InconsistentNamespaceError: the healing mode is `STRICT`.
        """
        for directory in self._directories():
            self._diffs.read(directory)
        self._make_plain_diffs()
        self._read_lists_of_lost_links()
        self._revive_children()
        uses = self._uses()
        for row in sorted(uses, key=self._id):
            self._heal_inode(row, uses[row])
        self._part_shared()
        self._drop_counted_copies()
        self._keep_one_place()
        for directory in self._directories():
            self._heal_directory(directory)

    # ---- queries -------------------------------------------------------------------------------------------

    def _id(self, row: int) -> int:
        return int(self._table.id[row])

    def _is_gone(self, row: int) -> bool:
        return bool(self._table.flags[row] & DROPPED)

    def _directories(self) -> list[int]:
        """Return the rows of existing directories whose diffs were read, by id."""
        return sorted((row for row in self._diffs.directories_read() if not self._is_gone(row)), key=self._id)

    def _diffs_of(self, directory: int) -> DirectoryDiffs:
        diffs = self._diffs.of_directory(directory)
        assert diffs is not None
        return diffs

    def _uses(self) -> dict[int, list[_DeletedEntry]]:
        """Return, by row, the entries of deleted lists that refer to removed inodes."""
        found: dict[int, list[_DeletedEntry]] = {}
        for directory in self._directories():
            for diff in self._diffs_of(directory).items:
                for name, node in list(diff.deleted.items()):
                    row = node if isinstance(node, int) else node.row
                    if self._is_gone(row) and not self._came_and_left(_DeletedEntry(directory, diff, name, node)):
                        found.setdefault(row, []).append(_DeletedEntry(directory, diff, name, node))
        return found

    def _note(self, code: str, section: str, row: int, path: str, message: str) -> None:
        self._tree.healing_log.add(HealedFault(code, section, self._id(row), path, message))

    def _path(self, directory: int, name: bytes) -> str:
        above = self._recorder.lookup.full_path(directory)
        return f"{above}/{name.decode('utf-8', 'replace')}"

    # ---- diffs of removed snapshots ------------------------------------------------------------------------

    def _make_plain_diffs(self) -> None:
        """Convert root diffs of removed snapshots to plain diffs that contain the attributes."""
        for directory, diff in self._recorder.lookup.lost_roots():
            text = f"the root diff of snapshot {diff.snapshot_id}, which does not exist, became a plain diff"
            self._note("diff-root", _DIFFS, directory, self._recorder.lookup.full_path(directory), text)
            diff.is_root, diff.name = False, self._table.name(directory)
            self._diffs.touch(directory)

    # ---- removed inodes with entries -----------------------------------------------------------------------

    def _read_lists_of_lost_links(self) -> None:
        """Read the diffs of directories whose deleted lists may contain removed links of the base."""
        flags, kinds = self._table.flags[: self._table.count], self._table.kind[: self._table.count]
        rows = np.flatnonzero((flags & DROPPED != 0) & (kinds == SYMLINK) & (self._table.slot[: flags.size] >= 0))
        for deleter in np.unique(
            self._tree.base.snapshot_index.deleters(self._table.id[rows].astype(np.int64))
        ).tolist():
            known = deleter and not self._tree.is_gone(deleter)
            row = self._recorder.lookup.load_detached(deleter) if known else NO_ROW
            if row != NO_ROW:
                self._diffs.read(row)

    def _revive_children(self) -> None:
        """Restore the records of removed links and files that are still children; drop removed directories."""
        for directory, row in self._tree.links.lost():
            name = self._table.name(row)
            path = self._path(directory, name)
            if self._table.kind[row] == DIRECTORY:
                text = f"a removed child of directory {self._id(directory)} was dropped"
                self._note("dir-child-missing", _CHILDREN, row, path, text)
                self._tree.unlink(directory, name)
            else:
                text = f"a path resolves to a removed child of directory {self._id(directory)}; the child was kept"
                self._note("dir-child-missing", _CHILDREN, row, path, text)
                self._revive(row, directory)
                if self._references.hub(row) is not None:
                    self._refer_to_child(row)

    def _revive(self, row: int, directory: int) -> None:
        self._tree.revive(row)
        self._table.parent[row] = directory
        self._table.flags[row] |= DIRTY

    # ---- removed inodes in deleted lists -------------------------------------------------------------------

    def _came_and_left(self, use: _DeletedEntry) -> bool:
        """Drop a link that a diff lists as created and, under another name, as deleted; return True if dropped."""
        names = [] if isinstance(use.node, WithName) else use.diff.forget_stray(use.node)
        if names:
            self._drop(use, "diff-created", "a link that was created and removed between two snapshots was dropped")
        return bool(names)

    def _heal_inode(self, row: int, uses: list[_DeletedEntry]) -> None:
        """Heal the deleted lists that contain a removed inode."""
        if self._table.kind[row] == DIRECTORY:
            for use in uses:
                self._drop(use, "diff-deleted", "a removed directory in a deleted list was dropped")
            return
        for use in uses:
            what = f"a snapshot of directory {self._id(use.directory)} refers to a removed inode, which was kept"
            self._note("diff-deleted", _DIFFS, row, self._path(use.directory, use.name), what)
            self._take_back_name(row, use)
        self._revive(row, uses[0].directory)
        plain = len(uses) == 1 or (self._table.kind[row] == SYMLINK and len({use.name for use in uses}) == 1)
        if plain and not any(isinstance(use.node, WithName) for use in uses):
            self._keep_plainly(row, uses)
            return
        for use in uses:
            self._keep_by_name(row, use)

    def _take_back_name(self, row: int, use: _DeletedEntry) -> None:
        """Restore a link's first name, which renames had changed in the older diff that created the link."""
        items = self._diffs_of(use.directory).items
        for diff in reversed(items[: items.index(use.diff)]):
            followed = [name for name, stray in diff.created.items() if stray == row]
            for name in followed:
                del diff.created[name]
                diff.created.setdefault(use.name, None)
                self._diffs.touch(use.directory)
            if followed or use.name in diff.created or use.name in diff.deleted:
                return

    def _keep_plainly(self, row: int, uses: list[_DeletedEntry]) -> None:
        """Keep an inode in deleted lists under one name and without references; copies of a link share its record."""
        if self._table.name(row) != uses[0].name:
            self._table.set_name(row, uses[0].name)
        self._references.forget(row)
        for use in uses:
            use.diff.deleted[use.name] = row
            self._diffs.touch(use.directory)

    def _keep_by_name(self, row: int, use: _DeletedEntry) -> None:
        """Convert a deleted entry to a reference to its inode."""
        if isinstance(use.node, WithName):
            named: WithName | None = use.node
            self._references.keep_name(use.node)
        else:
            named = self._references.name_in_snapshot(row, use.name, use.diff.snapshot_id, use.directory)
        if named is None:
            self._drop(use, "reference-name-twice", f"a second name in snapshot {use.diff.snapshot_id} was dropped")
            return
        use.diff.deleted[use.name] = named
        self._diffs.touch(use.directory)

    def _refer_to_child(self, row: int) -> None:
        """Convert a plain child of a directory to a reference."""
        directory = int(self._table.parent[row])
        self._references.refer(row, self._recorder.lookup.latest_below(directory))
        self._tree.links.set(directory, self._table.name(row), row, changed=True)

    def _drop(self, use: _DeletedEntry, code: str, text: str) -> None:
        row = use.node if isinstance(use.node, int) else use.node.row
        self._note(code, _DIFFS, row, self._path(use.directory, use.name), text)
        del use.diff.deleted[use.name]
        self._diffs.touch(use.directory)

    # ---- inodes in deleted lists and elsewhere -------------------------------------------------------------

    def _part_shared(self) -> None:
        """Drop deleted entries of inodes that moved within a directory; convert other shared entries to references."""
        for row, directory, diff in list(self._recorder.created.shared()):
            if self._is_gone(row) or self._is_gone(directory):
                continue
            name = self._table.name(row)
            use = _DeletedEntry(directory, diff, name, row)
            if self._recorder.lookup.current_child(directory, name) == row and name in diff.created:
                self._drop(use, "diff-deleted-twice", "a child was both deleted and created: both entries were dropped")
                del diff.created[name]
                continue
            text = (
                f"a deleted inode of directory {self._id(directory)} is also elsewhere: both entries became references"
            )
            self._note("diff-deleted-twice", _DIFFS, row, self._path(directory, name), text)
            if self._recorder.lookup.in_current_state(row) and not self._references.is_dst(row):
                self._refer_to_child(row)
            self._keep_by_name(row, use)

    def _drop_counted_copies(self) -> None:
        """Drop copies of links that a NameNode rejects when it computes the quota usage of a snapshot.

        An image stores a link and its copies as one inode, which must not be both created and deleted.
        """
        counted: dict[int, set[int]] = {}
        for directory in self._directories():
            diffs = self._diffs_of(directory)
            for index, diff in enumerate(diffs.items):
                for name in [name for name in diff.deleted if name in diff.created]:
                    if not self._is_one_link(directory, diff, name):
                        continue
                    snapshots = self._recorder.created.counted_at(directory, counted)
                    if not any(each != CURRENT_STATE and diffs.index_at(each) <= index for each in snapshots):
                        continue
                    use = _DeletedEntry(directory, diff, name, diff.deleted[name])
                    self._drop(
                        use, "diff-deleted-twice", "a link was both deleted and created: both entries were dropped"
                    )
                    del diff.created[name]

    def _is_one_link(self, directory: int, diff: DirectoryDiff, name: bytes) -> bool:
        """Return whether an image stores the same link under a name before and after a diff."""
        copy, created = diff.deleted[name], self._recorder.created.created_node(directory, diff, name)
        if created is None or isinstance(copy, WithName) or isinstance(created, WithName):
            return False
        row = row_of(copy)
        # If `created` is a reference, the nodes differ.
        return row == row_of(created) and self._table.kind[row] == SYMLINK and not self._references.is_dst(row)

    # ---- references in two places --------------------------------------------------------------------------

    def _keep_one_place(self) -> None:
        """Keep each reference in one place: as a child, else in its parent's diffs, else at the first place found."""
        marks, flags = self._table.marks[: self._table.count], self._table.flags[: self._table.count]
        rows = np.flatnonzero((marks & OPENED != 0) & (flags & DROPPED == 0))
        seen: set[WithName | Hub] = set()
        for directory in sorted(rows.tolist(), key=self._id):
            for reference in self._tree.references_in(directory):
                if reference in seen:
                    name = self._table.name(reference.row)
                    text = f"a second reference, a child of directory {self._id(directory)}, was dropped"
                    self._note("dir-reference-twice", _CHILDREN, reference.row, self._path(directory, name), text)
                    self._tree.unlink(directory, name)
                seen.add(reference)
        uses: list[tuple[WithName | Hub, _DeletedEntry]] = [
            (held, _DeletedEntry(directory, diff, name, node))
            for directory in self._directories()
            for diff in self._diffs_of(directory).items
            for name, node in diff.deleted.items()
            if (held := self._diffs.encoder.reference(node)) is not None
        ]
        for reference, use in sorted(uses, key=lambda each: not self._is_home(*each)):
            if reference in seen:
                self._drop(use, "diff-reference-twice", "a second use of a reference was dropped")
            seen.add(reference)

    def _is_home(self, reference: WithName | Hub, use: _DeletedEntry) -> bool:
        home = reference.parent if isinstance(reference, WithName) else int(self._table.parent[reference.row])
        return home == use.directory

    # ---- lists of one directory ----------------------------------------------------------------------------

    def _heal_directory(self, directory: int) -> None:
        """Make created names resolvable and deleted names unique, as a NameNode requires of an image."""
        diffs = self._diffs_of(directory)
        if self._unresolved(directory, diffs) or self._has_twins(diffs):
            self._name_copies(directory, diffs)
        for diff, name in self._unresolved(directory, diffs):
            text = (
                f"created name {name.decode('utf-8', 'replace')!r} of snapshot {diff.snapshot_id} was dropped, because "
                "it is neither a child nor deleted later"
            )
            self._note("diff-created", _DIFFS, directory, self._recorder.lookup.full_path(directory), text)
            del diff.created[name]
            self._diffs.touch(directory)
        for diff in diffs.items:
            taken: set[bytes] = set()
            for name, node in list(diff.deleted.items()):
                written = self._diffs.encoder.written_name(node)
                if written in taken:
                    use = _DeletedEntry(directory, diff, name, node)
                    self._drop(use, "diff-deleted-name", "a second deleted inode with the same name was dropped")
                taken.add(written)

    def _unresolved(self, directory: int, diffs: DirectoryDiffs) -> list[tuple[DirectoryDiff, bytes]]:
        """Return created names of diffs that neither the directory nor a later diff contains."""
        known: set[bytes] = set()
        found = []
        for diff in reversed(diffs.items):
            for name in diff.created:
                if name not in known and self._recorder.lookup.current_child(directory, name) is None:
                    found.append((diff, name))
            known.update(map(self._diffs.encoder.written_name, diff.deleted.values()))
        return found

    def _has_twins(self, diffs: DirectoryDiffs) -> bool:
        return any(
            len(set(map(self._diffs.encoder.written_name, diff.deleted.values()))) < len(diff.deleted)
            for diff in diffs.items
        )

    def _name_copies(self, directory: int, diffs: DirectoryDiffs) -> None:
        """Restore the old names of renamed links' copies by converting the copies to references."""
        for diff in diffs.items:
            for name, node in list(diff.deleted.items()):
                if not isinstance(node, LinkCopy) or self._table.name(node.row) == name:
                    continue
                if self._came_and_left(_DeletedEntry(directory, diff, name, node)):
                    continue
                if self._recorder.lookup.in_current_state(node.row) and not self._references.is_dst(node.row):
                    self._refer_to_child(node.row)
                text = f"inode {self._id(node.row)} now has another name: the entry became a reference"
                self._note("diff-deleted-name", _DIFFS, node.row, self._path(directory, name), text)
                use = _DeletedEntry(directory, diff, name, node)
                self._take_back_name(node.row, use)
                self._keep_by_name(node.row, use)
