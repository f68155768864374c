"""Compaction: writes the new image from the bytes of the base image and from the changed, new and dropped records.

A save passes through these states, in this order:

- healed: inconsistent snapshots are healed (`Namespace.heal_snapshots`). If numbering the references reveals more
  inconsistencies, healing runs again with all checks.
- numbered: the `Compaction` object exists. From here on, the changed sections and all reference numbers are fixed.
- written section by section, in the order of the base image. An unchanged section is copied as stored, or recompressed;
  a changed section has a producer. While INODE is written, a thread encodes the new inodes and reads the directories of
  INODE_DIR.
- finished, or aborted by an exception, for example because `cancelled` returned True between two pieces. An aborted
  stream has no summary, so loaders reject it.

These faults cannot occur:

- A record is lost or written twice: sections are cut at the changed slots, and all cuts come from one delta. Everything
  between the cuts is copied byte for byte.
- A reference points to a different record than before: numbers are assigned once, before the first section. Every
  holder of a renumbered reference is rewritten, even if it is otherwise unchanged.
- The thread and the writer change the same state: while the thread reads directories, the writer only writes encoded
  inodes; `section` waits for the thread before it produces another section.
- An image refers to a removed inode: `_check_held` raises an error, except in mode `AS_HADOOP`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, islice, permutations
from typing import NamedTuple, Protocol

import numpy as np

from engine.errors import CheckpointCancelledError, InconsistentNamespaceError, NamespaceError
from engine.healing import HealingMode
from engine.namespace import Namespace
from engine.namespace.links import ChangedNames
from engine.namespace.references import Hub, WithName
from engine.section_delta import (
    COPY_CHUNK,
    Chunk,
    DirectoryCuts,
    DirectoryDelta,
    InodeDelta,
    SectionCuts,
    appended,
    directory_cuts,
    inode_cuts,
    merged_places,
    runs,
    spliced,
)
from hadoop_common.process_tuning import lower_thread_priority
from image_format.array_allocator import ArrayAllocator, pieces
from image_format.index import DirectoryChanges, Ids, ImageIndex
from image_format.index_arrays import IndexArrays
from image_format.index_update import SectionUpdate, updated_arrays
from image_format.inode_columns import read_inode_columns
from image_format.inode_table import NO_ROW, EncodedRecords, InodeTable
from image_format.kernels.inode import DROPPED, FILE, OPENED
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.section_cutter import SectionCutter
from image_format.storage_policies import policy_since
from image_format.sub_section_rules import CUTTABLE, SubSectionRule, sub_sections_of, wanted_sub_sections
from image_format.summary import Section, is_sub_section
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter

_JOINED = 1 << 10


def _runs(view: memoryview, start: int, end: int) -> Iterator[memoryview]:
    while start < end:
        stop = min(end, start + COPY_CHUNK)
        yield view[start:stop]
        start = stop


def _joined(records: Iterator[bytes]) -> Iterator[bytes]:
    """Join records into larger pieces, because writing each record separately takes as long as encoding it."""
    while piece := b"".join(islice(records, _JOINED)):
        yield piece


class SectionMerger(Protocol):
    """Merger of deltas into the two large sections of the base image.

    Attributes:
        concurrent: whether a thread may call `directories` while inodes are still produced.
    """

    concurrent: bool

    def inodes(self, delta: InodeDelta) -> Iterator[Chunk]:
        """Yield the records of the new INODE section in slot order, with changed and without dropped records."""

    def directories(self, delta: DirectoryDelta) -> Iterator[Chunk]:
        """Yield the present entries of INODE_DIR: the base image's entries in their order, then the new entries."""


class IndexMerger:
    """`SectionMerger` over an index of the whole image; it can derive the index of the new image after the write.

    Args:
        allocator: allocates the list of changes.
    """

    concurrent = True

    def __init__(self, index: ImageIndex, allocator: ArrayAllocator) -> None:
        self._index, self._allocator = index, allocator
        self._inodes: SectionCuts | None = None
        self._directories: DirectoryCuts | None = None

    def inodes(self, delta: InodeDelta) -> Iterator[Chunk]:
        self._inodes = inode_cuts(self._index, delta, self._allocator)
        index = self._index
        return spliced(index.inode_buffer, index.records_start, self._inodes, index.inode_reads)

    def directories(self, delta: DirectoryDelta) -> Iterator[Chunk]:
        found = self._directories = directory_cuts(self._index, delta)
        entries = spliced(self._index.directory_buffer, 0, found.cuts)
        return chain(entries, appended(found.cuts.data, found.added))

    def updated_arrays(self, written: WrittenInodes) -> IndexArrays | None:
        """Return the index of the new image, or None if only a scan can create it.

        Args:
            written: the result of `write_image`.
        """
        inodes, directories, index = self._inodes, self._directories, self._index
        if inodes is None or directories is None:
            return None
        start = written.records_start
        return updated_arrays(
            index.arrays,
            SectionUpdate(start, index.inode_buffer.size, *inodes, *written.added),
            SectionUpdate(0, index.directory_buffer.size, *directories.cuts, directories.cuts.data, directories.added),
            directories.added_ids,
        )


