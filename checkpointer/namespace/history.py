"""What snapshots remember: diffs made where something changes that the latest snapshot still has."""

from __future__ import annotations

import numpy as np

from checkpointer.errors import InconsistentNamespaceError
from checkpointer.namespace.diff_store import DiffStore
from checkpointer.namespace.diffs import (
    CURRENT_STATE,
    NO_SNAPSHOT,
    DirectoryDiff,
    FileDiff,
    LinkCopy,
    Node,
)
from checkpointer.namespace.references import WithName
from checkpointer.namespace.snapshots import Snapshots
from checkpointer.namespace.tree import ROOT_ROW, Tree
from image_format.inode_table import DIRECTORY, NO_ROW, SYMLINK, to_signed
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb

__all__ = ["History"]

_UINT64 = (1 << 64) - 1


def _look_on(node: Node) -> None:
    """Diffs are combined only to look at them."""


class History:
    """Snapshot diffs over a tree, and the changes to the tree that have to go through them.

    In what follows, `latest` is the id of the newest snapshot that a path is in, as `latest` gives it.

    Args:
        tree: the tree as it is now.
        snapshots: the snapshots there are.
    """

    def __init__(self, tree: Tree, snapshots: Snapshots) -> None:
        self._tree = tree
        self._table = tree.table
        self._references = tree.references
        self._snapshots = snapshots
        self._link_holders: dict[int, int] = {}
        # open files whose last block is complete
        self._complete_last: set[int] = set()
        # diffs with an inode as a created one that left the directory past them, by the inode's row
        self._strays: dict[int, list[tuple[int, DirectoryDiff]]] = {}
        self.diffs = DiffStore(tree.base, tree.table, tree.load, tree.place, tree.references, snapshots.root)

    @property
    def active(self) -> bool:
        """Whether there are snapshots, or traces of them."""
        return self._snapshots.any or self.diffs.any or self._references.any

    def is_snapshottable(self, row: int) -> bool:
        """Whether a directory may have snapshots; the root always counts as one."""
        return row == ROOT_ROW or self._snapshots.is_snapshottable(int(self._table.id[row]))

    # ---- where an inode stands -----------------------------------------------------------------------------

    def parent(self, row: int) -> int:
        """Row of the directory an inode is in, `NO_ROW` for the root and for one that only snapshots have."""
        if row == ROOT_ROW:
            return NO_ROW
        hub = self._references.hub(row)
        if hub is not None and hub.dst_snapshot is None:
            return NO_ROW
        return int(self._table.parent[row])

    def _link_holder(self, row: int) -> int:
        """Directory that a renamed symlink of the base is in, as a NameNode that loaded the image takes it.

        The link's record stands for its copies in deleted lists too, and the loader makes the last such list's
        directory its parent; `NO_ROW` for any other inode.
        """
        if self._table.kind[row] != SYMLINK or self._table.slot[row] < 0 or self._references.hub(row) is None:
            return NO_ROW
        if row not in self._link_holders:
            inode_id = int(self._table.id[row])
            deleter = int(self._tree.base.history.deleters(np.array([inode_id], np.int64))[0])
            self._link_holders[row] = self.load_detached(deleter) if deleter else NO_ROW
        return self._link_holders[row]

    def _chain(self, row: int) -> list[int]:
        """Rows from the root down to an inode."""
        rows = [row]
        while (row := self.parent(row)) != NO_ROW:
            rows.append(row)
        return rows[::-1]

    def full_path(self, row: int) -> str:
        """Path of an inode; of one that only snapshots have, as far up as it is known (INode.getFullPathName)."""
        return b"/".join(self._table.name(above) for above in self._chain(row)).decode("utf-8", "replace")

    def load_detached(self, inode_id: int) -> int:
        """Row of an inode of the base that may be only in snapshots, with what is above it."""
        known = self._table.row_of.get(inode_id)
        if known is not None:
            return known
        base = self._tree.base.history
        top = int(base.chains(np.array([inode_id], np.int64))[0][0])
        deleter = int(base.deleters(np.array([top], np.int64))[0])
        if top not in self._table.row_of and deleter not in (0, top):
            self.diffs.get(self.load_detached(deleter))
        self._tree.locate([inode_id])
        return self._tree.load(inode_id)

    def latest(self, row: int) -> int:
        """Newest snapshot that the path of an existing inode is in (INodesInPath.resolve)."""
        if not self.active:
            return CURRENT_STATE
        *above, last = self._chain(row)
        found = self._latest_above(above)
        if self._table.kind[last] == DIRECTORY and not self._references.is_dst(last):
            found = self._newer(found, last)
        return found

    def latest_below(self, directory: int) -> int:
        """Newest snapshot that the path of a new child of a directory is in."""
        return self._latest_above(self._chain(directory)) if self.active else CURRENT_STATE

    def _latest_above(self, rows: list[int]) -> int:
        found = CURRENT_STATE
        for row in rows:
            hub = self._references.hub(row)
            if hub is None or hub.dst_snapshot is None:
                found = self._newer(found, row)
            elif found == CURRENT_STATE or (hub.dst_snapshot != CURRENT_STATE and hub.dst_snapshot >= found):
                # The place it was moved to has no newer snapshot: changes belong to where it came from.
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
        """Whether the latest snapshot has this inode (INode.isInLatestSnapshot of the inode itself)."""
        if latest in (CURRENT_STATE, NO_SNAPSHOT):
            return False
        while row != ROOT_ROW:
            moved = self._references.hub(row) is not None
            directory = self._link_holder(row) if moved else int(self._table.parent[row])
            if directory == NO_ROW:
                return True
            found = self.child_at(directory, self._table.name(row), latest)
            is_link = moved and isinstance(found, LinkCopy) and found.loaded and found.row == row
            if found != row and not is_link:
                return False
            row = directory
        return True

    def node_in_latest(self, node: int | WithName, latest: int) -> bool:
        """The same of what stands in a directory: a plain inode, or a reference to one."""
        if latest in (CURRENT_STATE, NO_SNAPSHOT):
            return False
        if isinstance(node, WithName):
            directory, name = node.parent, node.name
        else:
            directory, name = int(self._table.parent[node]), self._table.name(node)
        if node == ROOT_ROW or directory == NO_ROW:
            return True
        return self._same(self.child_at(directory, name, latest), node) and self.in_latest(directory, latest)

    @staticmethod
    def _same(found: Node | None, node: Node) -> bool:
        return found == node if isinstance(node, int) else found is node

    def in_current_state(self, row: int) -> bool:
        """Whether a path leads to the inode now (INode.isInCurrentState)."""
        while row != ROOT_ROW:
            directory = self.parent(row)
            if directory == NO_ROW or self._tree.child(directory, self._table.name(row)) != row:
                return False
            row = directory
        return True

    def is_current_deleted(self, row: int) -> bool:
        """Whether a file with diffs is only in snapshots."""
        diffs = self.diffs.of_file(row)
        assert diffs is not None
        if diffs.current_deleted is None:
            # Hadoop 2.7 does not find out when it loads an image, and goes on as if the file were there.
            diffs.current_deleted = self._tree.hadoop3 and not self._tree.was_in_current_state(row)
        return diffs.current_deleted

    def prior_of_directory(self, row: int, snapshot_id: int) -> int:
        """Newest snapshot before one, of a directory and those above it (Snapshot.findLatestSnapshot)."""
        found = NO_SNAPSHOT
        while row != NO_ROW:
            diffs = self.diffs.get(row)
            if diffs is not None:
                found = diffs.update_prior(snapshot_id, found)
            row = self.parent(row)
        return found

    # ---- children at a snapshot ----------------------------------------------------------------------------

    def child_at(self, directory: int, name: bytes, snapshot_id: int) -> Node | None:
        """The child of a name at a snapshot, or now."""
        diffs = self.diffs.of_directory(directory)
        if diffs is not None:
            for diff in diffs.items[diffs.index_at(snapshot_id) :]:
                if name in diff.deleted:
                    return diff.deleted[name]
                if name in diff.created:
                    return None
        return self.current_child(directory, name)

    def current_child(self, directory: int, name: bytes) -> Node | None:
        """What a directory has under a name now."""
        misplaced = self._tree.misplaced(directory).get(name)
        if misplaced is not None:
            return misplaced
        row = self._tree.child(directory, name)
        return None if row == NO_ROW else row

    def changes_since(self, directory: int, snapshot_id: int) -> DirectoryDiff:
        """All that came and left since a snapshot, as one diff.

        Raises:
            InconsistentNamespaceError: it cannot be undone, since what came is not there, or what left is; a
                NameNode stops at such a directory as well.
        """
        since = DirectoryDiff(snapshot_id, 0)
        diffs = self.diffs.of_directory(directory)
        for diff in [] if diffs is None else diffs.items[diffs.index_at(snapshot_id) :]:
            since.combine(diff, _look_on)
        for name, stray in since.created.items():
            if stray is not None and self.current_child(directory, name) is None:
                raise self._inconsistent(directory, name)
        for name, node in since.deleted.items():
            copied = isinstance(node, LinkCopy) and name not in since.created
            if copied and self.current_child(directory, name) is not None:
                raise self._inconsistent(directory, name)
        return since

    def _inconsistent(self, directory: int, name: bytes) -> InconsistentNamespaceError:
        return InconsistentNamespaceError(
            f"the snapshot diffs of {self.full_path(directory)} do not fit its children at {name!r}",
            hint="A NameNode stops here as well; start it from an older image, or ask for help with its log.",
        )

    def check_strays(self) -> None:
        """Look at directories with strays as a NameNode does that counts what quotas are used after replay.

        Raises:
            InconsistentNamespaceError: as `changes_since`.
        """
        known: dict[int, set[int]] = {}
        for directory in {directory for places in self._strays.values() for directory, _ in places}:
            if self.diffs.get(directory) is None:
                continue
            for snapshot_id in self._counted_at(directory, known):
                if snapshot_id != CURRENT_STATE:
                    self.changes_since(directory, snapshot_id)

    def _counted_at(self, row: int, known: dict[int, set[int]]) -> set[int]:
        """At which snapshots, and whether as it is now, an inode's quota usage is counted.

        Args:
            known: what was found out before.
        """
        if row not in known:
            known[row] = {CURRENT_STATE} if row == ROOT_ROW else set()
            directory, hub = self.parent(row), self._references.hub(row)
            if directory != NO_ROW:
                name = self._table.name(row)
                for snapshot_id in self._counted_at(directory, known):
                    if snapshot_id == CURRENT_STATE or self._same(self.child_at(directory, name, snapshot_id), row):
                        known[row].add(snapshot_id)
            for named in [] if hub is None else hub.with_names:
                for snapshot_id in self._counted_at(named.parent, known) if named.parent != NO_ROW else ():
                    if snapshot_id == CURRENT_STATE:
                        known[row].add(named.last_snapshot)
                    elif self.child_at(named.parent, named.name, snapshot_id) is named:
                        known[row].add(snapshot_id)
        return known[row]

    def created_node(self, directory: int, diff: DirectoryDiff, name: bytes) -> Node | None:
        """Who has a created name of a diff; None where nobody does."""
        diffs = self.diffs.of_directory(directory)
        assert diffs is not None
        found = diffs.created_node(diffs.items.index(diff), name)
        return self.current_child(directory, name) if found is None else found

    # ---- recording -----------------------------------------------------------------------------------------

    def record(self, row: int, *, with_blocks: bool = False) -> None:
        """The inode at the end of a path is about to change: keep what the latest snapshot needs of it."""
        if self.active:
            self.record_in(row, self.latest(row), with_blocks=with_blocks)
        self._tree.touch(row)

    def record_in(self, row: int, latest: int, *, with_blocks: bool = False) -> None:
        """INode.recordModification."""
        if not self.in_latest(row, latest):
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
                diff.name, diff.copy = self._table.name(row), self._table.message(row).directory
            return
        file_diff = self._file_diff(row, latest)
        if file_diff.copy is None:
            file_diff.name, file_diff.copy = self._table.name(row), self._file_copy(row)
        if with_blocks:
            file_diff.set_blocks(self._table.file_blocks(row))

    def _file_copy(self, row: int) -> pb.INodeFile:
        copy = self._table.message(row).file
        copy.ClearField("blocks")
        copy.ClearField("fileUC")
        return copy

    def _record_link(self, row: int, latest: int) -> None:
        holder = self._link_holder(row)
        directory, name = self.parent(row) if holder == NO_ROW else holder, self._table.name(row)
        diff = self.directory_diff(directory, latest)
        if name not in diff.created and name not in diff.deleted:
            # An older diff that has the link as created keeps the link itself, not the copy.
            self._make_stray(directory, name, row)
            diff.create(name)
            diff.deleted[name] = LinkCopy(row, name)

    def directory_diff(self, row: int, latest: int) -> DirectoryDiff:
        """The diff of a directory that takes changes since a snapshot, made if need be."""
        diffs = self.diffs.directory(row)
        if diffs.last is None or diffs.last.snapshot_id < latest:
            diffs.items.append(DirectoryDiff(latest, self._tree.child_count(row)))
        return diffs.items[-1]

    def _file_diff(self, row: int, latest: int) -> FileDiff:
        diffs = self.diffs.file(row)
        if diffs.last is None or diffs.last.snapshot_id < latest:
            size = sum(block.num_bytes for block in self._table.file_blocks(row))
            diffs.items.append(FileDiff(latest, to_signed(size & _UINT64)))
        return diffs.items[-1]

    # ---- changes of the tree -------------------------------------------------------------------------------

    def _leaves(self, diff: DirectoryDiff, name: bytes) -> bool:
        """Whether a loader finds `name` in the deleted list: a copy of a link has the link's name of now there."""
        found = diff.deleted.get(name)
        if found is not None and not isinstance(found, LinkCopy):
            return True
        copies = (node for node in diff.deleted.values() if isinstance(node, LinkCopy))
        return any(self._table.name(copy.row) == name for copy in copies)

    def raise_mtime(self, directory: int, mtime: int, latest: int) -> None:
        """A directory's modification time never goes back (INode.updateModificationTime)."""
        if mtime > self._table.mtime[directory]:
            if self.active:
                self.record_in(directory, latest)
            self._tree.touch(directory)
            self._table.mtime[directory] = mtime

    def add_child(self, directory: int, name: bytes, row: int, latest: int) -> None:
        """Make an inode the child `name` of a directory that has none of that name (INodeDirectory.addChild)."""
        if self.in_latest(directory, latest):
            self.directory_diff(directory, latest).create(name)
            latest = CURRENT_STATE
        self._tree.insert(directory, name, row)
        self.raise_mtime(directory, int(self._table.mtime[row]), latest)

    def remove_child(self, directory: int, name: bytes, node: int | WithName, latest: int) -> None:
        """Take `node`, the child `name`, out of a directory (INodeDirectory.removeChild)."""
        if self.in_latest(directory, latest):
            self.directory_diff(directory, latest).delete(name, node)
        elif self.active and isinstance(node, int):
            self._make_stray(directory, name, node)
        self._tree.unlink(directory, name)

    def _make_stray(self, directory: int, name: bytes, row: int) -> None:
        """A child leaves unrecorded: a diff that has it as created goes on to do so, under any name it gets."""
        diffs = self.diffs.of_directory(directory)
        for diff in [] if diffs is None else reversed(diffs.items):
            if name in diff.created:
                if diff.created[name] is None:
                    diff.created[name] = row
                    self._strays.setdefault(row, []).append((directory, diff))
                return
            if name in diff.deleted:
                return

    def check_replaceable(self, row: int) -> None:
        """Before an inode leaves its name to snapshots, look for the diff that has it as created.

        Raises:
            InconsistentNamespaceError: what the diff has is an older reference to it; a NameNode stops here as well.
        """
        directory, name = int(self._table.parent[row]), self._table.name(row)
        diffs = self.diffs.of_directory(directory)
        for diff in [] if diffs is None else reversed(diffs.items):
            node = self.created_node(directory, diff, name) if name in diff.created else None
            if node is not None and (node if isinstance(node, int) else node.row) == row:
                if isinstance(node, WithName):
                    raise self._inconsistent(directory, name)
                return

    def rename(self, row: int, name: bytes) -> None:
        """Give an unlinked inode another name, wherever it is known by it."""
        old = self._table.name(row)
        for directory, diff in self._strays.get(row, ()):
            if diff.created.get(old) == row:
                del diff.created[old]
                diff.created.setdefault(name, row)
                self.diffs.touch(directory)
        if self.active and self._link_holder(row) != NO_ROW:
            self._rename_loaded_copies(self._link_holder(row), row, old, name)
        self._tree.rename(row, name)

    def _rename_loaded_copies(self, directory: int, row: int, old: bytes, name: bytes) -> None:
        """Copies that are the link itself get its new name, and so do the created entries that they resolve."""
        diffs = self.diffs.of_directory(directory)
        for index, diff in enumerate([] if diffs is None else diffs.items):
            copy = diff.deleted.get(old)
            if not isinstance(copy, LinkCopy) or not copy.loaded or copy.row != row:
                continue
            assert diffs is not None
            del diff.deleted[old]
            copy.name = name
            diff.deleted[name] = copy
            self.diffs.touch(directory)
            for earlier in reversed(diffs.items[:index]):
                if old in earlier.created:
                    earlier.created[name] = earlier.created.pop(old)
                if old in earlier.created or old in earlier.deleted or name in earlier.created:
                    break

    def forget_strays(self, row: int) -> None:
        """The inode is gone: diffs that know it as created are written without it."""
        for directory, _ in self._strays.get(row, ()):
            if self.diffs.get(directory) is not None:
                self.diffs.touch(directory)

    def created_names(self, directory: int, index: int) -> list[bytes]:
        """Created names of a diff as an image has them: no NameNode loads one that nobody in the directory has."""
        diffs = self.diffs.of_directory(directory)
        assert diffs is not None
        return sorted(
            (
                name
                for name, stray in diffs.items[index].created.items()
                if stray is None
                or self.current_child(directory, name) is not None
                or any(self._leaves(later, name) for later in diffs.items[index + 1 :])
            ),
            key=name_key,
        )

    def unlink_last(self, row: int, node: int | WithName, latest: int) -> bool:
        """Remove an inode from its directory, and its reference where no snapshot needs it there.

        Returns:
            Whether it is known nowhere else: False where snapshots have it under other names.
        """
        directory = int(self._table.parent[row])
        name = node.name if isinstance(node, WithName) else self._table.name(row)
        self.remove_child(directory, name, node, latest)
        hub = self._references.hub(row)
        if hub is not None and not self.node_in_latest(node, latest):
            if isinstance(node, WithName):
                self._references.remove_name(hub, node)
            else:
                self._references.remove_dst(hub)
            return hub.count == 0
        return True

    # ---- blocks --------------------------------------------------------------------------------------------

    def set_block(self, row: int, index: int, num_bytes: int, genstamp: int) -> None:
        """A block of a file gets another length or stamp, in the diffs that share it as well."""
        self._table.set_block(row, index, num_bytes, genstamp)
        diffs = self.diffs.of_file(row) if self.active else None
        if diffs is not None and diffs.items:
            self.diffs.touch(row)
            diffs.follow(self._table.file_blocks(row)[index])

    def set_last_block_complete(self, row: int, *, complete: bool) -> None:
        """Whether the last block of an open file is complete, as after an append that starts with a new block."""
        if complete:
            self._complete_last.add(row)
        else:
            self._complete_last.discard(row)

    def convert_block(self, row: int, index: int) -> None:
        """A block becomes one under construction, or complete: in Hadoop 2.7, another object."""
        if not self.active or self._tree.hadoop3 or row in self._complete_last:
            return
        diffs, blocks = self.diffs.of_file(row), self._table.file_blocks(row)
        if diffs is not None and -len(blocks) <= index < len(blocks):
            diffs.detach(blocks[index].block_id)
