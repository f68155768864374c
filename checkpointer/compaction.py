"""Compaction: the base image's bytes copied run by run, with changed, new and dropped records in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from checkpointer.errors import CheckpointCancelledError, NamespaceError
from checkpointer.namespace import Namespace
from checkpointer.namespace.references import Hub, WithName
from checkpointer.section_delta import (
    COPY_CHUNK,
    Chunk,
    Cuts,
    DirectoryDelta,
    InodeDelta,
    appended,
    merged_directories,
    merged_inodes,
    runs,
    spliced,
)
from image_format.index import DirectoryChanges, Ids, ImageIndex
from image_format.inode_table import NO_ROW, EncodedRecords
from image_format.kernels.inode import DROPPED
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.section_cutter import SectionCutter
from image_format.sub_sections import CUTTABLE, SubSectionRule, sub_sections_of, wanted_sub_sections
from image_format.summary import Section, is_sub_section
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter

__all__ = ["IndexMerger", "SectionMerger", "write_image"]


def _runs(view: memoryview, start: int, end: int) -> Iterator[memoryview]:
    while start < end:
        stop = min(end, start + COPY_CHUNK)
        yield view[start:stop]
        start = stop


class SectionMerger(Protocol):
    """Applies deltas to the two large sections of the base image."""

    def inodes(self, delta: InodeDelta) -> Iterator[Chunk]:
        """The records of INODE, less the dropped ones and with those that changed, by slot."""

    def directories(self, delta: DirectoryDelta) -> Iterator[Chunk]:
        """The entries of INODE_DIR as they are now: those of the base in its order, then new ones."""


class IndexMerger:
    """`SectionMerger` over an index of the whole image."""

    def __init__(self, index: ImageIndex) -> None:
        self._index = index

    def inodes(self, delta: InodeDelta) -> Iterator[Chunk]:
        return merged_inodes(self._index, delta, 0, self._index.slot_count)

    def directories(self, delta: DirectoryDelta) -> Iterator[Chunk]:
        return merged_directories(self._index, delta)


class Compaction:
    """Sections of the new image, made from the base image and the namespace's delta."""

    def __init__(self, namespace: Namespace, merger: SectionMerger) -> None:
        self._namespace = namespace
        self._merger = merger
        self._base = namespace.base
        self._producers: dict[str, Callable[[], Iterator[Chunk]]] = {
            "NS_INFO": lambda: iter([encode_delimited(namespace.info)]),
            "INODE": self._inodes,
            "INODE_DIR": self._directories,
        }
        tree, references, diffs = namespace.tree, namespace.tree.references, namespace.history.diffs
        self._dropped = runs(np.flatnonzero(tree.dropped))
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
        section = self._base.section(name)
        return iter(()) if section is None else _runs(section.data, 0, section.size)

    # ---- INODE ---------------------------------------------------------------------------------------------

    def _inodes(self) -> Iterator[Chunk]:
        namespace = self._namespace
        slots, records = self._changed_inodes()
        header = pb.INodeSection()
        header.CopyFrom(namespace.base.header)
        header.lastInodeId = namespace.last_inode_id
        header.numInodes = namespace.tree.inode_count
        yield encode_delimited(header)
        old = np.flatnonzero((slots >= 0) & ~namespace.tree.dropped[slots])
        yield from self._merger.inodes(InodeDelta(slots[old], records.data, records.spans[old], self._dropped))
        yield from appended(records.data, records.spans[slots < 0])

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
        holders = np.unique(self._base.history.holders()[moved]).tolist()
        return [holder for holder in holders if not self._namespace.tree.is_gone(abs(holder))]

    def _diffs(self) -> Iterator[Chunk]:
        diffs = self._namespace.history.diffs
        places = np.array(sorted(diffs.gone_spans(self._patched_diffs)), np.int64).reshape(-1, 2)
        section = self._base.section("SNAPSHOT_DIFF")
        if section is not None:
            yield from spliced(section, 0, Cuts(places, section[:0], np.zeros_like(places)))
        yield from diffs.encode_patched(self._patched_diffs, self._numbering)
        yield from diffs.encode_changed(self._numbering, self._namespace.history.created_names)

    def _directories(self) -> Iterator[Chunk]:
        rows = list(self._namespace.tree.changes)
        return self._merger.directories(
            DirectoryDelta(
                changes=self._changes(rows),
                references=self._references(rows),
                patched=np.array(self._patched_directories, np.int64),
                moved=self._numbering.moved,
                dropped=self._dropped,
            )
        )

    def _references(self, rows: list[int]) -> dict[int, list[int]]:
        """By directory id, the numbers of the references in changed directories."""
        table, tree = self._namespace.table, self._namespace.tree
        if not tree.references.any:
            return {}
        numbers = {int(table.id[row]): [self._numbering.of(each) for each in tree.references_in(row)] for row in rows}
        return {directory_id: found for directory_id, found in numbers.items() if found}

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


def write_image(
    namespace: Namespace,
    image: ImageFile,
    merger: SectionMerger,
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
        merger: applies what changed in INODE and INODE_DIR.
        sub_sections: where it does not apply there are about as many as in `image`, none if that has none.
        progress: told the number of decompressed bytes written so far.
        cancelled: asked between pieces of a section whether to stop.

    Raises:
        CheckpointCancelledError: `cancelled` said so; the stream is incomplete.
    """
    compaction = Compaction(namespace, merger)
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
                if progress is not None and len(chunk) >= COPY_CHUNK:
                    progress(written)
                if cancelled is not None and len(chunk) >= COPY_CHUNK and cancelled():
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
