"""Compaction: the base image's bytes copied run by run, with changed, new and dropped records in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from checkpointer.errors import CheckpointCancelledError, NamespaceError
from checkpointer.namespace import Namespace
from checkpointer.namespace.references import Hub, WithName
from image_format.index import Bytes, DirectoryChanges, Ids, ImageIndex
from image_format.inode_table import NO_ROW, EncodedRecords
from image_format.kernels.inode import DROPPED
from image_format.kernels.merge import splice
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.section_cutter import SectionCutter
from image_format.sub_sections import CUTTABLE, SubSectionRule, sub_sections_of, wanted_sub_sections
from image_format.summary import Section, is_sub_section
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter

__all__ = ["write_image"]

_COPY_CHUNK = 8 << 20
Chunk = memoryview | bytes


class Cuts(NamedTuple):
    """Where a section changes.

    Attributes:
        places: rows of (start, end) in the section, ascending: what goes.
        data, spans: new bytes, and a row of (start, end) in them for each place: what comes.
    """

    places: Ids
    data: Bytes
    spans: Ids


def spliced(buffer: Bytes, start: int, cuts: Cuts) -> Iterator[memoryview]:
    """The section from `start` on with `cuts` applied, in pieces that nobody changes any more."""
    state = np.array([0, start, 0], np.int64)
    while True:
        piece = np.empty(_COPY_CHUNK, np.uint8)
        size = splice(buffer, cuts.places, cuts.data, cuts.spans, state, piece)
        if size:
            yield piece[:size].data.toreadonly()
        if size < piece.size:
            return


def _appended(data: Bytes, spans: Ids) -> Iterator[memoryview]:
    """Records that have no place in the old section."""
    return spliced(data[:0], 0, Cuts(np.zeros_like(spans), data, spans))


def _runs(view: memoryview, start: int, end: int) -> Iterator[memoryview]:
    while start < end:
        stop = min(end, start + _COPY_CHUNK)
        yield view[start:stop]
        start = stop


class Compaction:
    """Sections of the new image, made from the base image and the namespace's delta."""

    def __init__(self, namespace: Namespace, index: ImageIndex) -> None:
        self._namespace = namespace
        self._index = index
        self._producers: dict[str, Callable[[], Iterator[Chunk]]] = {
            "NS_INFO": lambda: iter([encode_delimited(namespace.info)]),
            "INODE": self._inodes,
            "INODE_DIR": self._directories,
        }
        tree, references, diffs = namespace.tree, namespace.tree.references, namespace.history.diffs
        self._numbering = references.number(self._held(), self._knows)
        holders = self._moved_holders()
        # entries that nobody changed, and that are not copied all the same
        self._patched_directories = [i for i in holders if i > 0 and namespace.table.row_of.get(i) not in tree.changes]
        self._patched_diffs = diffs.unchanged(-i for i in holders if i < 0)
        if references.changed:
            self._producers["INODE_REFERENCE"] = lambda: iter([self._numbering.data])
        if diffs.changed or self._patched_diffs:
            self._producers["SNAPSHOT_DIFF"] = self._diffs
        for name, changed, encode in (
            ("FILES_UNDERCONSTRUCTION", namespace.leases.changed, namespace.leases.encode),
            ("SNAPSHOT", namespace.snapshots.changed, namespace.snapshots.encode),
            ("SECRET_MANAGER", namespace.secrets.changed, namespace.secrets.encode),
            ("CACHE_MANAGER", namespace.caches.changed, namespace.caches.encode),
            ("ERASURE_CODING", namespace.erasure_coding.changed, namespace.erasure_coding.encode),
            ("STRING_TABLE", namespace.strings.changed, namespace.strings.encode),
        ):
            if changed:
                self._producers[name] = lambda encode=encode: iter([encode()])  # type: ignore[misc]

    def changes(self, name: str) -> bool:
        return name in self._producers

    def names(self) -> tuple[str, ...]:
        """Sections that change, or that always hold something new."""
        return tuple(self._producers)

    def section(self, name: str) -> Iterator[Chunk]:
        """Decompressed bytes of a section."""
        producer = self._producers.get(name)
        if producer is not None:
            return producer()
        section = self._index.section(name)
        return iter(()) if section is None else _runs(section.data, 0, section.size)

    # ---- INODE ---------------------------------------------------------------------------------------------

    def _inodes(self) -> Iterator[Chunk]:
        namespace, index = self._namespace, self._index
        slots, records = self._changed_inodes()
        header = pb.INodeSection()
        header.CopyFrom(index.header)
        header.lastInodeId = namespace.last_inode_id
        header.numInodes = namespace.tree.inode_count
        yield encode_delimited(header)
        old = np.flatnonzero((slots >= 0) & ~namespace.tree.dropped[slots])
        yield from spliced(index.inode_buffer, index.records_start, self._inode_cuts(slots[old], records, old))
        yield from _appended(records.data, records.spans[slots < 0])

    def _changed_inodes(self) -> tuple[Ids, EncodedRecords]:
        """(slot or -1, record) of every inode that is not as it was."""
        table, unread = self._namespace.table, self._namespace.tree.unread_quota_directories()
        rows, more = table.dirty_rows(), unread.dirty_rows()
        records = table.encode(rows)
        if not more.size:
            return table.slot[rows], records
        added = unread.encode(more)
        data = np.concatenate([records.data, added.data])
        spans = np.concatenate([records.spans, added.spans + records.data.size])
        return np.concatenate([table.slot[rows], unread.slot[more]]), EncodedRecords(data, spans)

    def _inode_cuts(self, slots: Ids, records: EncodedRecords, numbers: Ids) -> Cuts:
        """Cuts for replaced and dropped slots; neighbouring dropped ones make one cut."""
        bounds = np.append(self._index.offsets, self._index.inode_buffer.size)
        starts, stops = _ranges(np.flatnonzero(self._namespace.tree.dropped))
        first = np.concatenate([starts, slots])
        behind = np.concatenate([stops, slots + 1])
        spans = np.concatenate([np.zeros((starts.size, 2), np.int64), records.spans[numbers]])
        order = np.argsort(first, kind="stable")
        places = np.stack([bounds[first[order]], bounds[behind[order]]], axis=1)
        return Cuts(places, records.data, spans[order])

    # ---- INODE_DIR -----------------------------------------------------------------------------------------

    def _held(self) -> Iterator[WithName | Hub]:
        """References in children and deleted lists that somebody read."""
        tree, diffs = self._namespace.tree, self._namespace.history.diffs
        for directory in list(tree.entries):
            yield from tree.references_in(directory)
        yield from diffs.references()

    def _knows(self, holder: int) -> bool:
        """Whether `_held` tells of this holder: minus an inode id for its diffs, else a directory's children."""
        tree = self._namespace.tree
        if tree.is_gone(abs(holder)):
            return True
        row = self._namespace.table.row_of.get(abs(holder))
        if row is None:
            return False
        return row in tree.entries if holder > 0 else self._namespace.history.diffs.is_loaded(row)

    def _moved_holders(self) -> list[int]:
        """Who has the references that got other numbers, as `BaseHistory.holders` tells it."""
        moved = list(self._numbering.moved)
        if not moved:
            return []
        holders = np.unique(self._index.history.holders()[moved]).tolist()
        return [holder for holder in holders if not self._namespace.tree.is_gone(abs(holder))]

    def _diffs(self) -> Iterator[Chunk]:
        diffs = self._namespace.history.diffs
        places = np.array(sorted(diffs.gone_spans(self._patched_diffs)), np.int64).reshape(-1, 2)
        section = self._index.section("SNAPSHOT_DIFF")
        if section is not None:
            yield from spliced(section, 0, Cuts(places, section[:0], np.zeros_like(places)))
        yield from diffs.encode_patched(self._patched_diffs, self._numbering)
        yield from diffs.encode_changed(self._numbering, self._namespace.history.created_names)

    def _directories(self) -> Iterator[Chunk]:
        index, table, tree = self._index, self._namespace.table, self._namespace.tree
        rows = list(tree.changes)
        data, starts = index.merge_directories(self._changes(rows))
        spans = np.stack([starts[:-1], starts[1:]], axis=1)
        data, spans = self._with_references(rows, data, spans)
        places = index.directory_spans(np.append(table.id[rows], np.array(self._patched_directories, np.int64)))
        data, spans = self._with_patched(places[len(rows) :], data, spans)
        in_image = places[:, 0] >= 0
        gone = index.directory_spans(index.dropped_directories(self._namespace.tree.dropped))
        all_places = np.concatenate([places[in_image], gone])
        all_spans = np.concatenate([spans[in_image], np.zeros_like(gone)])
        order = np.argsort(all_places[:, 0], kind="stable")
        yield from spliced(index.directory_buffer, 0, Cuts(all_places[order], data, all_spans[order]))
        yield from _appended(data, spans[~in_image])

    def _with_references(self, rows: list[int], data: Bytes, spans: Ids) -> tuple[Bytes, Ids]:
        """Changed directory entries, made anew where the directory has children by reference."""
        tree = self._namespace.tree
        if not tree.references.any:
            return data, spans
        more: list[bytes] = []
        size = data.size
        for position, row in enumerate(rows):
            numbers = [self._numbering.of(reference) for reference in tree.references_in(row)]
            if numbers:
                start, end = spans[position].tolist()
                entry = pb.DirEntry(parent=int(self._namespace.table.id[row]))
                if end > start:
                    entry = MessageReader(data[start:end], self._index.place("INODE_DIR")).read(pb.DirEntry)
                entry.refChildren.extend(numbers)
                more.append(encode_delimited(entry))
                spans[position] = size, size + len(more[-1])
                size += len(more[-1])
        return np.concatenate([data, np.frombuffer(b"".join(more), np.uint8)]), spans

    def _with_patched(self, places: Ids, data: Bytes, spans: Ids) -> tuple[Bytes, Ids]:
        """What `_patched_directories` add: entries that differ only in the numbers of references."""
        if not places.size:
            return data, spans
        moved, more = self._numbering.moved, [data.tobytes()]
        for start, _ in places.tolist():
            entry = MessageReader(self._index.directory_buffer, self._index.place("INODE_DIR"), start).read(pb.DirEntry)
            entry.refChildren[:] = [moved.get(number, number) for number in entry.refChildren]
            more.append(encode_delimited(entry))
        ends = np.cumsum([len(piece) for piece in more])
        added = np.stack([ends[:-1], ends[1:]], axis=1)
        return np.frombuffer(b"".join(more), np.uint8), np.concatenate([spans, added])

    def _changes(self, rows: list[int]) -> DirectoryChanges:
        """The names that changed in each directory, and who has them now."""
        table, tree, changes = self._namespace.table, self._namespace.tree, self._namespace.tree.changes
        names: list[bytes] = []
        holders: list[int] = []
        bounds = [0]
        for row in rows:
            names.extend(changes[row])
            holders.extend(changes[row].values())
            bounds.append(len(names))
        sizes = np.fromiter(map(len, names), np.int64, len(names))
        spans = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)
        held = np.array(holders, np.int64)
        self._check_held(held[held != NO_ROW])
        if tree.references.any:
            held[[row != NO_ROW and tree.references.is_dst(row) for row in holders]] = NO_ROW
        ids = np.where(held == NO_ROW, 0, table.id[held])
        packed = np.frombuffer(b"".join(names), np.uint8)
        return DirectoryChanges(table.id[rows], packed, spans, ids, np.array(bounds, np.int64))

    def _check_held(self, rows: Ids) -> None:
        """Raises NamespaceError where a directory has a child that is gone: no image may say so."""
        lost = rows[(self._namespace.table.flags[rows] & DROPPED) != 0]
        if lost.size:
            row = int(lost[0])
            raise NamespaceError(
                f"inode {int(self._namespace.table.id[row])} is gone, but {self._namespace.tree.path(row)} leads to it"
            )


