"""The arrays that an index over an fsimage is made of: scanned once, kept in a folder for others where that pays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from image_format.errors import ImageStorageError, MissingSectionError, RecordError
from image_format.kernels.scan import scan_directories, scan_inodes, strictly_increasing
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message, read_record

__all__ = ["IndexArrays", "inode_section", "load_array", "read_inode_header"]

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]

_SMALLEST_RECORD = 6
_EMPTY_IDS: Ids = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class IndexArrays:
    """Where the records of INODE and INODE_DIR lie; all int64.

    Attributes:
        ids: of all inodes, ascending.
        slots: slot of each of `ids`; empty where it is their own order. A slot is a record's position in INODE.
        offsets: of each delimited record in the INODE section, by slot.
        type_quota_ids: of the directories with storage type quotas, by slot.
        directory_ids: of the directories with an entry in INODE_DIR, ascending.
        directory_offsets: of each entry in the INODE_DIR section, as `directory_ids`.
    """

    ids: Ids
    slots: Ids
    offsets: Ids
    type_quota_ids: Ids
    directory_ids: Ids
    directory_offsets: Ids

    @classmethod
    def scan(cls, image: ImageFile) -> IndexArrays:
        """Walk both sections of an image.

        Raises:
            MissingSectionError: there is no INODE section.
            RecordError: INODE or INODE_DIR holds a damaged record, two records of one id, or another number of
                inodes than its header says.
        """
        by_slot, offsets, type_quota_slots = _scan_inodes(image)
        ids, slots = _sort(image, by_slot, "INODE")
        directory_ids, directory_offsets = _scan_directories(image, ids)
        return cls(ids, slots, offsets, by_slot[type_quota_slots], directory_ids, directory_offsets)

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


def inode_section(image: ImageFile) -> Bytes:
    """The INODE section; raises MissingSectionError where there is none."""
    section = image.section("INODE")
    if section is None:
        raise MissingSectionError(
            "section INODE is missing",
            file=str(image.path),
            section="INODE",
            hint="Use another copy of the image.",
        )
    return section


def read_inode_header(image: ImageFile) -> tuple[pb.INodeSection, int]:
    """(the section's header, offset of what follows it); raises RecordError where it is damaged."""
    place = image.place("INODE")
    record = read_record(inode_section(image).data, 0, place)
    return parse_message(pb.INodeSection, record, place), record.end


def _damaged(image: ImageFile, section: str, offset: int, what: str) -> RecordError:
    return image.place(section).error(RecordError, what, offset)


def _scan_inodes(image: ImageFile) -> tuple[Ids, Ids, Ids]:
    """(id and offset of each record, slots of the directories with storage type quotas)."""
    buffer = inode_section(image)
    header, pos = read_inode_header(image)
    # The header's count is only a hint: a damaged one must not decide how much memory is taken.
    capacity = min(header.numInodes, buffer.size // _SMALLEST_RECORD) + 1
    ids, offsets = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    quota_slots = np.empty(64, np.int64)
    count = limited = 0
    while True:
        count, limited, pos, damaged = scan_inodes(buffer, pos, ids, offsets, count, quota_slots, limited)
        if damaged:
            raise _damaged(image, "INODE", pos, "damaged inode record")
        if limited < quota_slots.size:
            break
        quota_slots = np.concatenate([quota_slots, np.empty_like(quota_slots)])
    if count != header.numInodes or pos != buffer.size:
        found = count if pos == buffer.size else "more"
        raise _damaged(image, "INODE", 0, f"header counts {header.numInodes} inodes, found {found}")
    return ids[:count], offsets[:count], quota_slots[:limited].copy()


def _sort(image: ImageFile, ids: Ids, section: str) -> tuple[Ids, Ids]:
    if strictly_increasing(ids):
        return ids, _EMPTY_IDS
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    if not strictly_increasing(ordered):
        twice = int(ordered[np.flatnonzero(np.diff(ordered) == 0)[0]])
        raise _damaged(image, section, 0, f"inode {twice} has two records")
    return ordered, order


def _scan_directories(image: ImageFile, inode_ids: Ids) -> tuple[Ids, Ids]:
    buffer = image.section("INODE_DIR")
    if buffer is None or buffer.size == 0:
        return _EMPTY_IDS, _EMPTY_IDS
    ids, offsets = np.empty(1024, np.int64), np.empty(1024, np.int64)
    count = pos = children = 0
    while True:
        count, more, pos, damaged = scan_directories(buffer, pos, ids, offsets, count)
        children += more
        if damaged:
            raise _damaged(image, "INODE_DIR", pos, "damaged directory entry")
        if pos == buffer.size:
            break
        ids, offsets = (np.concatenate([a, np.empty_like(a)]) for a in (ids, offsets))
    ordered, order = _sort(image, ids[:count].copy(), "INODE_DIR")
    if children >= inode_ids.size > 0:
        what = f"{children} children of directories, but only {inode_ids.size} inodes: one is in two places"
        raise _damaged(image, "INODE_DIR", 0, what)
    orphans = np.setdiff1d(ordered, inode_ids, assume_unique=True)
    if orphans.size:
        raise _damaged(image, "INODE_DIR", 0, f"directory {int(orphans[0])} has children but no inode")
    in_file_order = offsets[:count].copy()
    return ordered, in_file_order[order] if order.size else in_file_order