class WrittenInodes(NamedTuple):
    """Header size and added records of a new INODE section.

    Attributes:
        records_start: size of the header in bytes.
        added: the records appended to the records of the old section.
    """

    records_start: int
    added: EncodedRecords


class Compaction:
    """Sections of the new image, made from the base image and the namespace's delta.

    Args:
        background: executor for work that runs while INODE is written.

    Attributes:
        written: header size and added records of INODE, once INODE is produced.
    """

    def __init__(self, namespace: Namespace, merger: SectionMerger, background: Executor) -> None:
        self._namespace = namespace
        self._merger = merger
        self._background = background
        self._entries: Future[Iterator[Chunk]] | None = None
        self.written = WrittenInodes(0, EncodedRecords(np.zeros(0, np.uint8), np.zeros((0, 2), np.int64)))
        self._base = namespace.base
        self._producers: dict[str, Callable[[], Iterator[Chunk]]] = {
            "NS_INFO": lambda: iter([encode_delimited(namespace.info)]),
            "INODE": self._inodes,
            "INODE_DIR": lambda: self._directories() if self._entries is None else self._entries.result(),
        }
        tree, references, diffs = namespace.tree, namespace.tree.references, namespace.recorder.diffs
        self._dropped = runs(tree.dropped, namespace.table.allocator)
        self._numbering = references.number(self._held(), self._knows)
        holders = self._moved_holders()
        # Entries that cannot be copied although only their reference numbers change.
        rebuilt = set(namespace.table.id[self._changed.directories].tolist()) if holders else ()
        self._patched_directories = [i for i in holders if i > 0 and i not in rebuilt]
        self._patched_diffs = diffs.unchanged(-i for i in holders if i < 0)
        if references.changed:
            self._producers["INODE_REFERENCE"] = lambda: iter([self._numbering.data])
        if diffs.changed or self._patched_diffs:
            self._producers["SNAPSHOT_DIFF"] = self._diffs
        for name, changed, encode in (
            ("FILES_UNDERCONSTRUCTION", namespace.leases.differ, namespace.leases.encode),
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
        """Return the names of the sections that have changed or are always rebuilt."""
        return tuple(self._producers)

    def section(self, name: str) -> Iterator[Chunk]:
        """Yield the decompressed bytes of a section."""
        if self._entries is not None:
            # No other section may be produced while a thread reads directories.
            self._entries.result()
        producer = self._producers.get(name)
        if producer is not None:
            return producer()
        section = self._base.section(name)
        return iter(()) if section is None else _runs(section.data, 0, section.size)

    # ---- INODE ---------------------------------------------------------------------------------------------

    def _inodes(self) -> Iterator[Chunk]:
        namespace = self._namespace
        table = namespace.table
        dirty = table.dirty_rows()
        for rows in dirty:
            self._check_policies(rows)
        delta = self._inode_delta(dirty.old)
        header = pb.INodeSection()
        header.CopyFrom(namespace.base.header)
        header.lastInodeId = namespace.last_inode_id
        header.numInodes = namespace.tree.inode_count
        start = encode_delimited(header)
        yield start
        added = self._background.submit(table.encode, dirty.new)
        if self._merger.concurrent:
            self._entries = self._background.submit(self._directories)
        yield from self._merger.inodes(delta)
        self.written = WrittenInodes(len(start), added.result())
        yield from appended(*self.written.added)

    def _inode_delta(self, rows: Ids) -> InodeDelta:
        """Return the changes of base inodes: the inodes in `rows`, unread directories, and removed inodes."""
        table, unread = self._namespace.table, self._namespace.tree.unread_quota_directories()
        found = [self._changed_inodes(table, rows), self._changed_inodes(unread, unread.dirty_rows().old)]
        (slots, records), (more, added) = found
        if not more.size:
            return InodeDelta(slots, *records, self._dropped)
        size, zeros = slots.size + more.size, table.allocator.zeros
        merged = InodeDelta(
            zeros(size, np.int64),
            zeros(records.data.size + added.data.size, np.uint8),
            zeros((size, 2), np.int64),
            self._dropped,
        )
        used = 0
        for (own, (data, spans)), (others, _) in permutations(found):
            merged.data[used : used + data.size] = data
            for piece in pieces(own.size):
                at = merged_places(piece, np.searchsorted(others, own[piece]))
                merged.slots[at], merged.spans[at] = own[piece], spans[piece] + used
            used += data.size
        return merged

    def _changed_inodes(self, table: InodeTable, rows: Ids) -> tuple[Ids, EncodedRecords]:
        """Return the slots and records of the inodes in `rows` that still exist; `rows` is overwritten."""
        slots: Ids = table.allocator.zeros(rows.size, np.int64)
        used = 0
        for piece in pieces(rows.size):
            some = table.slot[rows[piece]]
            kept = ~self._namespace.tree.dropped[some]
            behind = used + int(np.count_nonzero(kept))
            slots[used:behind], rows[used:behind] = some[kept], rows[piece][kept]
            used = behind
        return slots[:used], table.encode(rows[:used])

    def _check_policies(self, rows: Ids) -> None:
        """Raise UnsupportedNamespaceError if edits gave a file a storage policy that the layout lacks.

        Kernels do not perform this check. A file that has the policy in the base image keeps the policy.
        """
        table, layout = self._namespace.table, self._base.layout_version
        for piece in pieces(rows.size):
            files = rows[piece][table.kind[rows[piece]] == FILE]
            for policy in np.unique(table.policy[files]).tolist():
                since = policy_since(policy, layout)
                if since is not None and self._is_given(files[table.policy[files] == policy], policy):
                    self._namespace.require(since, f"storage policy {policy}")

    def _is_given(self, files: Ids, policy: int) -> bool:
        """Return whether one of these files is new, or has a different storage policy in the base image."""
        base, slots = self._namespace.base, self._namespace.table.slot[files]
        if (slots < 0).any():
            return True
        before = read_inode_columns(base.inode_buffer, base.inode_offsets(slots), base.place("INODE"))
        return bool((before.storage_policy != policy).any())

    # ---- INODE_DIR -----------------------------------------------------------------------------------------

    def _held(self) -> Iterator[WithName | Hub]:
        """Yield the references in children and deleted lists that were read."""
        tree, table, diffs = self._namespace.tree, self._namespace.table, self._namespace.recorder.diffs
        rows = np.flatnonzero((table.marks & OPENED != 0) & (table.flags & DROPPED == 0))
        # The order of lookups must not change the image.
        for directory in rows[np.argsort(table.id[rows])].tolist():
            yield from tree.references_in(directory)
        yield from diffs.references()

    def _knows(self, holder: int) -> bool:
        """Return whether `_held` includes a holder: a directory id for children, or a negated inode id for diffs."""
        tree = self._namespace.tree
        if tree.is_gone(abs(holder)):
            return True
        row = self._namespace.table.row_of.get(abs(holder))
        if row is None:
            return False
        return tree.is_open(row) if holder > 0 else self._namespace.recorder.diffs.is_loaded(row)

    def _moved_holders(self) -> list[int]:
        """Return the holders of references with new numbers, as in `SnapshotIndex.holders`."""
        moved = list(self._numbering.moved)
        if not moved:
            return []
        holders = np.unique(self._base.snapshot_index.holders()[moved]).tolist()
        return [holder for holder in holders if not self._namespace.tree.is_gone(abs(holder))]

    def _diffs(self) -> Iterator[Chunk]:
        diffs = self._namespace.recorder.diffs
        places = np.array(sorted(diffs.gone_spans(self._patched_diffs)), np.int64).reshape(-1, 2)
        section = self._base.section("SNAPSHOT_DIFF")
        if section is not None:
            yield from spliced(section, 0, SectionCuts(places, section[:0], np.zeros_like(places)))
        yield from _joined(diffs.encoder.encode_patched(self._patched_diffs, self._numbering))
        yield from _joined(diffs.encode_changed(self._numbering))

    @cached_property
    def _changed(self) -> ChangedNames:
        return self._namespace.tree.links.changes()

    def _directories(self) -> Iterator[Chunk]:
        directories = self._changed.directories
        return self._merger.directories(
            DirectoryDelta(
                changes=self._changes(),
                references=self._references(directories.tolist()),
                patched=np.array(self._patched_directories, np.int64),
                moved=self._numbering.moved,
                dropped=self._dropped,
            )
        )

    def _references(self, rows: list[int]) -> dict[int, list[int]]:
        """Return, by directory id, the numbers of the references in changed directories."""
        table, tree = self._namespace.table, self._namespace.tree
        if not tree.references.any:
            return {}
        numbers = {int(table.id[row]): [self._numbering.of(each) for each in tree.references_in(row)] for row in rows}
        return {directory_id: found for directory_id, found in numbers.items() if found}

    def _changes(self) -> DirectoryChanges:
        """Return the changed names in each directory, with their present inodes."""
        table, tree, changed = self._namespace.table, self._namespace.tree, self._changed
        ids: Ids = table.allocator.zeros(changed.holders.size, np.int64)
        for piece in pieces(ids.size):
            held = changed.holders[piece]
            self._check_held(held[held != NO_ROW])
            if tree.references.any:
                by_reference = [row != NO_ROW and tree.references.is_dst(row) for row in held.tolist()]
                held = np.where(by_reference, NO_ROW, held)
            ids[piece] = np.where(held == NO_ROW, 0, table.id[held])
        return DirectoryChanges(table.id[changed.directories], table.names, changed.spans, ids, changed.bounds)

    def _check_held(self, rows: Ids) -> None:
        """Raise NamespaceError if a directory has a removed child, which only mode `AS_HADOOP` allows."""
        if self._namespace.healing_log.mode is HealingMode.AS_HADOOP:
            return
        lost = rows[(self._namespace.table.flags[rows] & DROPPED) != 0]
        if lost.size:
            row = int(lost[0])
            raise NamespaceError(
                f"inode {int(self._namespace.table.id[row])} was removed, but is still a child: "
                f"{self._namespace.tree.path(row)}"
            )


@contextmanager
def _background(size: int) -> Iterator[Executor]:
    """Provide one background thread for an image of this size; if the `with` block fails, cancel pending work."""
    with ThreadPoolExecutor(1, "image-directories", lower_thread_priority, (size,)) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def _compaction(namespace: Namespace, merger: SectionMerger, background: Executor) -> Compaction:
    try:
        return Compaction(namespace, merger, background)
    except InconsistentNamespaceError:
        if namespace.healing_log.mode is not HealingMode.HEAL:
            raise
    namespace.heal_snapshots(suspicious=True)
    return Compaction(namespace, merger, background)


def write_image(
    namespace: Namespace,
    image: ImageFile,
    merger: SectionMerger,
    writer: ImageWriter,
    *,
    sub_sections: SubSectionRule | None = None,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> WrittenInodes:
    """Write the namespace as an image in the section order of `image`, unknown sections included.

    Changed sections that `image` lacks are written last; loaders do not depend on the order. Sub-sections are
    computed again, because the sub-sections of `image` describe the old records.

    Args:
        merger: applies the changes to INODE and INODE_DIR.
        sub_sections: rule for sub-sections; if the rule does not apply, the new image has about as many sub-sections as
            `image`.
        progress: called with the number of decompressed bytes written so far.
        cancelled: called between pieces of a section; True stops the save.

    Raises:
        CheckpointCancelledError: `cancelled` returned True; the stream is incomplete.
        InconsistentNamespaceError: see `Namespace.heal_snapshots`.
    """
    namespace.heal_snapshots()
    with _background(image.size) as background:
        compaction = _compaction(namespace, merger, background)
        inodes = namespace.tree.inode_count
        target = wanted_sub_sections(image.sections, inodes, writer.layout_version, writer.codec, sub_sections)
        written = 0

        def write(name: str) -> None:
            nonlocal written
            cutter = SectionCutter(name, target, inodes) if target and name in CUTTABLE else None
            with writer.section(name, cutter) as out:
                for chunk in compaction.section(name):
                    out.write(chunk)
                    written += len(chunk)
                    if progress is not None and len(chunk) >= COPY_CHUNK:
                        progress(written)
                    if cancelled is not None and len(chunk) >= COPY_CHUNK and cancelled():
                        raise CheckpointCancelledError("cancelled while the image was written")

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
        return compaction.written
