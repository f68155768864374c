"""The arrays of an index over an fsimage, built by one scan, and stored in a folder if other processes need them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hadoop_common.file_faults import error_text
from hadoop_common.quantities import counted
from image_format.array_allocator import ArrayAllocator, GrowableArray
from image_format.errors import ImageStorageError, RecordError
from image_format.inode_scan import Inspector, inode_section, scan_inode_section, scanners
from image_format.kernels.packed import unpack
from image_format.kernels.scan import place_slots, scan_directories, strictly_increasing
from image_format.packed import Packed
from image_format.reader import ImageFile

Ids = npt.NDArray[np.int64]
Slots = npt.NDArray[np.uint32]

_FIRST_SIZE = 1 << 10
_PIECE = 1 << 17
_MOST_SLOTS = 1 << 32
_EMPTY_IDS: Ids = np.zeros(0, np.int64)
_NO_SLOTS: Slots = np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True)
class IndexArrays:
    """Positions of the records of INODE and INODE_DIR; packed, or int64 except the slots, which are uint32.

    Attributes:
        ids: ids of all inodes, ascending.
        slots: slot of each id in `ids`; empty if the slots ascend with the ids. A slot is a record's position in INODE.
        offsets: offset of each delimited record in the INODE section, by slot.
        type_quota_ids: ids of the directories with storage type quotas, by slot.
        directory_ids: ids of the directories with an entry in INODE_DIR, ascending.
        directory_offsets: offset of each entry in the INODE_DIR section, in the order of `directory_ids`.
    """

    ids: Packed
    slots: Slots
    offsets: Packed
    type_quota_ids: Ids
    directory_ids: Ids
    directory_offsets: Ids

    @classmethod
    def scan(
        cls,
        image: ImageFile,
        allocator: ArrayAllocator | None = None,
        progress: Callable[[int], None] | None = None,
        inspector: Inspector | None = None,
    ) -> IndexArrays:
        """Walk both sections of an image; `allocator` provides the arrays, and `progress` receives the approximate
        number of bytes.

        Args:
            inspector: see `scan_inode_section`.

        Raises:
            MissingSectionError: the INODE section is missing.
            RecordError: INODE or INODE_DIR contains a damaged record or two records with the same id, or the header
                contains a wrong inode count.
            ImageStorageError: the arrays do not fit.
        """
        wide = ArrayAllocator() if allocator is None else allocator
        with scanners(image) as executor:
            directories = executor.submit(_scan_directories, image, wide)
            by_slot, offsets, limited, ascending = scan_inode_section(image, executor, wide, progress, inspector)
            type_quota_ids = by_slot.at(limited)
            ids, slots = by_slot, _NO_SLOTS
            if not ascending:
                plain = _sorted(image, by_slot, wide)
                # in sequence, to limit memory
                del ids, by_slot
                ids = Packed.of(plain, wide)
                del plain
                slots = wide.zeros(ids.size, np.uint32)
                place_slots(inode_section(image), offsets, ids, slots)
            directory_ids, directory_offsets, children = directories.result()
            _check_directories(image, directory_ids, children, ids, executor)
        return cls(ids, slots, offsets, type_quota_ids, directory_ids, directory_offsets)

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, item.name).nbytes for item in fields(self))

    def save(self, folder: Path) -> None:
        """Write each array as a `.npy` without syncing; a caller that needs atomicity renames the folder afterwards.

        Raises:
            OSError: the folder cannot be written.
        """
        for item in fields(self):
            value = getattr(self, item.name)
            columns = value._asdict() if isinstance(value, Packed) else {"": value}
            for column, array in columns.items():
                np.save(folder / f"{item.name}{column and '-'}{column}.npy", array, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> IndexArrays:
        """Map the files of `save`; all processes share the pages.

        Raises:
            ImageStorageError: a file is missing or truncated.
        """

        def packed(name: str) -> Packed:
            return Packed(*(load_array(folder, f"{name}-{column}") for column in Packed._fields))

        ids, offsets = packed("ids"), packed("offsets")
        names = ("slots", "type_quota_ids", "directory_ids", "directory_offsets")
        slots, *others = (load_array(folder, name) for name in names)
        return cls(ids, slots, offsets, *others)

    def slots_at(self, rows: Ids) -> Ids:
        """Return the slots of `ids` in these rows; negative rows are unchanged."""
        if not self.slots.size:
            return rows
        found: Ids = np.where(rows >= 0, self.slots[rows], rows)
        return found

    def slot(self, inode_id: int) -> int:
        """Return the slot of an inode, or -1 for an unknown id."""
        row = self.ids.find(inode_id)
        return int(self.slots[row]) if row >= 0 and self.slots.size else row

    def slots_of(self, inode_ids: Ids) -> Ids:
        return self.slots_at(self.ids.find_all(inode_ids))

    def ids_at(self, slots: Ids, allocator: ArrayAllocator | None = None) -> Ids:
        """Return the inode id of each slot; `allocator` temporarily provides marks for all inodes."""
        if not self.slots.size:
            return self.ids.at(slots)
        # An array of all ids by slot would be larger than all other arrays of the index.
        wanted: npt.NDArray[np.bool_] = (ArrayAllocator() if allocator is None else allocator).zeros(
            self.ids.size, np.bool_
        )
        wanted[slots] = True
        rows = np.flatnonzero(wanted[self.slots])
        rows = rows[np.argsort(self.slots[rows])]
        return self.ids.at(rows[np.searchsorted(self.slots[rows], slots)])


def load_array(folder: Path, name: str) -> npt.NDArray[Any]:
    """Map the array in `NAME.npy`.

    Raises:
        ImageStorageError: the file is missing or truncated.
    """
    path = folder / f"{name}.npy"
    try:
        # Mapped privately, so that kernels receive the array type for which they were compiled.
        array: npt.NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False).view(np.ndarray)
        return array
    except (OSError, ValueError, EOFError) as error:
        hint = f"Run the command again; the files in {folder} are temporary."
        raise ImageStorageError(f"cannot read {path}: {error_text(error, path)}", hint=hint) from error


def _damaged(image: ImageFile, section: str, offset: int, what: str) -> RecordError:
    return image.place(section).error(RecordError, what, offset)


def _sorted(image: ImageFile, by_slot: Packed, allocator: ArrayAllocator) -> Ids:
    """Return all ids, ascending."""
    if by_slot.size > _MOST_SLOTS:
        raise _damaged(image, "INODE", 0, f"it has more inodes than an image can have: {by_slot.size}")
    ids: Ids = allocator.zeros(by_slot.size, np.int64)
    unpack(by_slot, 0, ids)
    ids.sort()
    _check_distinct(image, ids, "INODE")
    return ids


def _check_distinct(image: ImageFile, ordered: Ids, section: str) -> None:
    if not strictly_increasing(ordered):
        twice = int(ordered[np.flatnonzero(np.diff(ordered) == 0)[0]])
        raise _damaged(image, section, 0, f"inode {twice} has two records")


def _scan_directories(image: ImageFile, allocator: ArrayAllocator) -> tuple[Ids, Ids, int]:
    """Return (id of the directory of each entry, ascending; offset of each entry; total number of children)."""
    buffer = image.section("INODE_DIR")
    if buffer is None or buffer.size == 0:
        return _EMPTY_IDS, _EMPTY_IDS, 0
    columns = GrowableArray(allocator, np.int64, _FIRST_SIZE), GrowableArray(allocator, np.int64, _FIRST_SIZE)
    count = pos = children = 0
    while True:
        count, more, pos, damaged = scan_directories(buffer, pos, *(column.array for column in columns), count)
        children += more
        if damaged:
            raise _damaged(image, "INODE_DIR", pos, "damaged directory entry")
        if pos == buffer.size:
            break
        for column in columns:
            column.grow(count, count + 1)
    ids, offsets = (column.array[:count] for column in columns)
    if not strictly_increasing(ids):
        order = np.argsort(ids, kind="stable")
        ids[...], offsets[...] = ids[order], offsets[order]
        _check_distinct(image, ids, "INODE_DIR")
    return ids, offsets, children


def _check_directories(image: ImageFile, ids: Ids, children: int, inode_ids: Packed, executor: Executor) -> None:
    """Raise RecordError if entries belong to no inode, or have more children than possible."""
    if children >= inode_ids.size > 0:
        what = f"{children} children of directories in {counted(inode_ids.size, 'inode')}: an inode is in two places"
        raise _damaged(image, "INODE_DIR", 0, what)
    pieces = [ids[start : start + _PIECE] for start in range(0, ids.size, _PIECE)]
    for piece, found in zip(pieces, executor.map(inode_ids.find_all, pieces), strict=True):
        orphans = piece[found < 0]
        if orphans.size:
            raise _damaged(image, "INODE_DIR", 0, f"directory {int(orphans[0])} has children but no inode")
