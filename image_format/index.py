"""Index over an fsimage: positions of each inode and each directory's children in the mapped file."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import ArrayAllocator, pieces
from image_format.errors import BufferOrigin, RecordError
from image_format.index_arrays import IndexArrays
from image_format.inode_scan import Inspector, inode_section, read_inode_header
from image_format.kernels.history import open_files
from image_format.kernels.history_check import Directories, Inodes, References
from image_format.kernels.merge import measure_entries, merge_directories, record_ends
from image_format.kernels.scan import (
    DAMAGED,
    MISSING,
    children_in_order,
    collect_children,
    count_children,
    find_id,
    find_ids,
    locate_names,
)
from image_format.name_order import name_key
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.snapshot_index import SnapshotIndex
from image_format.varint import parse_message, read_record

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]

_SECTIONS = ("INODE", "INODE_DIR", "SNAPSHOT_DIFF", "INODE_REFERENCE")
_EMPTY_IDS: Ids = np.zeros(0, np.int64)
_NAMES_AT_ONCE = 1 << 12
"""Number of names whose pages are requested together; the pages take at most 16 MiB."""
_MOST_REQUESTS = 1 << 16
"""Maximum number of records that are requested together: the page cache is small, and each request is a system call."""


class DirectoryChanges(NamedTuple):
    """Changed names of some directories, from a delta.

    Attributes:
        directory_ids: inode id of each directory.
        names, spans: the names' bytes, and a row of (start, size) for each name, in any order.
        ids: current inode id of each name; 0 for a removed name.
        bounds: start of each directory's names, and the end.
    """

    directory_ids: Ids
    names: Bytes
    spans: Ids
    ids: Ids
    bounds: Ids

    def select(self, numbers: Ids) -> DirectoryChanges:
        """Return the changes in the directories with these numbers, in that order."""
        parts = [np.arange(self.bounds[number], self.bounds[number + 1]) for number in numbers.tolist()]
        rows = np.concatenate([*parts, _EMPTY_IDS])
        bounds = _bounds([part.size for part in parts])
        return DirectoryChanges(self.directory_ids[numbers], self.names, self.spans[rows], self.ids[rows], bounds)


def _bounds(sizes: list[int]) -> Ids:
    """Return the starts of consecutive items of these sizes, and the end of the last item."""
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


class ImageIndex:
    """The index of a mapped image file; most images need 4 to 5 bytes per inode, and nothing is decoded in advance.

    Attributes:
        inode_buffer: the INODE section, to which the offsets from `inode_offset` refer; `header` is its first record.
        inode_reads: direct reads of this section; None if the page cache can hold it.
        type_quota_ids: inode ids of the directories with storage type quotas.
        snapshot_index: the sections about snapshots.

    Raises:
        RecordError: INODE or INODE_DIR contains a damaged record or two records with the same id, or the header
            contains a wrong inode count.
    """

    def __init__(
        self,
        image: ImageFile,
        arrays: IndexArrays | None = None,
        allocator: ArrayAllocator | None = None,
        progress: Callable[[int], None] | None = None,
        inspector: Inspector | None = None,
    ) -> None:
        """Scan the image, or use `arrays` of an earlier scan of the same image; `allocator` provides all other arrays.

        `progress` receives the number of scanned bytes of the image; `inspector` examines them.
        """
        allocator = ArrayAllocator() if allocator is None else allocator
        image.decompress(_SECTIONS)
        arrays = IndexArrays.scan(image, allocator, progress, inspector) if arrays is None else arrays
        self._allocator = allocator
        self.arrays = arrays
        self.layout_version = image.layout_version
        self.file = str(image.path)
        self._image = image
        self.inode_buffer = inode_section(image)
        self.inode_reads = image.direct_section("INODE")
        self._directories = image.section("INODE_DIR")
        self.header, _ = read_inode_header(image)
        self._ids, self._slots, self._offsets = arrays.ids, arrays.slots, arrays.offsets
        self.type_quota_ids = arrays.type_quota_ids
        self._directory_ids, self._directory_offsets = arrays.directory_ids, arrays.directory_offsets
        self.snapshot_index = SnapshotIndex(
            image.section("SNAPSHOT_DIFF"),
            image.section("INODE_REFERENCE"),
            self._directories,
            self.inode_buffer,
            arrays,
            self.place,
            allocator,
        )
        self._children: dict[int, tuple[Ids, Ids]] = {}
        self._unknown_entries: set[int] = set()

    @property
    def slot_count(self) -> int:
        """Number of inodes in the image; a slot is an inode's position in the INODE section."""
        return self._offsets.size

    @property
    def records_start(self) -> int:
        """Offset of the first INode record, after the section's header."""
        return self._offsets.item(0) if self._offsets.size else self.inode_buffer.size

    @property
    def columns(self) -> tuple[Directories, References, Inodes]:
        """The sections in which kernels look up names, with their columns."""
        return (
            Directories(self.directory_buffer, self._directory_ids, self._directory_offsets),
            self.snapshot_index.reference_columns,
            Inodes(self.inode_buffer, self._ids, self._slots, self._offsets),
        )

    def section(self, name: str) -> Bytes | None:
        """Return a whole section, decompressed."""
        return self._image.section(name)

    def place(self, name: str) -> BufferOrigin:
        """Return the place of a section, for errors."""
        if self._image.section(name) is None:
            return BufferOrigin(self.file, name)
        return self._image.place(name)

    def _damaged(self, offset: int, what: str) -> RecordError:
        return self.place("INODE_DIR").error(RecordError, what, offset)

    # ---- inodes --------------------------------------------------------------------------------------------

    def slot(self, inode_id: int) -> int:
        """Return the slot of an inode, or -1 if it is not in the image."""
        return self.arrays.slot(inode_id)

    def open_file_ids(self) -> Ids:
        """Return the ids of files under construction, ascending; reads every inode record."""
        slots = np.flatnonzero(open_files(self.inode_buffer, self._offsets))
        if not self._slots.size:
            return self._ids.at(slots)
        is_open = np.zeros(self.slot_count, np.bool_)
        is_open[slots] = True
        return self._ids.at(np.flatnonzero(is_open[self._slots]))

    def slots_of(self, inode_ids: Ids) -> Ids:
        """Return the slot of each inode, or -1 if it is not in the image."""
        return self.arrays.slots_of(inode_ids)

    def inode_offset(self, slot: int) -> int:
        return self._offsets.item(slot)

    def inode_offsets(self, slots: Ids) -> Ids:
        """Return `inode_offset` of each slot."""
        return self._offsets.at(slots)

    def begin_reads(self, inode_ids: Ids) -> None:
        """Begin to read the records of these inodes, up to a limit, if each read would otherwise wait for the disk."""
        if self.inode_reads is not None:
            slots = self.slots_of(inode_ids[:_MOST_REQUESTS])
            self._image.begin_reads("INODE", self._offsets.at(slots[slots >= 0]))

    @property
    def offsets(self) -> Packed:
        """Return the offset of each record in the INODE section, by slot."""
        return self._offsets

    # ---- directories ---------------------------------------------------------------------------------------

    @property
    def directory_buffer(self) -> Bytes:
        """The INODE_DIR section."""
        return np.zeros(0, np.uint8) if self._directories is None else self._directories

    @property
    def directory_ids(self) -> Ids:
        """Ids of the directories that have children in the image, ascending."""
        return self._directory_ids

    def directory_spans(self, directory_ids: Ids) -> Ids:
        """Return rows of (start, end) in INODE_DIR for each directory, (-1, -1) for a directory without an entry."""
        spans: Ids = self._allocator.zeros((directory_ids.size, 2), np.int64)
        for piece in pieces(directory_ids.size):
            some = spans[piece]
            some[:] = -1
            found = find_ids(self._directory_ids, directory_ids[piece])
            known = found >= 0
            some[known, 0] = self._directory_offsets[found[known]]
            some[known, 1] = record_ends(self.directory_buffer, some[known, 0])
        return spans

    def dropped_directories(self, dropped: Ids) -> Ids:
        """Return the ids of the directories that have an entry in INODE_DIR and a slot in `dropped`.

        Args:
            dropped: rows of (first, end) of runs of slots, ascending.
        """
        if not dropped.size:
            return self._directory_ids[:0]
        ids = self._directory_ids
        parts = [self._dropped_of(ids[piece], dropped) for piece in pieces(ids.size)]
        return np.concatenate([*parts, _EMPTY_IDS])

    def _dropped_of(self, directory_ids: Ids, dropped: Ids) -> Ids:
        slots = self.slots_of(directory_ids)
        run = np.searchsorted(dropped[:, 0], slots, side="right") - 1
        found: Ids = directory_ids[(run >= 0) & (slots < dropped[run, 1])]
        return found

    def _entry(self, directory_id: int) -> tuple[Ids, Ids]:
        cached = self._children.get(directory_id)
        if cached is None:
            index = int(find_id(self._directory_ids, directory_id))
            cached = (_EMPTY_IDS, _EMPTY_IDS) if index < 0 else self._decode_entry(directory_id, index)
            self._children[directory_id] = cached
        return cached

    def _decode_entry(self, directory_id: int, index: int) -> tuple[Ids, Ids]:
        buffer, offset = self._directories, int(self._directory_offsets[index])
        assert buffer is not None
        plain, references = count_children(buffer, offset)
        if plain < 0:
            raise self._damaged(offset, f"damaged entry of directory {directory_id}")
        children, refs = np.empty(plain, np.int64), np.empty(references, np.int64)
        unknown, damaged = collect_children(buffer, offset, children, refs)
        if damaged:
            raise self._damaged(offset, f"damaged entry of directory {directory_id}")
        if unknown:
            self._unknown_entries.add(directory_id)
        misplaced = self._first_misplaced(children)
        if misplaced == DAMAGED:
            raise self._damaged(offset, f"directory {directory_id} has a child that is not an inode")
        if misplaced != MISSING:
            children = self._sorted_children(directory_id, children, offset)
        return children, refs

    def _first_misplaced(self, children: Ids) -> int:
        """Return the result of `children_in_order`; for direct reads, request the pages of many names together."""
        step = max(1, children.size) if self.inode_reads is None else _NAMES_AT_ONCE
        for start in range(0, max(1, children.size), step):
            # Include the last child of the previous part, to compare the names on both sides of the boundary.
            first = max(0, start - 1)
            part = children[first : start + step]
            self.begin_reads(part)
            found = int(children_in_order(part, self._ids, self._slots, self._offsets, self.inode_buffer))
            if found != MISSING:
                return found if found == DAMAGED else first + found
        return MISSING

    def _sorted_children(self, directory_id: int, children: Ids, offset: int) -> Ids:
        # NameNodes up to Hadoop 3.2 insert each child at its place, so an unsorted entry is legal.
        if (self.slots_of(children) < 0).any():
            raise self._damaged(offset, f"directory {directory_id} has a child that is not an inode")
        names = [(name_key(self.name(int(child))), int(child)) for child in children]
        names.sort()
        for (left, _), (right, child) in itertools.pairwise(names):
            if left == right:
                raise self._damaged(offset, f"directory {directory_id} has two children with the name of inode {child}")
        return np.array([child for _, child in names], np.int64)

    def name(self, inode_id: int) -> bytes:
        """Return the local name of an inode of the image."""
        return self._record(inode_id).name

    def kind(self, inode_id: int) -> int:
        """Return the type of an inode from its record."""
        return self._record(inode_id).type

    def _record(self, inode_id: int) -> pb.INode:
        place = self.place("INODE")
        offset = self.inode_offset(self.slot(inode_id))
        return parse_message(pb.INode, read_record(self.inode_buffer.data, offset, place), place)

    def child(self, directory_id: int, name: bytes) -> int:
        """Return the inode id of the child `name`, or 0 if it does not exist."""
        children, _ = self._entry(directory_id)
        if not children.size:
            return 0
        positions, found = self.locate(directory_id, [name])
        return int(children[positions[0]]) if found[0] else 0

    def children(self, directory_id: int) -> Ids:
        """Return the inode ids of the plain children, in name order."""
        return self._entry(directory_id)[0]

    def reference_children(self, directory_id: int) -> Ids:
        """Return the numbers of the INODE_REFERENCE records in the directory."""
        return self._entry(directory_id)[1]

    def locate(self, directory_id: int, names: list[bytes]) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """Return each name's position or insertion position among `children`, and whether the name exists."""
        children, _ = self._entry(directory_id)
        sizes = np.fromiter(map(len, names), np.int64, len(names))
        starts = np.zeros(len(names), np.int64)
        np.cumsum(sizes[:-1], out=starts[1:])
        packed = np.frombuffer(b"".join(names), np.uint8)
        positions, found = np.empty(len(names), np.int64), np.empty(len(names), np.bool_)
        complete = locate_names(
            children, self._ids, self._slots, self._offsets, self.inode_buffer, packed, starts, sizes, positions, found
        )
        if not complete:
            raise self._damaged(0, f"directory {directory_id} has a child that is not an inode")
        return positions, found

    def merge_directories(self, changes: DirectoryChanges, places: Ids) -> tuple[Bytes, Ids]:
        """Return new DirEntry records of changed directories.

        Args:
            places: places of their entries, from `directory_spans`.

        Returns:
            The records in one array, roughly in the order of their places. A second array contains a row of (start,
            end) for each directory; the range is empty if a directory has no children.

        Raises:
            RecordError: an entry is damaged, or a child in the image is not an inode.
        """
        most_names = int(np.diff(changes.bounds).max(initial=0))
        starts = np.ascontiguousarray(places[:, 0])
        turns = np.argsort(starts, kind="stable")
        most, most_references = measure_entries(self.directory_buffer, starts, changes.bounds)
        sizes = int(places[:, 1].sum() - starts.sum()) + 32 * starts.size + 10 * changes.ids.size
        out: Bytes = self._allocator.zeros(sizes, np.uint8)
        spans: Ids = self._allocator.zeros((starts.size, 2), np.int64)
        given, done = _EMPTY_IDS, 0
        while True:
            reached = merge_directories(
                changes.directory_ids,
                self.directory_buffer,
                starts,
                turns,
                changes.names,
                changes.spans,
                changes.ids,
                changes.bounds,
                self._ids,
                self._slots,
                self._offsets,
                self.inode_buffer,
                done,
                given,
                np.empty((3, max(most, most_references)), np.int64),
                np.empty((2, most_names), np.int64),
                out,
                spans,
            )
            if reached == turns.size:
                break
            directory_id = int(changes.directory_ids[turns[reached]])
            if given.size and reached == done:
                raise self._damaged(int(starts[turns[reached]]), f"directory {directory_id} has no order")
            # this call raises the error, unless only the order is unusual
            given, done = self.children(directory_id), reached
        return out[: spans.max(initial=0)], spans

    def child_count(self, directory_id: int) -> int:
        """Return the number of children, including references."""
        children, references = self._entry(directory_id)
        return children.size + references.size

    def has_unknown_fields(self, directory_id: int) -> bool:
        """Return whether the directory's entry has unknown fields."""
        self._entry(directory_id)
        return directory_id in self._unknown_entries

    def drop_inodes(self, inode_ids: Ids, dropped: npt.NDArray[np.bool_]) -> Ids:
        """Mark the slots of these inodes in `dropped`; return the directories with entries among them."""
        dropped[self.slots_of(inode_ids)] = True
        return self.with_entries(inode_ids)

    def with_entries(self, inode_ids: Ids) -> Ids:
        """Return the inodes that are directories with children, in their order."""
        found: Ids = inode_ids[find_ids(self._directory_ids, inode_ids) >= 0]
        return found

    def forget_directory(self, directory_id: int) -> None:
        """Drop the offset of a directory's entry, which will not be read again."""
        self._children.pop(directory_id, None)
