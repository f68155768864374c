"""Computes the changes of a delta to INODE and INODE_DIR, and applies them to a range of either section.

Both steps are separate, because the local engine applies a delta to whole sections, and each Spark task applies it to a
range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.array_allocator import ArrayAllocator, BufferPool, pieces
from image_format.direct_reader import SectionReads
from image_format.index import Bytes, DirectoryChanges, Ids, ImageIndex
from image_format.kernels.merge import splice
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited

COPY_CHUNK = 1 << 20
_WINDOW = 4 << 20
Chunk = memoryview | bytes


class SectionCuts(NamedTuple):
    """Changes of a section.

    Attributes:
        places: rows of (start, end) of the replaced bytes of the section, ascending.
        data: new bytes.
        spans: one row of (start, end) in `data` for each row of `places`.
    """

    places: Ids
    data: Bytes
    spans: Ids


class InodeDelta(NamedTuple):
    """Changed records of INODE, by slot.

    Attributes:
        slots: slots of the changed inodes, ascending; none of them is dropped.
        data: new bytes.
        spans: one row of (start, end) in `data` for each slot.
        dropped: rows of (first, one past the last) slot of removed inodes, ascending.
    """

    slots: Ids
    data: Bytes
    spans: Ids
    dropped: Ids

    def between(self, first: int, behind: int) -> InodeDelta:
        """Return the part for the slots from `first` to `behind` - 1, excluding the bytes of other slots."""
        inside = np.flatnonzero((self.slots >= first) & (self.slots < behind))
        spans = self.spans[inside]
        ends = np.cumsum(spans[:, 1] - spans[:, 0])
        pieces = [self.data[start:end] for start, end in spans.tolist()]
        data = np.concatenate(pieces) if pieces else self.data[:0]
        starts = ends - (spans[:, 1] - spans[:, 0])
        dropped = np.clip(self.dropped, first, behind)
        return InodeDelta(
            self.slots[inside], data, np.stack([starts, ends], axis=1), dropped[dropped[:, 0] < dropped[:, 1]]
        )


class DirectoryDelta(NamedTuple):
    """Changed entries of INODE_DIR.

    Attributes:
        changes: directories with changed names.
        references: numbers of the references in directories, by directory id.
        patched: ids of directories in which only numbers of references change.
        moved: new numbers of references, by old number.
        dropped: see `InodeDelta`.
    """

    changes: DirectoryChanges
    references: Mapping[int, list[int]]
    patched: Ids
    moved: Mapping[int, int]
    dropped: Ids

    def select(self, wanted: npt.NDArray[np.bool_]) -> DirectoryDelta:
        """Return the delta with only the wanted changed and patched directories."""
        count = self.changes.directory_ids.size
        changes = self.changes.select(np.flatnonzero(wanted[:count]))
        return self._replace(changes=changes, patched=self.patched[wanted[count:]])


def runs(marks: npt.NDArray[np.bool_], allocator: ArrayAllocator) -> Ids:
    """Return the runs of True in `marks`, as rows of (first, one past the last)."""
    count = sum(int(np.count_nonzero(_edges(marks, piece))) for piece in pieces(marks.size))
    edges: Ids = allocator.zeros(count + count % 2, np.int64)
    used = 0
    for piece in pieces(marks.size):
        found = piece.start + np.flatnonzero(_edges(marks, piece))
        edges[used : used + found.size] = found
        used += found.size
    edges[used:] = marks.size
    return edges.reshape(-1, 2)


def _edges(marks: npt.NDArray[np.bool_], piece: slice) -> npt.NDArray[np.bool_]:
    """Return the marks in `piece` that differ from the previous mark; the mark before the first is False."""
    edges = marks[piece].copy()
    edges[1:] ^= marks[piece][:-1]
    if piece.start:
        edges[0] ^= marks[piece.start - 1]
    return edges


def merged_places(piece: slice, before: Ids) -> Ids:
    """Return the places of the numbers of `piece` in a merge with another array, of which `before` numbers precede
    each of them.
    """
    return np.arange(piece.start, piece.stop) + before


def spliced(buffer: Bytes, start: int, cuts: SectionCuts, reads: SectionReads | None = None) -> Iterator[memoryview]:
    """Yield the section from `start` with `cuts` applied; a piece is reused only after its release.

    Args:
        reads: direct reads of the section, if `buffer` does not fit in the page cache.
    """
    pool = BufferPool(COPY_CHUNK)
    state = np.array([0, start, 0], np.int64)
    piece, used = pool.take(), 0
    for window, origin in _windows(buffer, start, reads):
        while True:
            out = np.frombuffer(piece, np.uint8)[used:]
            used += splice(window, origin, cuts.places, cuts.data, cuts.spans, state, out)
            if used < len(piece):
                break
            yield piece.toreadonly()
            piece, used = pool.take(), 0
    if used:
        yield piece[:used].toreadonly()


def _windows(buffer: Bytes, start: int, reads: SectionReads | None) -> Iterator[tuple[Bytes, int]]:
    """Yield (window, its position) to cover the buffer from `start` on. A window is valid until the next window."""
    if reads is None or start == buffer.size:
        yield buffer, 0
        return
    for first in range(start, buffer.size, _WINDOW):
        stop = min(first + _WINDOW, buffer.size)
        window = reads.read(first, stop)
        yield buffer[first:stop] if window is None else window, first


def appended(data: Bytes, spans: Ids) -> Iterator[memoryview]:
    """Yield records that have no place in the old section."""
    for piece in pieces(len(spans)):
        yield from spliced(data[:0], 0, SectionCuts(np.zeros_like(spans[piece]), data, spans[piece]))


def inode_cuts(index: ImageIndex, delta: InodeDelta, allocator: ArrayAllocator) -> SectionCuts:
    """Return the cuts of INODE; adjacent dropped records share one cut."""
    size = delta.slots.size + len(delta.dropped)
    places, spans = (allocator.zeros((size, 2), np.int64) for _ in range(2))
    edges = delta.dropped.reshape(-1)
    for piece in pieces(delta.slots.size):
        slots = delta.slots[piece]
        at = merged_places(piece, np.searchsorted(edges, slots, side="right") // 2)
        places[at, 0], places[at, 1] = _starts(index, slots), _starts(index, slots + 1)
        spans[at] = delta.spans[piece]
    for piece in pieces(len(delta.dropped)):
        dropped = delta.dropped[piece]
        at = merged_places(piece, np.searchsorted(delta.slots, dropped[:, 0]))
        places[at] = _starts(index, dropped.reshape(-1)).reshape(-1, 2)
    return SectionCuts(places, delta.data, spans)


def merged_inodes(index: ImageIndex, delta: InodeDelta, first: int, behind: int) -> Iterator[Chunk]:
    """Yield the records of the slots from `first` to `behind` - 1; replace changed records and omit dropped records.

    The delta must not contain other slots.
    """
    start, end = _starts(index, np.array([first, behind])).tolist()
    return spliced(index.inode_buffer[:end], start, inode_cuts(index, delta, ArrayAllocator()))


def _starts(index: ImageIndex, slots: Ids) -> Ids:
    """Return the offsets of the records of `slots`; for the slot after the last, return the section's end."""
    if not index.slot_count:
        return np.full(slots.size, index.records_start, np.int64)
    offsets: Ids = index.offsets.at(np.minimum(slots, index.slot_count - 1))
    return np.where(slots == index.slot_count, index.inode_buffer.size, offsets)


