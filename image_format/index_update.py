"""Index of a merged image, derived from the index of the old image instead of a scan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import ArrayAllocator
from image_format.index_arrays import Ids, IndexArrays, Slots
from image_format.inode_scan import SMALLEST_RECORD
from image_format.kernels.index_update import shift_offsets
from image_format.kernels.scan import scan_inodes, strictly_increasing
from image_format.packed import Packed

Bytes = npt.NDArray[np.uint8]

_PIECE = 1 << 20


class SectionUpdate(NamedTuple):
    """Changes of a merge to the records of INODE or INODE_DIR.

    Attributes:
        start: start of the records in the new section; `old_end`: end of the records in the old section.
        places: ascending rows of (start, end) in the old section: the ranges of complete records that were replaced or
            removed.
        data, spans: new records, and for each of `places` a row of (start, end) in the new records; the range is empty
            if nothing replaces the old records.
        added_data, added: the same for the records that are appended after all other records.
    """

    start: int
    old_end: int
    places: Ids
    data: Bytes
    spans: Ids
    added_data: Bytes
    added: Ids


def updated_arrays(
    old: IndexArrays, inodes: SectionUpdate, directories: SectionUpdate, added_directories: Ids
) -> IndexArrays | None:
    """Return the result of `IndexArrays.scan` for the new image, or None if only a scan can provide it.

    Both indexes are in memory during the update.

    Args:
        added_directories: ids of the directories whose entries are `directories.added`.
    """
    records = _Records.of(inodes.added_data)
    added = records.at(inodes.added)
    added_ids = records.ids[added]
    size = old.ids.size + added_ids.size
    if not strictly_increasing(np.concatenate([old.ids.part(max(0, old.ids.size - 1), old.ids.size), added_ids])):
        return None
    kept = np.empty(old.ids.size, np.bool_)
    offsets = Packed.joined(_shifted(_pieces(old.offsets), inodes, kept), size, ArrayAllocator())
    ids, slots = _ids(old, kept, added_ids)
    limited = np.concatenate([_limited(old, inodes, kept), added_ids[records.limited[added]]])
    return IndexArrays(ids, slots, offsets, limited, *_directories(old, directories, added_directories))


def _pieces(column: Packed) -> Iterator[Ids]:
    for first in range(0, column.size, _PIECE):
        yield column.part(first, first + _PIECE)


class _Records(NamedTuple):
    """Ids and offsets of encoded inodes, and whether each inode is a directory with storage type quotas."""

    ids: Ids
    offsets: Ids
    limited: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, data: Bytes) -> _Records:
        size = data.size // SMALLEST_RECORD + 1
        ids, offsets, quotas = (np.empty(size, np.int64) for _ in range(3))
        count, quota_count, _, damaged = scan_inodes(data, 0, data.size, ids, offsets, 0, quotas, 0)
        assert not damaged
        limited = np.zeros(count, np.bool_)
        limited[quotas[:quota_count]] = True
        return cls(ids[:count], offsets[:count], limited)

    def at(self, spans: Ids) -> Ids:
        """Return the numbers of the records at `spans`."""
        return np.searchsorted(self.offsets, spans[:, 0])


def _shifted(old: Iterable[Ids], update: SectionUpdate, kept: npt.NDArray[np.bool_]) -> Iterator[Ids]:
    """Return the offsets of the remaining old records and of the added records.

    Args:
        old: ascending offsets of all old records.
        kept: filled with the marks of the remaining old records.
    """
    row = cut = shift = 0
    for offsets in old:
        if not row and offsets.size:
            shift = update.start - int(offsets[0])
        out = np.empty_like(offsets)
        behind = row + offsets.size
        count, cut, shift = shift_offsets(offsets, update.places, update.spans, cut, shift, kept[row:behind], out)
        yield out[:count]
        row = behind
    # also count the bytes that were removed after the last record of a piece
    rest = slice(cut, None)
    shift += int(np.diff(update.spans[rest]).sum() - np.diff(update.places[rest]).sum())
    sizes = np.diff(update.added).ravel()
    yield (update.old_end + shift if row else update.start) + np.cumsum(sizes) - sizes


def _ids(old: IndexArrays, kept: npt.NDArray[np.bool_], added: Ids) -> tuple[Packed, Slots]:
    """Return (ids, slots) of the remaining old records and of the added records, whose ids are the largest."""
    count = int(np.count_nonzero(kept))
    size = count + added.size
    if not old.slots.size:
        pieces = zip(_pieces(old.ids), (kept[row : row + _PIECE] for row in range(0, kept.size, _PIECE)), strict=True)
        ids = Packed.joined(chain((ids[mark] for ids, mark in pieces), [added]), size, ArrayAllocator())
        return ids, old.slots
    before = np.cumsum(~kept, dtype=np.uint32)
    slots = np.empty(size, np.uint32)

    def kept_ids() -> Iterator[Ids]:
        used = 0
        for number, piece in enumerate(_pieces(old.ids)):
            places = old.slots[number * _PIECE : (number + 1) * _PIECE]
            mark = kept[places]
            found = places[mark]
            slots[used : used + found.size] = found - before[found]
            used += found.size
            yield piece[mark]

    ids = Packed.joined(chain(kept_ids(), [added]), size, ArrayAllocator())
    slots[count:] = np.arange(count, size)
    if bool(np.all(slots[1:] > slots[:-1])):
        # entries that were out of order no longer exist
        slots = slots[:0]
    return ids, slots


def _limited(old: IndexArrays, update: SectionUpdate, kept: npt.NDArray[np.bool_]) -> Ids:
    """Return the ids of old inodes that are now directories with storage type quotas, by slot."""
    records = _Records.of(update.data)
    slots = old.slots_of(old.type_quota_ids)
    same = kept[slots] & ~np.isin(old.offsets.at(slots), update.places[:, 0])
    came = np.flatnonzero(np.diff(update.spans).ravel())
    numbers = records.at(update.spans[came])
    came, numbers = came[records.limited[numbers]], numbers[records.limited[numbers]]
    changed_slots = old.offsets.find_all(update.places[came, 0])
    ids = np.concatenate([old.type_quota_ids[same], records.ids[numbers]])
    order = np.argsort(np.concatenate([slots[same], changed_slots]), kind="stable")
    found: Ids = ids[order]
    return found


def _directories(old: IndexArrays, update: SectionUpdate, added: Ids) -> tuple[Ids, Ids]:
    """Return (directory ids, offset of each entry)."""
    in_file_order = np.argsort(old.directory_offsets, kind="stable")
    kept = np.empty(in_file_order.size, np.bool_)
    offsets = np.concatenate(list(_shifted([old.directory_offsets[in_file_order]], update, kept)))
    ids = np.concatenate([old.directory_ids[in_file_order[kept]], added])
    order = np.argsort(ids, kind="stable")
    return ids[order], offsets[order]
