"""Compaction: the base image's bytes copied run by run, with changed, new and dropped records in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from checkpointer.errors import CheckpointCancelledError
from checkpointer.namespace import Namespace
from image_format.index import Bytes, DirectoryChanges, Ids, ImageIndex
from image_format.inode_table import NO_ROW, EncodedRecords
from image_format.kernels.merge import splice
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
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
        for name, changed, encode in (
            ("FILES_UNDERCONSTRUCTION", namespace.leases.changed, namespace.leases.encode),
            ("SNAPSHOT", namespace.snapshots.changed, namespace.snapshots.encode),
            ("SNAPSHOT_DIFF", namespace.snapshots.diffs_changed, namespace.snapshots.encode_diffs),
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
        namespace, index, table = self._namespace, self._index, self._namespace.table
        namespace.tree.load_type_quotas()
        rows = table.dirty_rows()
        records = table.encode(rows)
        slots = table.slot[rows]
        header = pb.INodeSection()
        header.CopyFrom(index.header)
        header.lastInodeId = namespace.last_inode_id
        header.numInodes = namespace.tree.inode_count
        yield encode_delimited(header)
        old = np.flatnonzero((slots >= 0) & ~namespace.tree.dropped[slots])
        yield from spliced(index.inode_buffer, index.records_start, self._inode_cuts(slots[old], records, old))
        yield from _appended(records.data, records.spans[slots < 0])

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

    def _directories(self) -> Iterator[Chunk]:
        index, table = self._index, self._namespace.table
        rows = list(self._namespace.tree.changes)
        data, starts = index.merge_directories(self._changes(rows))
        spans = np.stack([starts[:-1], starts[1:]], axis=1)
        places = index.directory_spans(table.id[rows])
        in_image = places[:, 0] >= 0
        gone = index.directory_spans(index.dropped_directories(self._namespace.tree.dropped))
        all_places = np.concatenate([places[in_image], gone])
        all_spans = np.concatenate([spans[in_image], np.zeros_like(gone)])
        order = np.argsort(all_places[:, 0], kind="stable")
        yield from spliced(index.directory_buffer, 0, Cuts(all_places[order], data, all_spans[order]))
        yield from _appended(data, spans[~in_image])

    def _changes(self, rows: list[int]) -> DirectoryChanges:
        """The names that changed in each directory, and who has them now."""
        table, changes = self._namespace.table, self._namespace.tree.changes
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
        ids = np.where(held == NO_ROW, 0, table.id[held])
        packed = np.frombuffer(b"".join(names), np.uint8)
        return DirectoryChanges(table.id[rows], packed, spans, ids, np.array(bounds, np.int64))


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
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """Write the namespace as an image in the section order of `image`, unknown sections included.

    A section that changed and that `image` does not have comes last; loaders do not go by the order.
    Sub-section entries are left out: they would describe the old records.

    Args:
        progress: told the number of decompressed bytes written so far.
        cancelled: asked between pieces of a section whether to stop.

    Raises:
        CheckpointCancelledError: `cancelled` said so; the stream is incomplete.
    """
    compaction = Compaction(namespace, index)
    written = 0

    def write(name: str) -> None:
        nonlocal written
        with writer.section(name) as out:
            for chunk in compaction.section(name):
                out.write(chunk)
                written += len(chunk)
                if progress is not None and len(chunk) >= _COPY_CHUNK:
                    progress(written)
                if cancelled is not None and len(chunk) >= _COPY_CHUNK and cancelled():
                    raise CheckpointCancelledError("cancelled while the image was written")

    sections = [section for section in image.sections if not section.name.endswith("_SUB")]
    for section in sections:
        if writer.codec == image.codec and not compaction.changes(section.name):
            writer.copy_section(section.name, image.stored_bytes(section))
            written += section.length
        else:
            write(section.name)
    present = {section.name for section in sections}
    for name in compaction.names():
        if name not in present:
            write(name)
    writer.finish()
