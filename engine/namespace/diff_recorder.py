"""Recording of snapshot diffs, which store the previous state of inodes that change after the latest snapshot."""

from __future__ import annotations

import numpy as np

from engine.namespace.created_lists import CreatedLists
from engine.namespace.diffs import CURRENT_STATE, NO_SNAPSHOT, DirectoryDiff, FileDiff, FileDiffs, LinkCopy
from engine.namespace.references import WithName
from engine.namespace.snapshot_lookup import SnapshotLookup
from engine.namespace.snapshots import SnapshotManager
from engine.namespace.tree import Tree
from hadoop_common.java_numbers import signed64, unsigned64
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import COPIED, DIRECTORY, LAST_COMPLETE, SYMLINK
from image_format.layout import LayoutVersion, supports


class DiffRecorder:
    """Recorder of snapshot diffs, which also makes the changes to the tree that diffs must record.

    In all methods, `latest` is the id of the newest snapshot that contains a path; see `SnapshotLookup`.

    Attributes:
        created: created lists that no longer match the tree.
        has_early_names: whether a diff received a name whose last snapshot is older than the diff.
        leads_to_removed: whether snapshots may refer to an inode without a record; a NameNode cannot load an image with
            this fault.
        lists_blocks_of_moved: whether a snapshot receives the block list of a moved file, as in Hadoop 3.3 and later.
    """

    def __init__(self, tree: Tree, snapshots: SnapshotManager) -> None:
        self._tree, self._table, self._references = tree, tree.table, tree.references
        self.lookup = SnapshotLookup(tree, snapshots)
        self.created = CreatedLists(tree, self.lookup)
        self.diffs = self.lookup.diffs
        self.has_early_names = False
        self.leads_to_removed = False
        self.lists_blocks_of_moved = supports(LayoutVersion.SNAPSHOT_MODIFICATION_TIME, tree.base.layout_version)

    def record(self, row: int, *, with_blocks: bool = False) -> None:
        """Save the state of a path's last inode for the latest snapshot, before the inode changes."""
        if self.lookup.active:
            self.record_in(row, self.lookup.latest(row), with_blocks=with_blocks)
        self._tree.touch(row)

    def record_in(self, row: int, latest: int, *, with_blocks: bool = False) -> None:
        """Record a change of an inode (INode.recordModification)."""
        if not self.lookup.in_latest(row, latest):
            return
        if self._table.kind[row] == SYMLINK:
            self._record_link(row, latest)
            return
        hub = self._references.hub(row)
        moved_into = None if hub is None else hub.dst_snapshot
        if moved_into is not None and moved_into != CURRENT_STATE and moved_into >= latest:
            return
        self._tree.check_known(row)
        if self._table.kind[row] == DIRECTORY:
            diff = self.directory_diff(row, latest)
            if diff.copy is None:
                diff.copy = self._table.copy_row(row, self._table.rows[row])
                self._table.marks[row] |= COPIED
            return
        file_diff = self._file_diff(row, latest)
        if file_diff.copy is None:
            file_diff.copy = self._table.copy_row(row, self._table.rows[row])
            self._table.marks[row] |= COPIED
        if with_blocks:
            file_diff.set_blocks(self._table.file_blocks(row))

    def keep(self, row: int, latest: int, amount: int, entry: np.void | None) -> None:
        """Record the state that an inode had before kernels changed it; the row already reflects the diff.

        Args:
            amount: size of a file in bytes, or the number of children that a directory gained since the base image.
            entry: the row before the change; None to create only the diff.
        """
        diffs = self.diffs.to_keep(row)
        last = diffs.last
        if last is None or last.snapshot_id < latest:
            if isinstance(diffs, FileDiffs):
                last = FileDiff(latest, signed64(unsigned64(amount)))
                diffs.add(last)
            else:
                last = DirectoryDiff(latest, self._tree.child_count(row, amount))
                diffs.add(last)
            self.diffs.note_kept(row, latest)
        if entry is not None and last.copy is None:
            last.copy = self._table.copy_row(row, entry)

    def _record_link(self, row: int, latest: int) -> None:
        holder = self.lookup.link_holder(row)
        directory, name = self.lookup.parent(row) if holder == NO_ROW else holder, self._table.name(row)
        diff = self.directory_diff(directory, latest)
        if name not in diff.created and name not in diff.deleted:
            # An older diff that lists the link as created refers to the link itself, not to the copy.
            self.created.make_stray(directory, name, row)
            diff.create(name)
            diff.deleted[name] = LinkCopy(row, name)
            self.diffs.note_link()

    def directory_diff(self, row: int, latest: int) -> DirectoryDiff:
        """Return the diff of a directory for changes since a snapshot; create it if necessary."""
        diffs = self.diffs.directory(row)
        last = diffs.last
        if last is None or last.snapshot_id < latest:
            last = DirectoryDiff(latest, self._tree.child_count(row))
            diffs.add(last)
            self.diffs.note(row, latest)
        return last

    def _file_diff(self, row: int, latest: int) -> FileDiff:
        diffs = self.diffs.file(row)
        last = diffs.last
        if last is None or last.snapshot_id < latest:
            size = sum(block.num_bytes for block in self._table.file_blocks(row))
            last = FileDiff(latest, signed64(unsigned64(size)))
            diffs.add(last)
            self.diffs.note(row, latest)
        return last

    def raise_mtime(self, directory: int, mtime: int, latest: int) -> None:
        """Raise the modification time of a directory, which never decreases (INode.updateModificationTime)."""
        if mtime > self._table.mtime[directory]:
            if self.lookup.active:
                self.record_in(directory, latest)
            self._tree.touch(directory)
            self._table.mtime[directory] = mtime

    def add_child(self, directory: int, name: bytes, row: int, latest: int) -> None:
        """Add an inode as child `name` to a directory without a child of that name (INodeDirectory.addChild).

        Raises:
            InconsistentNamespaceError: a ghost has that name in the created list; see `report_stop`.
        """
        if self.lookup.in_latest(directory, latest):
            diff = self.directory_diff(directory, latest)
            if self.created.has_ghost(diff, name):
                self.created.report_stop(directory, name)
            diff.create(name)
            self._table.born[row] = latest + 1
            latest = CURRENT_STATE
        else:
            self._table.born[row] = NO_SNAPSHOT
        self._tree.insert(directory, name, row)
        self.raise_mtime(directory, int(self._table.mtime[row]), latest)

    def remove_child(self, directory: int, name: bytes, node: int | WithName, latest: int) -> None:
        """Remove `node`, the child `name`, from a directory (INodeDirectory.removeChild)."""
        if self.lookup.in_latest(directory, latest):
            diff = self.directory_diff(directory, latest)
            diff.delete(name, node)
            self.has_early_names |= isinstance(node, WithName) and node.last_snapshot < diff.snapshot_id
        elif self.lookup.active and isinstance(node, int):
            self.created.make_stray(directory, name, node)
        self._tree.unlink(directory, name)

    def unlink_last(self, row: int, node: int | WithName, latest: int) -> bool:
        """Remove an inode from its directory, and remove its reference if no snapshot needs the reference.

        Returns:
            Whether nothing else refers to the inode: False if snapshots contain it under other names.
        """
        directory = int(self._table.parent[row])
        name = node.name if isinstance(node, WithName) else self._table.name(row)
        self.remove_child(directory, name, node, latest)
        hub = self._references.hub(row)
        if hub is not None and not self.lookup.node_in_latest(node, latest):
            if isinstance(node, WithName):
                self._references.remove_name(hub, node)
            else:
                self._references.remove_dst(hub)
            return hub.count == 0
        return True

    def leave_name(self, row: int, directory: int, name: bytes, latest: int, moved_into: int) -> None:
        """Record the old name of a moved file in the diff of the latest snapshot, which contains the file.

        Args:
            latest: newest snapshot of the old place; the file has a diff of that snapshot.
            moved_into: newest snapshot of the new place.
        """
        references = self._references
        if self.lists_blocks_of_moved:
            self._file_diff(row, latest).set_blocks(self._table.file_blocks(row))
        named = references.add_name(row, name, latest, directory)
        self.diffs.newest(directory).delete(name, named)
        hub = references.hub(row)
        assert hub is not None
        references.set_dst(hub, moved_into)

    def set_block(self, row: int, index: int, num_bytes: int, genstamp: int) -> None:
        """Set the length and generation stamp of a block, also in the diffs that share the block."""
        self._table.set_block(row, index, num_bytes, genstamp)
        diffs = self.diffs.of_file(row) if self.lookup.active else None
        if diffs is not None and diffs.any:
            self.diffs.touch(row)
            diffs.follow(self._table.file_blocks(row)[index])

    def set_last_block_complete(self, row: int, *, complete: bool) -> None:
        """Set whether the last block of an open file is complete, for example after an append to a new block."""
        if complete:
            self._table.marks[row] |= LAST_COMPLETE
        else:
            self._table.marks[row] &= ~LAST_COMPLETE & 0xFF

    def convert_block(self, row: int, index: int) -> None:
        """Handle the opening or completion of a block, for which Hadoop 2.7 creates a new object."""
        if not self.lookup.active or self._tree.hadoop3 or self._table.marks[row] & LAST_COMPLETE:
            return
        self.detach_block(row, index)

    def detach_block(self, row: int, index: int) -> None:
        """Detach a block that becomes another object; the diffs of its file retain the old state of the block."""
        diffs, blocks = self.diffs.of_file(row), self._table.file_blocks(row)
        if diffs is not None and -len(blocks) <= index < len(blocks):
            diffs.detach(blocks[index].block_id)