class DirectoryCuts(NamedTuple):
    """Changes of INODE_DIR.

    Attributes:
        cuts: see `spliced`.
        added: rows of (start, end) in `cuts.data` for entries that have no place in the old section.
        added_ids: directory ids of these entries.
    """

    cuts: SectionCuts
    added: Ids
    added_ids: Ids


def directory_cuts(
    index: ImageIndex, delta: DirectoryDelta, allocator: ArrayAllocator, start: int = 0, end: int | None = None
) -> DirectoryCuts:
    """Return the changes to the bytes from `start` to `end` of INODE_DIR; see `merged_directories`.

    Raises:
        RecordError: a child is not an inode, or an entry is damaged.
    """
    stop = index.directory_buffer.size if end is None else end

    def inside(places: Ids) -> npt.NDArray[np.bool_]:
        return (places[:, 0] >= start) & (places[:, 0] < stop)

    ids = np.concatenate([delta.changes.directory_ids, delta.patched])
    places = index.directory_spans(ids)
    wanted = inside(places)
    if end is None:
        wanted |= places[:, 0] < 0
    if not wanted.all():
        delta, ids, places = delta.select(wanted), ids[wanted], places[wanted]
    data, spans = _entries(index, delta, places)
    gone = index.directory_spans(index.dropped_directories(delta.dropped))
    if not (wanted := inside(gone)).all():
        gone = gone[wanted]
    # A new directory without children has no entry.
    added = np.flatnonzero((places[:, 0] < 0) & (spans[:, 1] > spans[:, 0]))
    # The order of look-ups must not change the image.
    added = added[np.argsort(ids[added])]
    return DirectoryCuts(
        _ordered_cuts(places, data, spans, gone, allocator),
        _chosen(spans, added, allocator),
        _chosen(ids, added, allocator),
    )


