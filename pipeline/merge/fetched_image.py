"""The closure of the inodes that edits touch, as the base image of replay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from image_format.errors import BufferOrigin
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from pipeline.merge.closure import DirectoryChildren, DirectoryEntry, ImageAnswer, ImageRequest, PathLookup
from pipeline.merge.fetched_history import ClosureHistory, HistoryQueries
from pipeline.merge.known_slots import KnownSlots

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]

_NO_IDS: Ids = np.zeros(0, np.int64)
_NO_ENTRY = DirectoryEntry(0, 0, [], False)


class ImageFacts(NamedTuple):
    """Facts about a whole image.

    Attributes:
        header: the INodeSection message.
        slot_count: number of inodes; largest_id: their largest id.
        type_quota_ids: ids of the directories with storage type quotas.
        inode_bytes: size of INODE, decompressed.
        cuts: offsets of entries that divide INODE_DIR into even ranges, beginning with 0.
    """

    header: bytes
    slot_count: int
    largest_id: int
    type_quota_ids: Ids
    inode_bytes: int
    cuts: list[int]


class ImageQueries(HistoryQueries, Protocol):
    """Requests of `ClosureImage` for inodes outside the fetched closure."""

    def fetch(self, wanted: ImageRequest) -> ImageAnswer:
        """See `pipeline.merge.resolver`."""

    def open_file_ids(self) -> Ids:
        """See `BaseImage.open_file_ids`."""


class ClosureImage:
    """`BaseImage` over records that were fetched in advance or are fetched on demand.

    Args:
        image: the open file; only small sections are read from it.
        questions: fetches missing records.

    Attributes:
        on_demand: number of fetches outside the closure.
    """

    def __init__(self, image: ImageFile, description: ImageFacts, questions: ImageQueries) -> None:
        self.layout_version = image.layout_version
        self.file = str(image.path)
        self.header = pb.INodeSection.FromString(description.header)
        self.slot_count = description.slot_count
        self.type_quota_ids = description.type_quota_ids
        self.on_demand = 0
        self._image = image
        self._largest_id = description.largest_id
        self._questions = questions
        self._slots = KnownSlots()
        self._offset_of: dict[int, int] = {}
        self._buffer: Bytes = np.zeros(1 << 20, np.uint8)
        self._used = 0
        self._entries: dict[int, DirectoryEntry] = {}
        self._names: dict[tuple[int, bytes], int] = {}
        self._subtrees: dict[int, DirectoryChildren] = {}
        self._history = ClosureHistory(image, self.slot_count, questions, self._load_history)

    # ---- what was fetched ------------------------------------------------------------------------------------------

    @property
    def record_count(self) -> int:
        """Number of fetched inode records."""
        return len(self._offset_of)

    def add(self, fetched: ImageAnswer) -> None:
        """Add the answer of a task."""
        start = self._append(fetched.records)
        self._slots.add(fetched.inode_ids, fetched.slots)
        self._slots.lack(fetched.absent)
        offsets = (fetched.bounds[:-1] + start).tolist()
        self._offset_of.update(zip(fetched.slots.tolist(), offsets, strict=True))
        self._entries.update(dict.fromkeys(fetched.inode_ids.tolist(), _NO_ENTRY))
        self._entries.update((entry.directory_id, entry) for entry in fetched.entries)
        self._names.update(((directory, name), child) for directory, name, child in fetched.names)
        self._history.add(fetched.inode_ids, fetched.in_tree)
        for subtree in fetched.subtrees:
            self._subtrees[subtree.directory_id] = subtree
            self._slots.add_many(subtree.inode_ids, subtree.slots)

    def _append(self, records: bytes) -> int:
        start, end = self._used, self._used + len(records)
        if end > self._buffer.size:
            self._buffer = np.concatenate([self._buffer[:start], np.zeros(max(start, len(records)), np.uint8)])
        self._buffer[start:end] = np.frombuffer(records, np.uint8)
        self._used = end
        return start

    def _fetch(self, wanted: ImageRequest) -> None:
        self.on_demand += 1
        self.add(self._questions.fetch(wanted))

    # ---- inodes ----------------------------------------------------------------------------------------------------

    @property
    def inode_buffer(self) -> Bytes:
        return self._buffer

    def slot(self, inode_id: int) -> int:
        if not 0 < inode_id <= self._largest_id:
            return -1
        slot = self._slots.get(inode_id)
        if slot is None:
            self._fetch(ImageRequest(inode_ids=[inode_id]))
            slot = self._slots.get(inode_id)
        return -1 if slot is None else slot

    def inode_offset(self, slot: int) -> int:
        offset = self._offset_of.get(slot)
        if offset is None:
            self._fetch(ImageRequest(slots=[slot]))
            offset = self._offset_of[slot]
        return offset

    def inode_offsets(self, slots: Ids) -> Ids:
        unknown = [slot for slot in slots.tolist() if slot not in self._offset_of]
        if unknown:
            self._fetch(ImageRequest(slots=unknown))
        return np.array([self._offset_of[slot] for slot in slots.tolist()], np.int64)

    def slots_of(self, inode_ids: Ids) -> Ids:
        slots = self._slots.many(inode_ids)
        unknown = slots == KnownSlots.UNKNOWN
        if unknown.any():
            self._fetch(ImageRequest(inode_ids=inode_ids[unknown].tolist()))
            slots = self._slots.many(inode_ids)
        return slots

    def drop_inodes(self, inode_ids: Ids, dropped: npt.NDArray[np.bool_]) -> Ids:
        dropped[self.slots_of(inode_ids)] = True
        known = [inode_id for inode_id in inode_ids.tolist() if self._has_children(inode_id)]
        return np.array(known, np.int64)

    def _has_children(self, inode_id: int) -> bool:
        # Dropped inodes come from `children`, which fetches every directory with children below.
        entry = self._entries.get(inode_id, _NO_ENTRY)
        return inode_id in self._subtrees or entry is not _NO_ENTRY

    def open_file_ids(self) -> Ids:
        return self._questions.open_file_ids()

    # ---- directories -----------------------------------------------------------------------------------------------

    def child(self, directory_id: int, name: bytes) -> int:
        child = self._names.get((directory_id, name))
        if child is None:
            if not self._entry(directory_id).children:
                return 0
            child = self._names.get((directory_id, name))
        if child is None:
            self._fetch(ImageRequest(walks=[PathLookup(directory_id, name)]))
            child = self._names[(directory_id, name)]
        return child

    def children(self, directory_id: int) -> Ids:
        subtree = self._subtrees.get(directory_id)
        if subtree is not None:
            return subtree.inode_ids
        if not self._entry(directory_id).children:
            return _NO_IDS
        self._fetch(ImageRequest(below=[directory_id]))
        return self._subtrees[directory_id].inode_ids

    def child_count(self, directory_id: int) -> int:
        entry = self._entry(directory_id)
        return entry.children + len(entry.references)

    def reference_children(self, directory_id: int) -> Ids:
        return np.array(self._entry(directory_id).references, np.int64)

    def has_unknown_fields(self, directory_id: int) -> bool:
        return self._entry(directory_id).unknown_fields

    def forget_directory(self, directory_id: int) -> None:
        self._subtrees.pop(directory_id, None)

    def _entry(self, directory_id: int) -> DirectoryEntry:
        entry = self._entries.get(directory_id)
        if entry is None and self.slot(directory_id) < 0:
            return _NO_ENTRY
        entry = self._entries.get(directory_id)
        if entry is None:
            self._fetch(ImageRequest(inode_ids=[directory_id]))
            entry = self._entries.get(directory_id, _NO_ENTRY)
        return entry

    # ---- sections --------------------------------------------------------------------------------------------------

    @property
    def history(self) -> ClosureHistory:
        return self._history

    def _load_history(self, inode_ids: Iterable[int]) -> None:
        unknown = [inode_id for inode_id in inode_ids if inode_id not in self._entries]
        if unknown:
            self._fetch(ImageRequest(inode_ids=unknown))

    def section(self, name: str) -> Bytes | None:
        return self._image.section(name)

    def place(self, name: str) -> BufferOrigin:
        return self._image.place(name) if self._image.has_section(name) else BufferOrigin(self.file, name)