def _ranges(slots: npt.NDArray[np.int64]) -> tuple[Ids, Ids]:
    """Runs of consecutive values in ascending `slots`: (first of each, one behind the last of each)."""
    if not slots.size:
        return slots, slots
    breaks = np.flatnonzero(np.diff(slots) != 1)
    starts = slots[np.concatenate([[0], breaks + 1])]
    stops = slots[np.concatenate([breaks, [slots.size - 1]])] + 1
    return starts, stops


def write_image(
    namespace: Namespace,
    image: ImageFile,
    index: ImageIndex,
    writer: ImageWriter,
    *,
    sub_sections: SubSectionRule | None = None,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """Write the namespace as an image in the section order of `image`, unknown sections included.

    A section that changed and that `image` does not have comes last; loaders do not go by the order.
    Sub-sections are cut anew, for those of `image` describe the old records.

    Args:
        sub_sections: where it does not apply there are about as many as in `image`, none if that has none.
        progress: told the number of decompressed bytes written so far.
        cancelled: asked between pieces of a section whether to stop.

    Raises:
        CheckpointCancelledError: `cancelled` said so; the stream is incomplete.
    """
    compaction = Compaction(namespace, index)
    inodes = namespace.tree.inode_count
    target = wanted_sub_sections(image.sections, inodes, writer.layout_version, writer.codec, sub_sections)
    written = 0

    def write(name: str) -> None:
        nonlocal written
        cutter = SectionCutter(name, target, inodes) if target and name in CUTTABLE else None
        with writer.section(name) as out:
            for chunk in compaction.section(name):
                out.write(chunk)
                if cutter is not None:
                    cutter.feed(chunk)
                written += len(chunk)
                if progress is not None and len(chunk) >= _COPY_CHUNK:
                    progress(written)
                if cancelled is not None and len(chunk) >= _COPY_CHUNK and cancelled():
                    raise CheckpointCancelledError("cancelled while the image was written")
            if cutter is not None:
                out.list_slices(cutter.finish())

    def stays(section: Section) -> bool:
        cut = (target and section.name in CUTTABLE) or sub_sections_of(image.sections, section)
        return writer.codec == image.codec and not cut and not compaction.changes(section.name)

    sections = [section for section in image.sections if not is_sub_section(section.name)]
    for section in sections:
        if stays(section):
            writer.copy_section(section.name, image.stored_bytes(section))
            written += section.length
        else:
            write(section.name)
    present = {section.name for section in sections}
    for name in compaction.names():
        if name not in present:
            write(name)
    writer.finish()
