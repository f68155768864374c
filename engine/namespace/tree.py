"""The directory tree of the delta: look-up, insertion and removal over an unchanged base image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from engine.errors import NamespaceError, UnsupportedNamespaceError
from engine.healing import HealingLog
from engine.namespace.default_quota import set_row_default
from engine.namespace.links import ChildLinks
from engine.namespace.op_paths import join_names
from engine.namespace.path_resolver import ROOT_ROW, PathResolver
from engine.namespace.references import Hub, InodeReferences, WithName
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.errors import ImageFormatError, RecordError
from image_format.index import Ids, ImageIndex
from image_format.inode_table import NO_ROW, InodeTable
from image_format.kernels.inode import DIRECTORY, DIRTY, DROPPED, LEASED, OPENED, SPECIAL, UNKNOWN_FIELDS
from image_format.kernels.scan import find_id, find_ids
from image_format.kernels.tables import UNKNOWN

_MAX_INODE_ID = (1 << 63) - 1


class Tree:
    """Inodes by path and by id: rows of touched inodes, and the names that were looked up in each touched directory.

    `links` maps a directory's row and a child's name to the child's row, or to `NO_ROW` for a missing or removed child.
    A name without a link is unchanged since the base image. The links of referenced children are created when their
    directory is opened.

    Args:
        table: rows of the inodes touched so far; row 0 becomes the root.
        hadoop3: whether Hadoop 3's rules apply.
        is_snapshottable: returns whether a directory is snapshottable, by its inode id.
        healing_log: collects the inconsistencies that are healed.

    Attributes:
        references: the references of inodes that were renamed out of snapshots.
        leased_ids: ascending ids of open files of the base that are marked `LEASED` when they are read.
        moved: number of directories that were moved or removed.
    """

    def __init__(
        self,
        base: ImageIndex,
        table: InodeTable,
        healing_log: HealingLog,
        *,
        hadoop3: bool,
        is_snapshottable: Callable[[int], bool],
    ) -> None:
        self.base = base
        self.table = table
        self.hadoop3 = hadoop3
        self.healing_log = healing_log
        self.references = InodeReferences(base.snapshot_index, table, self.load, self.place)
        self.links = ChildLinks(table)
        self.dropped: npt.NDArray[np.bool_] = table.allocator.zeros(base.slot_count, np.bool_)
        self.inode_count = base.slot_count
        # Names in snapshots that Hadoop 2.7 left among the children when it undid a rename.
        self._misplaced: dict[int, dict[bytes, WithName]] = {}
        self._watched: list[int] = []
        self._unmapped: set[int] = set()
        self._special_ids: Ids = np.zeros(0, np.int64)
        self.leased_ids: Ids = np.zeros(0, np.int64)
        self._marks: npt.NDArray[np.bool_] | None = None
        self.paths = PathResolver(table, self.child, self._names, is_snapshottable, hadoop3=hadoop3)
        self.moved = 0
        if self.load(ROOT_INODE_ID) != ROOT_ROW:
            raise ImageFormatError(
                f"no root inode {ROOT_INODE_ID}", file=base.file, section="INODE", hint="Use another copy of the image."
            )

    # ---- look-up -------------------------------------------------------------------------------------------

    def load(self, inode_id: int) -> int:
        """Return the row of an inode of the base image, decoded if necessary; `NO_ROW` if the inode does not exist."""
        row = self.table.row_of.get(inode_id)
        if row is not None:
            return row
        slot = self.base.slot(inode_id)
        if slot < 0 or self.dropped[slot]:
            return NO_ROW
        row = self.table.load(self.base.inode_buffer, self.base.inode_offset(slot), slot)
        set_row_default(self.table, row)
        self._mark_special(row)
        if self.table.is_under_construction(row) and find_id(self.leased_ids, inode_id) >= 0:
            self.table.marks[row] |= LEASED
        return row

    def load_all(self, inode_ids: Iterable[int]) -> Ids:
        """Load several inodes as `load` does, but all unread inodes in one call; return their rows."""
        wanted = np.array([i if i <= _MAX_INODE_ID else 0 for i in inode_ids], np.int64)
        unread = np.array(list(dict.fromkeys(wanted[self.table.row_of.get_all(wanted) == UNKNOWN].tolist())), np.int64)
        slots = self.base.slots_of(unread)
        slots = slots[slots >= 0]
        slots = slots[~self.dropped[slots]]
        first = self.table.count
        offsets = self.base.inode_offsets(slots)
        self.table.load_all(self.base.inode_buffer, offsets, slots)
        for row in range(first, self.table.count):
            if row in self.table.features:
                set_row_default(self.table, row)
        for ids, mark in ((self._special_ids, SPECIAL), (self.leased_ids, LEASED)):
            if ids.size:
                marked = find_ids(ids, self.table.id[first : self.table.count]) >= 0
                self.table.marks[first : self.table.count][marked] |= mark
        rows = self.table.row_of.get_all(wanted)
        return np.where(rows == UNKNOWN, NO_ROW, rows)

    def mark_special(self, inode_ids: Ids) -> None:
        """Mark inodes of the base as `SPECIAL`, now or when they are read; `inode_ids` is ascending."""
        self._special_ids = inode_ids
        for row in range(self.table.count):
            self._mark_special(row)

    def _mark_special(self, row: int) -> None:
        if self._special_ids.size and find_id(self._special_ids, int(self.table.id[row])) >= 0:
            self.table.mark_special(row)

    def watch(self, inode_ids: Iterable[int]) -> None:
        """Ensure that `marked_children` reads these base inodes before a directory above them is dropped."""
        self._watched.extend(inode_ids)

    def was_in_current_state(self, row: int) -> bool:
        """Return whether a path resolves to an inode in the base image; True for a new inode."""
        slot = int(self.table.slot[row])
        if slot < 0:
            return True
        return self.base.snapshot_index.is_reached(ROOT_INODE_ID, int(self.table.id[row]))

    def unread_quota_directories(self) -> InodeTable:
        """Return unread directories whose records Hadoop changes when it loads them, as dirty rows of a new table."""
        table = InodeTable(self.base.layout_version, self.base.place("INODE"), self.table.allocator)
        for inode_id in self.base.type_quota_ids.tolist():
            slot = self.base.slot(inode_id)
            if inode_id not in self.table.row_of and not self.dropped[slot]:
                row = table.load(self.base.inode_buffer, self.base.inode_offset(slot), slot)
                set_row_default(table, row)
        return table

    def row(self, inode_id: int) -> int:
        """Return the row of an inode if the inode is live and was read before, otherwise `NO_ROW`."""
        row = self.table.row_of.get(inode_id)
        return NO_ROW if row is None or self.table.flags[row] & DROPPED else row

    def child(self, directory: int, name: bytes) -> int:
        """Return the row of the child called `name`, or `NO_ROW` if it does not exist.

        Raises:
            UnsupportedNamespaceError: the image contains a name of a snapshot among the children.
        """
        self.open_directory(directory)
        row = self.links.get(directory, name)
        if row is None:
            row = NO_ROW
            if directory in self._misplaced and name in self._misplaced[directory]:
                raise UnsupportedNamespaceError(
                    f"{self.path(directory)}/{name.decode('utf-8', 'replace')} ({self.base.file}, section INODE_DIR) "
                    "is a name that belongs to a snapshot"
                )
            if self.table.slot[directory] >= 0:
                inode_id = self.base.child(int(self.table.id[directory]), name)
                if inode_id:
                    row = self.load(inode_id)
                    self.place(row, directory)
                    self.table.base_parent[row] = directory
            self.links.set(directory, name, row)
        return row

    def place(self, row: int, directory: int) -> None:
        """Note the directory in which the image stores an inode.

        Raises:
            RecordError: the inode has two places, or a directory contains itself.
        """
        held = NO_ROW if row == NO_ROW else int(self.table.parent[row])
        loops = self.table.kind[row] == DIRECTORY and self.is_ancestor(row, directory)
        if row == NO_ROW or held not in (NO_ROW, directory) or loops:
            what = f"directory {int(self.table.id[directory])} has an inode that is in two places"
            raise self.base.place("INODE_DIR").error(RecordError, what, 0, "Use another copy of the image.")
        self.table.parent[row] = directory

    def is_open(self, directory: int) -> bool:
        """Return whether a directory was opened."""
        return bool(self.table.marks[directory] & OPENED)

    def open_directory(self, directory: int) -> None:
        """Link the referenced children of a directory, before its links are read."""
        if self.is_open(directory):
            return
        self.table.marks[directory] |= OPENED
        if self.table.slot[directory] < 0:
            return
        for number in self.base.reference_children(int(self.table.id[directory])).tolist():
            node = self.references.resolve(number, directory)
            if isinstance(node, int):
                self.table.base_parent[node] = directory
                # the row may already exist, because the inode's name in a snapshot was read
                self.table.note_change(node)
                self.links.set(directory, self.table.name(node), node)
            else:
                self._misplaced.setdefault(directory, {})[node.name] = node

    def names(self, inode_id: int) -> list[bytes] | None:
        """Return the path components of an inode, or None if the inode does not exist."""
        rows = self.locate([inode_id])
        return self._names(rows[0]) if rows else None

    def is_gone(self, inode_id: int) -> bool:
        """Return whether an inode does not exist, or was removed."""
        row = self.table.row_of.get(inode_id)
        if row is not None:
            return bool(self.table.flags[row] & DROPPED)
        slot = self.base.slot(inode_id)
        return slot < 0 or bool(self.dropped[slot])

    def path(self, row: int) -> str:
        """Return the absolute path of an inode, or the known part if the inode exists only in snapshots."""
        return join_names(self._names(row))

    def _names(self, row: int) -> list[bytes]:
        names: list[bytes] = []
        while row not in (ROOT_ROW, NO_ROW):
            names.append(self.table.name(row))
            row = int(self.table.parent[row])
        return names[::-1]

    def is_ancestor(self, ancestor: int, row: int) -> bool:
        """Return whether `row` is `ancestor` or is below it."""
        while row not in (ancestor, ROOT_ROW, NO_ROW):
            row = int(self.table.parent[row])
        return row == ancestor

    def children(self, directory: int) -> Iterator[tuple[bytes, int]]:
        """Yield (name, row) of every child, unordered; loads all children."""
        yield from self._children(directory, None)

    def misplaced(self, directory: int) -> dict[bytes, WithName]:
        """Return names in snapshots that the image stores among the children of a directory."""
        self.open_directory(directory)
        return self._misplaced.get(directory, {})

    def drop_misplaced(self, directory: int, name: bytes) -> None:
        """Remove one of the `misplaced` names of a directory."""
        del self._misplaced[directory][name]
        self._set_entry(directory, name, NO_ROW)
        # `_set_entry` counted a child that never existed.
        self.table.rows["growth"][directory] -= 1

    def marked_children(self, directory: int) -> Iterator[tuple[bytes, int]]:
        """Yield (name, row) of children, except unread base inodes that nothing refers to.

        Unread inodes are included if they or their descendants are watched (`watch`), have diffs or hold references.
        """
        yield from self._children(directory, self.required_marks())

    def locate(self, inode_ids: list[int]) -> list[int]:
        """Return the rows of live inodes, usually directories of the base image; removed inodes are skipped.

        An unread inode of the base is loaded together with the directories above it.
        """
        unread = np.array([i for i in inode_ids if i not in self.table.row_of], np.int64)
        for chain in self.base.snapshot_index.chains(unread):
            above = NO_ROW
            for inode_id in chain.tolist():
                known = inode_id in self.table.row_of
                row = self.load(inode_id)
                if not known and row != NO_ROW and above != NO_ROW:
                    # The inode is untouched, so it is still at its place in the image.
                    self.table.parent[row] = self.table.base_parent[row] = above
                    self.open_directory(above)
                    self.links.set(above, self.table.name(row), row)
                above = row
        return [row for row in map(self.row, inode_ids) if row != NO_ROW]

    def _children(self, directory: int, marks: npt.NDArray[np.bool_] | None) -> Iterator[tuple[bytes, int]]:
        self.open_directory(directory)
        if self.table.slot[directory] >= 0:
            for child in self._untouched_children(directory, marks).tolist():
                row = self.load(child)
                self.table.parent[row] = self.table.base_parent[row] = directory
                self.links.set(directory, self.table.name(row), row)
        yield from [(name, row) for name, row in self.links.items(directory) if row != NO_ROW]

    def _untouched_children(self, directory: int, marks: npt.NDArray[np.bool_] | None) -> Ids:
        children = self.base.children(int(self.table.id[directory]))
        if marks is not None:
            slots = self.base.slots_of(children)
            children = children[marks[slots] & ~self.dropped[slots]]
        row_of = self.table.row_of
        return np.array([child for child in children.tolist() if child not in row_of], np.int64)

    def required_marks(self) -> npt.NDArray[np.bool_]:
        """Return a mask by base slot of the inodes that `marked_children` reads, and of their ancestors."""
        if self._marks is None:
            snapshot_index = self.base.snapshot_index
            wanted = np.union1d(snapshot_index.owners, np.array(self._watched, np.int64))
            # Every NameNode writes an entry for the root.
            wanted = wanted[wanted != ROOT_INODE_ID]
            if wanted.size or snapshot_index.reference_count:
                self._marks = snapshot_index.on_the_way_to(wanted)
            else:
                self._marks = np.zeros(self.base.slot_count, np.bool_)
        return self._marks

    def references_in(self, directory: int) -> list[WithName | Hub]:
        """Return the references among the children of a directory, ordered by inode id."""
        self.open_directory(directory)
        hubs = map(self.references.hub, self.links.rows(directory))
        known = [hub for hub in hubs if hub is not None and hub.dst_snapshot is not None]
        return [
            *sorted(known, key=lambda hub: int(self.table.id[hub.row])),
            *self._misplaced.get(directory, {}).values(),
        ]

    def child_count(self, directory: int, growth: int | None = None) -> int:
        """Return a directory's number of children; `growth` replaces the present increase since the base image."""
        count = int(self.table.rows["growth"][directory]) if growth is None else growth
        if self.table.slot[directory] >= 0:
            count += self.base.child_count(int(self.table.id[directory]))
        return count

    # ---- change --------------------------------------------------------------------------------------------

    def check_known(self, row: int) -> None:
        """Check a row before it is written or copied.

        Raises:
            UnsupportedNamespaceError: its record has fields that this version does not know and would lose.
        """
        if self.table.flags[row] & UNKNOWN_FIELDS:
            offset = self.base.inode_offset(int(self.table.slot[row]))
            raise UnsupportedNamespaceError(
                f"inode {int(self.table.id[row])} ({self.path(row)}; {self.base.file}, section INODE, offset {offset}) "
                "has fields that are unknown to this version"
            )

    def touch(self, row: int) -> None:
        """Mark a row as changed; raise the same errors as `check_known`."""
        self.check_known(row)
        self.table.flags[row] |= DIRTY
        self.table.note_change(row)

    def _set_entry(self, directory: int, name: bytes, row: int) -> None:
        if self.table.slot[directory] >= 0 and self.base.has_unknown_fields(int(self.table.id[directory])):
            raise UnsupportedNamespaceError(
                f"the entry of directory {self.path(directory)} ({self.base.file}, section INODE_DIR) "
                "has fields that are unknown to this version"
            )
        self.open_directory(directory)
        before = self.links.get(directory, name)
        self.table.rows["growth"][directory] += int(row != NO_ROW) - int(before not in (None, NO_ROW))
        self.links.set(directory, name, row, changed=True)

    def insert(self, directory: int, name: bytes, row: int) -> None:
        """Add `row` as child `name`, which must not exist yet."""
        self._set_entry(directory, name, row)
        self.table.parent[row] = directory
        self.table.note_change(row)

    def add(self, directory: int, name: bytes, inode_id: int, kind: int) -> int:
        """Create the row of an inode; `insert` adds the inode to the tree once its times are set.

        Raises:
            NamespaceError: the id is in use or reserved.
        """
        if inode_id <= ROOT_INODE_ID:
            raise NamespaceError(f"inode id {inode_id} of {self.path(directory)}/{name!r} is reserved")
        if inode_id in self.table.row_of or self.base.slot(inode_id) >= 0:
            raise NamespaceError(f"inode id {inode_id} of {self.path(directory)}/{name!r} is in use")
        self.inode_count += 1
        return self.table.add(inode_id, kind, name)

    def unlink(self, directory: int, name: bytes) -> None:
        """Remove a child from its directory, but keep the inode itself."""
        row = self.child(directory, name)
        self._set_entry(directory, name, NO_ROW)
        if row != NO_ROW and self.table.kind[row] == DIRECTORY:
            self.moved += 1
            self.table.rows["moved"][row] = self.moved
            self.paths.clear_cache()

    def rename(self, row: int, name: bytes) -> None:
        """Rename an unlinked inode."""
        if self.table.name(row) != name:
            self.touch(row)
            self.table.set_name(row, name)

    # ---- removal -------------------------------------------------------------------------------------------

    def drop(self, row: int) -> None:
        """Remove an inode permanently, after its descendants were removed; see also `drop_untouched`."""
        slot = int(self.table.slot[row])
        self.table.flags[row] |= DROPPED
        self.table.note_change(row)
        self.inode_count -= row not in self._unmapped
        if slot >= 0:
            self.dropped[slot] = True
        if self.table.kind[row] == DIRECTORY and slot >= 0:
            self.base.forget_directory(int(self.table.id[row]))

    def unmap(self, row: int) -> None:
        """Omit an inode from the new image although entries refer to it, as Hadoop may do."""
        slot = int(self.table.slot[row])
        if self.table.flags[row] & DROPPED or row in self._unmapped:
            return
        self._unmapped.add(row)
        self.inode_count -= 1
        self.table.flags[row] &= ~DIRTY & 0xFF
        if slot >= 0:
            self.dropped[slot] = True

    def revive(self, row: int) -> None:
        """Restore the record of a dropped inode to which entries still refer."""
        slot = int(self.table.slot[row])
        self.table.flags[row] &= ~DROPPED & 0xFF
        self.table.note_change(row)
        self.inode_count += 1
        if slot >= 0:
            self.dropped[slot] = False

    def drop_untouched(self, directory: int) -> None:
        """Drop the unread children in the base image and their descendants.

        `marked_children` was read before, so nothing else refers to these inodes.
        """
        if self.table.slot[directory] < 0:
            return
        gone = self._drop_unread(self._untouched_children(directory, None))
        while gone:
            inode_id = gone.pop()
            gone.extend(self._drop_unread(self.base.children(inode_id)))
            self.base.forget_directory(inode_id)

    def _drop_unread(self, inode_ids: Ids) -> list[int]:
        """Drop inodes of the base; return the directories whose children are not dropped yet."""
        slots = self.base.slots_of(inode_ids)
        inode_ids = inode_ids[~self.dropped[slots]]
        self.inode_count -= inode_ids.size
        directories: list[int] = self.base.drop_inodes(inode_ids, self.dropped).tolist()
        return directories
