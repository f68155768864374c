"""The index of an image that a merge wrote, made from the index of the old one instead of by a scan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.index_arrays import Ids, IndexArrays, Slots
from image_format.inode_scan import SMALLEST_RECORD
from image_format.kernels.index_update import keep_ids, shift_offsets
from image_format.kernels.scan import scan_inodes, strictly_increasing

__all__ = ["SectionUpdate", "updated_arrays"]

Bytes = npt.NDArray[np.uint8]


class SectionUpdate(NamedTuple):
    """What a merge did to the records of INODE or INODE_DIR.

    Attributes:
        start: where records begin in the new section; old_end: where they ended in the old one.
        places: rows of (start, end) in the old section, ascending: what was cut out, whole records each.
        data, spans: new records, and a row of (start, end) in them for each of `places`, empty where nothing came.
        added_data, added: the same of the records that came behind all others.
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
    """What `IndexArrays.scan` of the new image gives; None where only that can tell.

    Both indexes are in memory meanwhile.

    Args:
        added_directories: ids of the directories whose entries are `directories.added`.
    """
    records = _Records.of(inodes.added_data)
    added = records.at(inodes.added)
    added_ids = records.ids[added]
    if not strictly_increasing(np.concatenate([old.ids[-1:], added_ids])):
        return None
    offsets, kept = _offsets(old.offsets, inodes)
    ids, slots = _ids(old, kept, added_ids)
    limited = np.concatenate([_limited(old, inodes, kept), added_ids[records.limited[added]]])
    return IndexArrays(ids, slots, offsets, limited, *_directories(old, directories, added_directories))


class _Records(NamedTuple):
    """Encoded inodes: id, offset and whether it is a directory with storage type quotas."""

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
        """Numbers of the records at `spans`."""
        return np.searchsorted(self.offsets, spans[:, 0])


def _offsets(old: Ids, update: SectionUpdate) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """(offsets of the old records that are there still and of the added ones, which of the old ones these are)."""
    kept = np.empty(old.size, np.bool_)
    out = np.empty(old.size + update.added.shape[0], np.int64)
    shift = update.start - int(old[0]) if old.size else 0
    count = shift_offsets(old, update.places, update.spans, shift, kept, out)
    sizes = np.diff(update.added).ravel()
    end = update.old_end + shift + int(np.diff(update.spans).sum() - np.diff(update.places).sum())
    out[count : count + sizes.size] = (end if old.size else update.start) + np.cumsum(sizes) - sizes
    return out[: count + sizes.size], kept


def _ids(old: IndexArrays, kept: npt.NDArray[np.bool_], added: Ids) -> tuple[Ids, Slots]:
    """(ids, slots) of the old records that are there still and of the added ones, whose ids are the largest."""
    size = old.ids.size + added.size
    ids, slots = np.empty(size, np.int64), np.empty(size if old.slots.size else 0, np.uint32)
    before = np.zeros(0, np.uint32)
    if old.slots.size:
        before = np.cumsum(~kept, dtype=np.uint32)
    count = keep_ids(old.ids, old.slots, kept, before, ids, slots)
    behind = count + added.size
    ids[count:behind] = added
    if slots.size:
        slots[count:behind] = np.arange(count, behind)
        if bool(np.all(slots[1:behind] > slots[: behind - 1])):
            # what stood out of order is gone
            slots = slots[:0]
    return ids[:behind], slots[:behind]


def _limited(old: IndexArrays, update: SectionUpdate, kept: npt.NDArray[np.bool_]) -> Ids:
    """Ids of the old inodes that are directories with storage type quotas now, by slot."""
    records = _Records.of(update.data)
    places = np.searchsorted(old.ids, old.type_quota_ids)
    slots = old.slots[places] if old.slots.size else places
    same = kept[slots] & ~np.isin(old.offsets[slots], update.places[:, 0])
    came = np.flatnonzero(np.diff(update.spans).ravel())
    numbers = records.at(update.spans[came])
    came, numbers = came[records.limited[numbers]], numbers[records.limited[numbers]]
    changed_slots = np.searchsorted(old.offsets, update.places[came, 0])
    ids = np.concatenate([old.type_quota_ids[same], records.ids[numbers]])
    order = np.argsort(np.concatenate([slots[same], changed_slots]), kind="stable")
    found: Ids = ids[order]
    return found


def _directories(old: IndexArrays, update: SectionUpdate, added: Ids) -> tuple[Ids, Ids]:
    """(directory ids, offset of the entry of each)."""
    in_file_order = np.argsort(old.directory_offsets, kind="stable")
    offsets, kept = _offsets(old.directory_offsets[in_file_order], update)
    ids = np.concatenate([old.directory_ids[in_file_order[kept]], added])
    order = np.argsort(ids, kind="stable")
    return ids[order], offsets[order]
