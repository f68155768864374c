"""The directory tree of the delta: look-up, insertion and removal over an untouched base image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.errors import NamespaceError, UnsupportedNamespaceError
from engine.healing import HealingLog
from engine.namespace.links import ChildLinks
from engine.namespace.paths import SNAPSHOT_NAME, check_new_name, encode_name, is_plain, join_names, split_path
from engine.namespace.references import Hub, References, WithName
from hadoop_common.inode_ids import ROOT_INODE_ID
from image_format.errors import ImageFormatError, RecordError
from image_format.index import BaseImage, Ids
from image_format.inode_table import DIRECTORY, NO_ROW, SYMLINK, InodeTable
from image_format.kernels.inode import DIRTY, DROPPED, LEASED, OPENED, SPECIAL, UNKNOWN_FIELDS
from image_format.kernels.scan import find_id, find_ids
from image_format.kernels.tables import UNKNOWN

ROOT_ROW = 0
MAX_QUOTA = (1 << 63) - 1
_MAX_INODE_ID = (1 << 63) - 1


class ResolvedPath(NamedTuple):
    """Where a path leads.

    Attributes:
        row: of the inode there, `NO_ROW` where there is none.
        parent: row of what the component before the last one leads to, which need not be a directory; `NO_ROW` where
            that is nothing, and for the root.
        name: the last component, empty for the root.
    """

    row: int
    parent: int
    name: bytes


class Tree:
    """Inodes by path and by id: rows of touched inodes, and for each touched directory the names looked up in it.

    `links` has the row of a child by its directory's row and its name, `NO_ROW` where the directory has no child of
    that name any more (or never had). A name that is not there is still as the base image says. Children that a
    directory has by reference are there from the moment it is opened.

    Args:
        base: the image below.
        table: rows of the inodes touched so far; row 0 becomes the root.
        hadoop3: whether Hadoop 3's rules hold.
        is_snapshottable: tells by its inode id whether a directory is.
        heals: takes what does not fit together and is healed.

    Attributes:
        references: what inodes renamed out of snapshots left, and how they stand in their directories.
        leased_ids: ascending ids of open files of the base that get the mark `LEASED` when they are read.
        moved: how many directories have lost their places.
    """

    def __init__(
        self,
        base: BaseImage,
        table: InodeTable,
        healing_log: HealingLog,
        *,
        hadoop3: bool,
        is_snapshottable: Callable[[int], bool],
    ) -> None:
        self.base = base
        self._is_snapshottable = is_snapshottable
        self.table = table
        self.hadoop3 = hadoop3
        self.healing_log = healing_log
        self.references = References(base.history, table, self.load, self.place)
        self.links = ChildLinks(table)
        self.dropped: npt.NDArray[np.bool_] = table.allocator.zeros(base.slot_count, np.bool_)
        self.inode_count = base.slot_count
        # names in snapshots that Hadoop 2.7 left among the children when it took a rename back
        self._misplaced: dict[int, dict[bytes, WithName]] = {}
        self._watched: list[int] = []
        self._unmapped: set[int] = set()
        self._special_ids: Ids = np.zeros(0, np.int64)
        self.leased_ids: Ids = np.zeros(0, np.int64)
        self._marks: npt.NDArray[np.bool_] | None = None
        self._directory_cache: dict[str, int] = {}
        self.moved = 0
        if self.load(ROOT_INODE_ID) != ROOT_ROW:
            raise ImageFormatError(
                f"no root inode {ROOT_INODE_ID}", file=base.file, section="INODE", hint="Use another copy of the image."
            )

    # ---- look-up -------------------------------------------------------------------------------------------

    def load(self, inode_id: int) -> int:
        """Row of an inode of the base image, decoded if need be; NO_ROW for one the image does not have (now)."""
        row = self.table.row_of.get(inode_id)
        if row is not None:
            return row
        slot = self.base.slot(inode_id)
        if slot < 0 or self.dropped[slot]:
            return NO_ROW
        row = self.table.load(self.base.inode_buffer, self.base.inode_offset(slot), slot)
        _default_namespace_quota(self.table, row)
        self._mark_special(row)
        if self.table.is_under_construction(row) and find_id(self.leased_ids, inode_id) >= 0:
            self.table.marks[row] |= LEASED
        return row

    def load_all(self, inode_ids: Iterable[int]) -> Ids:
        """`load` of each, with one look at all that were not read before."""
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
                _default_namespace_quota(self.table, row)
        for ids, mark in ((self._special_ids, SPECIAL), (self.leased_ids, LEASED)):
            if ids.size:
                marked = find_ids(ids, self.table.id[first : self.table.count]) >= 0
                self.table.marks[first : self.table.count][marked] |= mark
        rows = self.table.row_of.get_all(wanted)
        return np.where(rows == UNKNOWN, NO_ROW, rows)

    def mark_special(self, inode_ids: Ids) -> None:
        """Rows of these inodes of the base, whose ids ascend, get the mark `SPECIAL`, at once or when they are read."""
        self._special_ids = inode_ids
        for row in range(self.table.count):
            self._mark_special(row)

    def _mark_special(self, row: int) -> None:
        if self._special_ids.size and find_id(self._special_ids, int(self.table.id[row])) >= 0:
            self.table.marks[row] |= SPECIAL

    def watch(self, inode_ids: Iterable[int]) -> None:
        """These inodes of the base are not to be passed over unread where a directory above them is dropped."""
        self._watched.extend(inode_ids)

    def was_in_current_state(self, row: int) -> bool:
        """Whether a path leads to an inode of the base in the base image; True for a new one."""
        slot = int(self.table.slot[row])
        if slot < 0:
            return True
        return self.base.history.is_reached(ROOT_INODE_ID, int(self.table.id[row]))

    def unread_quota_directories(self) -> InodeTable:
        """Directories nobody read whose records are not as Hadoop would have loaded them, as dirty rows of a table
        of their own: here they would have no place.
        """
        table = InodeTable(self.base.layout_version, self.base.place("INODE"), self.table.allocator)
        for inode_id in self.base.type_quota_ids.tolist():
            slot = self.base.slot(inode_id)
            if inode_id not in self.table.row_of and not self.dropped[slot]:
                row = table.load(self.base.inode_buffer, self.base.inode_offset(slot), slot)
                _default_namespace_quota(table, row)
        return table

    def row(self, inode_id: int) -> int:
        """Row of a live inode that a path has led to before, `NO_ROW` otherwise."""
        row = self.table.row_of.get(inode_id)
        return NO_ROW if row is None or self.table.flags[row] & DROPPED else row

    def child(self, directory: int, name: bytes) -> int:
        """Row of the child called `name`, `NO_ROW` where there is none.

        Raises:
            UnsupportedNamespaceError: what the image has under that name is no child.
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
            self.links.set(directory, name, row)
        return row

    def place(self, row: int, directory: int) -> None:
        """Note where the image has an inode.

        Raises:
            RecordError: it has it elsewhere too, or a directory below itself.
        """
        held = NO_ROW if row == NO_ROW else int(self.table.parent[row])
        loops = self.table.kind[row] == DIRECTORY and self.is_ancestor(row, directory)
        if row == NO_ROW or held not in (NO_ROW, directory) or loops:
            what = f"directory {int(self.table.id[directory])} has an inode that is in two places"
            raise self.base.place("INODE_DIR").error(RecordError, what, 0, "Use another copy of the image.")
        self.table.parent[row] = directory

    def is_open(self, directory: int) -> bool:
        """Whether anybody has looked into a directory."""
        return bool(self.table.marks[directory] & OPENED)

    def open_directory(self, directory: int) -> None:
        """Before its links are looked at: find the children that a directory has by reference."""
        if self.is_open(directory):
            return
        self.table.marks[directory] |= OPENED
        if self.table.slot[directory] < 0:
            return
        for number in self.base.reference_children(int(self.table.id[directory])).tolist():
            node = self.references.resolve(number, directory)
            if isinstance(node, int):
                self.links.set(directory, self.table.name(node), node)
            else:
                self._misplaced.setdefault(directory, {})[node.name] = node

    def find(self, path: str) -> int:
        """Row of the inode at an absolute path, `NO_ROW` where there is none; raises as `resolve`."""
        return self.resolve(path).row

    def resolve(self, path: str) -> ResolvedPath:
        """Where a path leads, as the NameNode reads it that replays an operation (INodesInPath.resolve).

        Raises:
            NamespaceError: it is not absolute, leads through a symbolic link or, in Hadoop 3, a file, or into a
                snapshot.
        """
        if not is_plain(path):
            return self.follow(split_path(path, hadoop3=self.hadoop3))
        head, _, last = path.rpartition("/")
        name, parent = encode_name(last), self._directory(head)
        return ResolvedPath(NO_ROW if parent == NO_ROW else self._step(parent, name), parent, name)

    def follow(self, names: Sequence[bytes]) -> ResolvedPath:
        """`resolve` of a path that is given by its components."""
        row, parent = ROOT_ROW, NO_ROW
        for name in names:
            parent = row
            if row != NO_ROW:
                row = self._step(row, name)
        return ResolvedPath(row, parent, names[-1] if names else b"")

    def _step(self, row: int, name: bytes) -> int:
        """Row that a component leads to from an inode, which only a directory lets a path go through."""
        if self.table.kind[row] != DIRECTORY:
            if self.hadoop3 or self.table.kind[row] == SYMLINK:
                raise NamespaceError(f"{self.path(row)} is not a directory")
            return NO_ROW
        if name == SNAPSHOT_NAME and (row == ROOT_ROW or self._is_snapshottable(int(self.table.id[row]))):
            raise NamespaceError(f"{join_names([*self._names(row), name])} cannot be changed")
        return self.child(row, name)

    def _directory(self, path: str) -> int:
        """Row of what a plain path leads to, or the empty path of the root; most often a directory."""
        row = self._directory_cache.get(path)
        if row is None:
            head, _, last = path.rpartition("/")
            above = self._directory_cache.get(head) if last else None
            if above is None:
                row = self.follow(split_path(path or "/", hadoop3=self.hadoop3)).row
            else:
                row = self._step(above, encode_name(last))
            # Absent paths and files are not cached: making a directory there would have to find and forget them.
            if row != NO_ROW and self.table.kind[row] == DIRECTORY:
                self._directory_cache[path] = row
        return row

    def forget_paths(self) -> None:
        """Directories have moved, or are gone."""
        self._directory_cache.clear()

    def find_parent(self, path: str) -> tuple[int, bytes]:
        """(row of the directory that holds or would hold `path`, local name).

        Raises:
            NamespaceError: as `resolve`; or that directory does not exist, or is none.
        """
        place = self.resolve(path)
        if place.row == ROOT_ROW:
            raise NamespaceError(f"{path!r} has no parent directory")
        if place.parent == NO_ROW or self.table.kind[place.parent] != DIRECTORY:
            raise NamespaceError(f"parent directory of {path} does not exist")
        return place.parent, place.name

    def last_existing(self, path: str) -> tuple[int, bytes]:
        """(row of the last inode on the way that exists, last component), as SYMLINK goes by.

        Raises:
            NamespaceError: as `resolve`; or the path is the root's.
        """
        names = split_path(path, hadoop3=self.hadoop3)
        if not names:
            raise NamespaceError(f"{path!r} has no parent directory")
        row = ROOT_ROW
        for name in names:
            child = self._step(row, name)
            if child == NO_ROW:
                break
            row = child
        return row, names[-1]

    def check_new_name(self, directory: int, name: bytes) -> None:
        """Raise NamespaceError for a name that no inode may get in a directory."""
        check_new_name(name, in_root=directory == ROOT_ROW)

    def names(self, inode_id: int) -> list[bytes] | None:
        """Components of the path of a live inode; None where there is no such inode."""
        rows = self.locate([inode_id])
        return self._names(rows[0]) if rows else None

    def is_gone(self, inode_id: int) -> bool:
        """Whether there is no such inode, or no more."""
        row = self.table.row_of.get(inode_id)
        if row is not None:
            return bool(self.table.flags[row] & DROPPED)
        slot = self.base.slot(inode_id)
        return slot < 0 or bool(self.dropped[slot])

    def path(self, row: int) -> str:
        """Absolute path of a live inode; of one that only snapshots have, as far as it goes."""
        return join_names(self._names(row))

    def _names(self, row: int) -> list[bytes]:
        names: list[bytes] = []
        while row not in (ROOT_ROW, NO_ROW):
            names.append(self.table.name(row))
            row = int(self.table.parent[row])
        return names[::-1]

    def is_ancestor(self, ancestor: int, row: int) -> bool:
        """Whether `row` is `ancestor` or lies below it."""
        while row not in (ancestor, ROOT_ROW, NO_ROW):
            row = int(self.table.parent[row])
        return row == ancestor

    def children(self, directory: int) -> Iterator[tuple[bytes, int]]:
        """(name, row) of every child, in no order; loads all of them."""
        yield from self._children(directory, None)

    def misplaced(self, directory: int) -> dict[bytes, WithName]:
        """Names in snapshots that the image has among the children of a directory."""
        self.open_directory(directory)
        return self._misplaced.get(directory, {})

    def drop_misplaced(self, directory: int, name: bytes) -> None:
        """A directory loses one of its `misplaced` names."""
        del self._misplaced[directory][name]
        self._set_entry(directory, name, NO_ROW)
        # which knew of no child
        self.table.rows["growth"][directory] -= 1

    def marked_children(self, directory: int) -> Iterator[tuple[bytes, int]]:
        """`children`, but of those in the base image that were never read only what `watch` asked for, what has
        diffs or holds references, and the directories above such ones.
        """
        yield from self._children(directory, self.way_marks())

    def locate(self, inode_ids: list[int]) -> list[int]:
        """Rows of live inodes, most of them directories of the base image; leaves out those that are gone.

        An inode of the base that no path has led to is loaded with the directories above it.
        """
        unread = np.array([i for i in inode_ids if i not in self.table.row_of], np.int64)
        for chain in self.base.history.chains(unread):
            above = NO_ROW
            for inode_id in chain.tolist():
                known = inode_id in self.table.row_of
                row = self.load(inode_id)
                if not known and row != NO_ROW and above != NO_ROW:
                    # Nobody touched it, so it is still where the image has it.
                    self.table.parent[row] = above
                    self.open_directory(above)
                    self.links.set(above, self.table.name(row), row)
                above = row
        return [row for row in map(self.row, inode_ids) if row != NO_ROW]

    def _children(self, directory: int, marks: npt.NDArray[np.bool_] | None) -> Iterator[tuple[bytes, int]]:
        self.open_directory(directory)
        if self.table.slot[directory] >= 0:
            for child in self._untouched_children(directory, marks).tolist():
                row = self.load(child)
                self.table.parent[row] = directory
                self.links.set(directory, self.table.name(row), row)
        yield from [(name, row) for name, row in self.links.items(directory) if row != NO_ROW]

    def _untouched_children(self, directory: int, marks: npt.NDArray[np.bool_] | None) -> Ids:
        children = self.base.children(int(self.table.id[directory]))
        if marks is not None:
            slots = self.base.slots_of(children)
            children = children[marks[slots] & ~self.dropped[slots]]
        row_of = self.table.row_of
        return np.array([child for child in children.tolist() if child not in row_of], np.int64)

    def way_marks(self) -> npt.NDArray[np.bool_]:
        """By slot of the base image: what `marked_children` reads, and the directories above such inodes."""
        if self._marks is None:
            history = self.base.history
            wanted = np.union1d(history.owners, np.array(self._watched, np.int64))
            # Every NameNode writes an entry for the root, which is above all and below nothing.
            wanted = wanted[wanted != ROOT_INODE_ID]
            if wanted.size or history.reference_count:
                self._marks = history.on_the_way_to(wanted)
            else:
                self._marks = np.zeros(self.base.slot_count, np.bool_)
        return self._marks

    def references_in(self, directory: int) -> list[WithName | Hub]:
        """References that a directory has as children, by id."""
        self.open_directory(directory)
        hubs = map(self.references.hub, self.links.rows(directory))
        known = [hub for hub in hubs if hub is not None and hub.dst_snapshot is not None]
        return [
            *sorted(known, key=lambda hub: int(self.table.id[hub.row])),
            *self._misplaced.get(directory, {}).values(),
        ]

    def child_count(self, directory: int, growth: int | None = None) -> int:
        """How many children a directory has, or had when it had so many more than in the base image."""
        count = int(self.table.rows["growth"][directory]) if growth is None else growth
        if self.table.slot[directory] >= 0:
            count += self.base.child_count(int(self.table.id[directory]))
        return count

    # ---- change --------------------------------------------------------------------------------------------

    def check_known(self, row: int) -> None:
        """Before a row is written or copied.

        Raises:
            UnsupportedNamespaceError: its record has fields this version does not know, which would be lost.
        """
        if self.table.flags[row] & UNKNOWN_FIELDS:
            offset = self.base.inode_offset(int(self.table.slot[row]))
            raise UnsupportedNamespaceError(
                f"inode {int(self.table.id[row])} ({self.path(row)}; {self.base.file}, section INODE, offset {offset}) "
                "has fields this version does not know"
            )

    def touch(self, row: int) -> None:
        """Mark a row as changed; raises as `check_known`."""
        self.check_known(row)
        self.table.flags[row] |= DIRTY

    def _set_entry(self, directory: int, name: bytes, row: int) -> None:
        if self.table.slot[directory] >= 0 and self.base.has_unknown_fields(int(self.table.id[directory])):
            raise UnsupportedNamespaceError(
                f"the entry of directory {self.path(directory)} ({self.base.file}, section INODE_DIR) "
                "has fields this version does not know"
            )
        self.open_directory(directory)
        before = self.links.get(directory, name)
        self.table.rows["growth"][directory] += int(row != NO_ROW) - int(before not in (None, NO_ROW))
        self.links.set(directory, name, row, changed=True)

    def insert(self, directory: int, name: bytes, row: int) -> None:
        """Make `row` the child `name`, which the directory must not have."""
        self._set_entry(directory, name, row)
        self.table.parent[row] = directory

    def add(self, directory: int, name: bytes, inode_id: int, kind: int) -> int:
        """A new inode that is not in the tree yet; `insert` puts it there once its times are set.

        Raises:
            NamespaceError: the id is taken, or none that an inode below the root may have.
        """
        if inode_id <= ROOT_INODE_ID:
            raise NamespaceError(f"inode id {inode_id} of {self.path(directory)}/{name!r} is reserved")
        if inode_id in self.table.row_of or self.base.slot(inode_id) >= 0:
            raise NamespaceError(f"inode id {inode_id} of {self.path(directory)}/{name!r} is in use")
        self.inode_count += 1
        return self.table.add(inode_id, kind, name)

    def unlink(self, directory: int, name: bytes) -> None:
        """Take a child out of its directory; the inode itself stays."""
        row = self.child(directory, name)
        self._set_entry(directory, name, NO_ROW)
        if row != NO_ROW and self.table.kind[row] == DIRECTORY:
            self.moved += 1
            self.table.rows["moved"][row] = self.moved
            self._directory_cache.clear()

    def rename(self, row: int, name: bytes) -> None:
        """Give an unlinked inode another name."""
        if self.table.name(row) != name:
            self.touch(row)
            self.table.set_name(row, name)

    # ---- removal -------------------------------------------------------------------------------------------

    def drop(self, row: int) -> None:
        """An inode is gone for good; what was below it has to go before, but see `drop_untouched`."""
        slot = int(self.table.slot[row])
        self.table.flags[row] |= DROPPED
        self.inode_count -= row not in self._unmapped
        if slot >= 0:
            self.dropped[slot] = True
        if self.table.kind[row] == DIRECTORY and slot >= 0:
            self.base.forget_directory(int(self.table.id[row]))

    def unmap(self, row: int) -> None:
        """An inode has no record in the new image any more, whoever leads to it, as it may happen in Hadoop."""
        slot = int(self.table.slot[row])
        if self.table.flags[row] & DROPPED or row in self._unmapped:
            return
        self._unmapped.add(row)
        self.inode_count -= 1
        self.table.flags[row] &= ~DIRTY & 0xFF
        if slot >= 0:
            self.dropped[slot] = True

    def revive(self, row: int) -> None:
        """An inode was dropped, but something still leads to it: it gets its record back."""
        slot = int(self.table.slot[row])
        self.table.flags[row] &= ~DROPPED & 0xFF
        self.inode_count += 1
        if slot >= 0:
            self.dropped[slot] = False

    def drop_untouched(self, directory: int) -> None:
        """Drop the children in the base image that were never read, and all below them.

        `marked_children` has been read before, so there is nothing among them that anybody else refers to.
        """
        if self.table.slot[directory] < 0:
            return
        gone = self._drop_unread(self._untouched_children(directory, None))
        while gone:
            inode_id = gone.pop()
            gone.extend(self._drop_unread(self.base.children(inode_id)))
            self.base.forget_directory(inode_id)

    def _drop_unread(self, inode_ids: Ids) -> list[int]:
        """Drop inodes of the base; returns those with children, which are still there."""
        slots = self.base.slots_of(inode_ids)
        inode_ids = inode_ids[~self.dropped[slots]]
        self.inode_count -= inode_ids.size
        directories: list[int] = self.base.drop_inodes(inode_ids, self.dropped).tolist()
        return directories


def _default_namespace_quota(table: InodeTable, row: int) -> None:
    """Hadoop's loader gives a directory that has only storage type quotas the largest namespace quota."""
    limited = table.kind[row] == DIRECTORY and bool(table.feature(row).type_quotas)
    if limited and table.ns_quota[row] < 0 and table.ds_quota[row] < 0 and not table.flags[row] & UNKNOWN_FIELDS:
        table.ns_quota[row] = MAX_QUOTA
        table.flags[row] |= DIRTY
