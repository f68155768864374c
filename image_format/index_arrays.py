"""The arrays that an index over an fsimage is made of: scanned once, kept in a folder for others where that pays."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from image_format.errors import ImageStorageError, RecordError
from image_format.inode_scan import inode_section, scan_inode_section, scanners
from image_format.kernels.scan import find_ids, place_slots, scan_directories, strictly_increasing
from image_format.reader import ImageFile
from image_format.room import Growing, Room

__all__ = ["Ids", "IndexArrays", "Slots", "load_array"]

Ids = npt.NDArray[np.int64]
Slots = npt.NDArray[np.uint32]

_FIRST_SIZE = 1 << 10
_PIECE = 1 << 17
_MOST_SLOTS = 1 << 32
_EMPTY_IDS: Ids = np.zeros(0, np.int64)
_NO_SLOTS: Slots = np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True)
class IndexArrays:
    """Where the records of INODE and INODE_DIR lie; all int64 but for the slots, which are uint32.

    Attributes:
        ids: of all inodes, ascending.
        slots: slot of each of `ids`; empty where it is their own order. A slot is a record's position in INODE.
        offsets: of each delimited record in the INODE section, by slot.
        type_quota_ids: of the directories with storage type quotas, by slot.
        directory_ids: of the directories with an entry in INODE_DIR, ascending.
        directory_offsets: of each entry in the INODE_DIR section, as `directory_ids`.
    """

    ids: Ids
    slots: Slots
    offsets: Ids
    type_quota_ids: Ids
    directory_ids: Ids
    directory_offsets: Ids

    @classmethod
    def scan(cls, image: ImageFile, room: Room | None = None) -> IndexArrays:
        """Walk both sections of an image; the arrays lie in `room`.

        Raises:
            MissingSectionError: there is no INODE section.
            RecordError: INODE or INODE_DIR holds a damaged record, two records of one id, or another number of
                inodes than its header says.
            ImageStorageError: there is no room.
        """
        wide = Room() if room is None else room
        with scanners() as executor:
            directories = executor.submit(_scan_directories, image, wide)
            ids, offsets, limited = scan_inode_section(image, executor, wide)
            type_quota_ids = ids[limited]
            slots = _sort_inodes(image, ids, offsets, wide)
            directory_ids, directory_offsets, children = directories.result()
            _check_directories(image, directory_ids, children, ids, executor)
        return cls(ids, slots, offsets, type_quota_ids, directory_ids, directory_offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, item.name).nbytes for item in fields(self))

    def save(self, folder: Path) -> None:
        """Write each array as `NAME.npy`, plainly: who needs it whole renames the folder when it is done.

        Raises:
            OSError: the folder cannot be written.
        """
        for item in fields(self):
            np.save(folder / f"{item.name}.npy", getattr(self, item.name), allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> IndexArrays:
        """Map what `save` wrote; the pages are shared by all processes that do.

        Raises:
            ImageStorageError: a file is absent or cut.
        """
        return cls(*(load_array(folder, item.name) for item in fields(cls)))

    def ids_by_slot(self) -> Ids:
        """Inode id of each slot."""
        if not self.slots.size:
            return self.ids
        ids = np.empty_like(self.ids)
        ids[self.slots] = self.ids
        return ids


def load_array(folder: Path, name: str) -> npt.NDArray[Any]:
    """Map the array in `NAME.npy`.

    Raises:
        ImageStorageError: the file is absent or cut.
    """
    path = folder / f"{name}.npy"
    try:
        # Mapped privately, so that kernels see the array type that they were compiled for.
        array: npt.NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False).view(np.ndarray)
        return array
    except (OSError, ValueError, EOFError) as error:
        hint = f"Remove {folder} and start again."
        raise ImageStorageError(f"cannot read {path}: {error}", hint=hint) from error


def _damaged(image: ImageFile, section: str, offset: int, what: str) -> RecordError:
    return image.place(section).error(RecordError, what, offset)


def _sort_inodes(image: ImageFile, ids: Ids, offsets: Ids, room: Room) -> Slots:
    """Sort `ids`, which are in the order of the records, where they lie; returns the slot of each, as `IndexArrays`."""
    if strictly_increasing(ids):
        return _NO_SLOTS
    ids.sort()
    _check_distinct(image, ids, "INODE")
    if ids.size > _MOST_SLOTS:
        raise _damaged(image, "INODE", 0, f"{ids.size} inodes are more than an image can have")
    slots: Slots = room.zeros(ids.size, np.uint32)
    # The ids are read anew, so that no second array of them is needed.
    place_slots(inode_section(image), offsets, ids, slots)
    return slots


def _check_distinct(image: ImageFile, ordered: Ids, section: str) -> None:
    if not strictly_increasing(ordered):
        twice = int(ordered[np.flatnonzero(np.diff(ordered) == 0)[0]])
        raise _damaged(image, section, 0, f"inode {twice} has two records")


def _scan_directories(image: ImageFile, room: Room) -> tuple[Ids, Ids, int]:
    """(id of the directory of each entry, ascending; offset of each entry; how many children they have)."""
    buffer = image.section("INODE_DIR")
    if buffer is None or buffer.size == 0:
        return _EMPTY_IDS, _EMPTY_IDS, 0
    columns = Growing(room, np.int64, _FIRST_SIZE), Growing(room, np.int64, _FIRST_SIZE)
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


def _check_directories(image: ImageFile, ids: Ids, children: int, inode_ids: Ids, executor: Executor) -> None:
    """Raises RecordError where entries are of no inode, or tell of more children than there can be."""
    if children >= inode_ids.size > 0:
        what = f"{children} children of directories, but only {inode_ids.size} inodes: one is in two places"
        raise _damaged(image, "INODE_DIR", 0, what)
    pieces = [ids[start : start + _PIECE] for start in range(0, ids.size, _PIECE)]
    for piece, found in zip(pieces, executor.map(lambda piece: find_ids(inode_ids, piece), pieces), strict=True):
        orphans = piece[found < 0]
        if orphans.size:
            raise _damaged(image, "INODE_DIR", 0, f"directory {int(orphans[0])} has children but no inode")
