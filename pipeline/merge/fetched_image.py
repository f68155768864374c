"""The closure of the inodes that edits touch, as the base image of replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from image_format.errors import BufferOrigin
from image_format.history_sections import HistorySections, Ids, Marks
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from pipeline.merge.closure import DirectoryChildren, DirectoryEntry, ImageAnswer, ImageRequest, PathLookup

_FEW = 64


class KnownSlots:
    """Slots by inode id; -1 for an id that the image does not contain."""

    UNKNOWN = -2

    def __init__(self) -> None:
        self._single: dict[int, int] = {}
        self._pending: list[tuple[Ids, Ids]] = []
        self._ids: Ids = np.zeros(0, np.int64)
        self._slots: Ids = np.zeros(0, np.int64)

    def add(self, inode_ids: Ids, slots: Ids) -> None:
        """Add inodes with their slots."""
        self._single.update(zip(inode_ids.tolist(), slots.tolist(), strict=True))

    def lack(self, inode_ids: Iterable[int]) -> None:
        """Record ids that the image does not contain."""
        self._single.update(dict.fromkeys(inode_ids, -1))

    def add_many(self, inode_ids: Ids, slots: Ids) -> None:
        """Add inodes that are seldom looked up one by one."""
        if inode_ids.size < _FEW:
            self.add(inode_ids, slots)
        else:
            self._pending.append((inode_ids, slots))

    def get(self, inode_id: int) -> int | None:
        """Return the slot of an inode, None if unknown."""
        slot = self._single.get(inode_id)
        if slot is None:
            found = int(self._look_up(np.array([inode_id], np.int64))[0])
            slot = None if found == self.UNKNOWN else found
        return slot

    def many(self, inode_ids: Ids) -> Ids:
        """Return the slot of each inode: -1 if the image does not contain it, `UNKNOWN` if that is not known."""
        found = self._look_up(inode_ids)
        for at in np.flatnonzero(found == self.UNKNOWN).tolist():
            found[at] = self._single.get(int(inode_ids[at]), self.UNKNOWN)
        return found

    def _look_up(self, inode_ids: Ids) -> Ids:
        if self._pending:
            ids = np.concatenate([self._ids, *(ids for ids, _ in self._pending)])
            slots = np.concatenate([self._slots, *(slots for _, slots in self._pending)])
            self._ids, first = np.unique(ids, return_index=True)
            self._slots = slots[first]
            self._pending.clear()
        if not self._ids.size:
            return np.full(inode_ids.size, self.UNKNOWN, np.int64)
        at = np.minimum(np.searchsorted(self._ids, inode_ids), self._ids.size - 1)
        return np.where(self._ids[at] == inode_ids, self._slots[at], self.UNKNOWN)


class HistoryQueries(Protocol):
    """Questions to the index of the whole image, see `image_format.history_index.BaseHistory`."""

    def holders(self) -> Ids: ...

    def chains(self, inode_ids: Ids) -> list[Ids]: ...

    def on_the_way_to(self, inode_ids: Ids) -> Ids:
        """Return the marked slots, ascending."""

    def deleters(self, inode_ids: Ids) -> Ids: ...


class ClosureHistory(HistorySections):
    """`BaseHistory` of an image whose inodes are not on the driver.

    Args:
        image: the open file.
        load: fetches inodes and passes them to `add`.
    """

    def __init__(
        self, image: ImageFile, slot_count: int, questions: HistoryQueries, load: Callable[[Iterable[int]], None]
    ) -> None:
        def place(name: str) -> BufferOrigin:
            return image.place(name) if image.has_section(name) else BufferOrigin(str(image.path), name)

        super().__init__(image.section("SNAPSHOT_DIFF"), image.section("INODE_REFERENCE"), place)
        self._slot_count = slot_count
        self._questions = questions
        self._load = load
        self._in_tree: dict[int, bool] = {}
        self._held: Ids | None = None

    def add(self, inode_ids: Ids, in_tree: npt.NDArray[np.bool_]) -> None:
        """Record whether these inodes are reachable from the root."""
        if self.owners.size or self.reference_count:
            self._in_tree.update(zip(inode_ids.tolist(), in_tree.tolist(), strict=True))

    def is_reached(self, directory_id: int, inode_id: int) -> bool:
        """See `BaseHistory`; only used for the root directory."""
        if inode_id not in self._in_tree and (self.owners.size or self.reference_count):
            self._load([inode_id])
        return self._in_tree.get(inode_id, True)

    def older_diffs(self, directory_id: int, snapshots: Ids) -> int:
        """See `BaseHistory`; always unknown (-1) here."""
        return -1

    def holders(self) -> Ids:
        if not self.reference_count:
            return np.zeros(0, np.int64)
        if self._held is None:
            self._held = self._questions.holders()
        return self._held

    def chains(self, inode_ids: Ids) -> list[Ids]:
        if not inode_ids.size:
            return []
        chains = self._questions.chains(inode_ids)
        self._load({int(inode_id) for chain in chains for inode_id in chain})
        return chains

    def on_the_way_to(self, inode_ids: Ids) -> Marks:
        marks = np.zeros(self._slot_count, np.bool_)
        marks[self._questions.on_the_way_to(inode_ids)] = True
        return marks

    def deleters(self, inode_ids: Ids) -> Ids:
        if not self.owners.size:
            return np.zeros(inode_ids.size, np.int64)
        return self._questions.deleters(inode_ids)


Bytes = npt.NDArray[np.uint8]

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