def _ordered_cuts(places: Ids, data: Bytes, spans: Ids, gone: Ids, allocator: ArrayAllocator) -> SectionCuts:
    """Return the cuts for changed entries at `places`, except new entries, and for removed entries at `gone`."""
    starts = np.concatenate([places[:, 0], gone[:, 0]])
    order = np.argsort(starts, kind="stable")[np.count_nonzero(starts < 0) :]
    del starts
    cuts = SectionCuts(allocator.zeros((order.size, 2), np.int64), data, allocator.zeros((order.size, 2), np.int64))
    for piece in pieces(order.size):
        rows = order[piece]
        changed = rows < len(places)
        cuts.places[piece][changed], cuts.spans[piece][changed] = places[rows[changed]], spans[rows[changed]]
        cuts.places[piece][~changed] = gone[rows[~changed] - len(places)]
    return cuts


def _chosen(values: Ids, rows: Ids, allocator: ArrayAllocator) -> Ids:
    """Return the `rows` of `values`, in an array of `allocator`."""
    found: Ids = allocator.zeros((rows.size, *values.shape[1:]), np.int64)
    for piece in pieces(rows.size):
        found[piece] = values[rows[piece]]
    return found


def merged_directories(
    index: ImageIndex, delta: DirectoryDelta, start: int = 0, end: int | None = None
) -> Iterator[Chunk]:
    """Yield the bytes from `start` to `end` of INODE_DIR with the delta applied; entries begin at both offsets.

    Without `end`, yield the rest of the section, followed by the entries of directories that had no entry.

    Raises:
        RecordError: a child is not an inode, or an entry is damaged.
    """
    stop = index.directory_buffer.size if end is None else end
    found = directory_cuts(index, delta, ArrayAllocator(), start, end)
    yield from spliced(index.directory_buffer[:stop], start, found.cuts)
    yield from appended(found.cuts.data, found.added)


def _entries(index: ImageIndex, delta: DirectoryDelta, places: Ids) -> tuple[Bytes, Ids]:
    """Return the bytes of new entries for the changed and patched directories, and the span of each entry."""
    changes = delta.changes
    count = changes.directory_ids.size
    data, spans = index.merge_directories(changes, places[:count])
    if delta.references:
        data, spans = _with_references(index, changes.directory_ids, delta.references, data, spans)
    return _with_patched(index, places[count:], delta.moved, data, spans)


def _with_references(
    index: ImageIndex, directory_ids: Ids, references: Mapping[int, list[int]], data: Bytes, spans: Ids
) -> tuple[Bytes, Ids]:
    """Add the reference numbers to changed entries of directories that have referenced children."""
    more: list[bytes] = []
    size = data.size
    for position, directory_id in enumerate(directory_ids.tolist()):
        numbers = references.get(directory_id)
        if numbers:
            start, end = spans[position].tolist()
            entry = pb.DirEntry(parent=directory_id)
            if end > start:
                entry = MessageReader(data[start:end], index.place("INODE_DIR")).read(pb.DirEntry)
            entry.refChildren.extend(numbers)
            more.append(encode_delimited(entry))
            spans[position] = size, size + len(more[-1])
            size += len(more[-1])
    return np.concatenate([data, np.frombuffer(b"".join(more), np.uint8)]), spans


def _with_patched(
    index: ImageIndex, places: Ids, moved: Mapping[int, int], data: Bytes, spans: Ids
) -> tuple[Bytes, Ids]:
    """Add entries for the directories at `places`, in which only reference numbers change."""
    if not places.size:
        return data, spans
    more = [data.tobytes()]
    for start, _ in places.tolist():
        entry = MessageReader(index.directory_buffer, index.place("INODE_DIR"), start).read(pb.DirEntry)
        entry.refChildren[:] = [moved.get(number, number) for number in entry.refChildren]
        more.append(encode_delimited(entry))
    ends = np.cumsum([len(piece) for piece in more])
    added = np.stack([ends[:-1], ends[1:]], axis=1)
    return np.frombuffer(b"".join(more), np.uint8), np.concatenate([spans, added])
