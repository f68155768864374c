"""The snapshot diffs of all inodes: decoded where an edit touches them, copied as bytes otherwise.

Often only a directory's newest diff is decoded, because most edits change only that diff, and a directory may have very
many diffs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

from engine.namespace.diff_codec import DiffDecoder, DiffEncoder, Diffs, newest_with_names
from engine.namespace.diffs import LARGEST_ID, NO_SNAPSHOT, DirectoryDiff, DirectoryDiffs, FileDiffs
from engine.namespace.references import Hub, InodeReferences, Numbering, WithName
from engine.namespace.snapshots import SnapshotManager
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.index import Ids, ImageIndex
from image_format.inode_table import NO_ROW, InodeTable
from image_format.kernels.inode import COPIED, FILE
from image_format.key_tables import BytesTable
from image_format.messages import MessageReader
from image_format.proto import fsimage_pb2 as pb

_SECTION = "SNAPSHOT_DIFF"


class DiffStore:
    """The SNAPSHOT_DIFF section by inode.

    Args:
        child: returns the row of a directory's child by name, or None if the name was not looked up.

    Attributes:
        directories_changed: number of times that a directory gained or lost its newest diff, or that its diffs were
            read.
        early: names in the diffs that were read from the image, grouped by the directory's row; the value is the id of
            the newest diff that contains the name, plus one.
        encoder: encodes diffs, and returns their attributes and references.
    """

    def __init__(
        self,
        base: ImageIndex,
        table: InodeTable,
        load: Callable[[Iterable[int]], Ids],
        place: Callable[[int, int], None],
        references: InodeReferences,
        snapshots: SnapshotManager,
        child: Callable[[int, bytes], int | None],
    ) -> None:
        self._base, self._table = base, table
        self._references = references
        self._child = child
        self._decoder = DiffDecoder(base, table, load, place, references, snapshots, self._note_older)
        self.encoder = DiffEncoder(base, table, references)
        self._loaded: dict[int, Diffs | None] = {}
        self._dirty: set[int] = set()
        self._removed: set[int] = set()
        self._unread: list[int] | None = None
        self._rows_at: defaultdict[int, set[int]] = defaultdict(set)
        self._links_recorded = False
        self.early = BytesTable(table.allocator)
        self.directories_changed = 0

    @property
    def has_links(self) -> bool:
        """Whether a deleted list contains or contained a symlink."""
        return self._links_recorded or self._decoder.found_links

    def note_link(self) -> None:
        """Note that a symlink is added to a deleted list."""
        self._links_recorded = True

    @cached_property
    def owners(self) -> Ids:
        """Ascending ids of the base inodes with diffs, excluding a root with an empty entry."""
        snapshot_index = self._base.snapshot_index
        found = snapshot_index.owners
        if ROOT_INODE_ID in found:
            start, _ = snapshot_index.diff_span(ROOT_INODE_ID)
            entry = MessageReader(self._base.section(_SECTION), self._base.place(_SECTION), start).read(pb.DiffEntry)
            if not entry.numOfDiff:
                found = found[found != ROOT_INODE_ID]
        return found

    @property
    def any(self) -> bool:
        """Whether any inode may have diffs."""
        return self._base.snapshot_index.owners.size > 0 or bool(self._loaded)

    @property
    def changed(self) -> bool:
        return bool(self._dirty or self._removed)

    def get(self, row: int) -> Diffs | None:
        """Return the diffs of an inode, which may be empty; None for an inode that never had diffs."""
        diffs = self._loaded.get(row)
        return self._load(row, whole=False) if diffs is None and row not in self._loaded else diffs

    def has_known(self, row: int) -> bool:
        """Return whether an inode has diffs that were read or created, without reading further diffs."""
        diffs = self._loaded.get(row)
        return diffs is not None and diffs.any

    def read(self, row: int) -> None:
        diffs = self._loaded[row] if row in self._loaded else self._load(row, whole=True)
        if diffs is not None:
            _ = diffs.items

    def _load(self, row: int, *, whole: bool) -> Diffs | None:
        """Read the diffs of an inode: all of them if `whole`, otherwise at least the newest."""
        if not self._base.snapshot_index.owners.size:
            # Do not store None in `_loaded`, because `any` depends on it.
            return None
        diffs = None
        if self._table.slot[row] >= 0:
            span = self._base.snapshot_index.diff_span(int(self._table.id[row]))
            if span[0] >= 0:
                diffs = self._decoder.decode(row, span, whole=whole)
        if diffs is not None or self._table.kind[row] != FILE:
            self._loaded[row] = diffs
        if isinstance(diffs, DirectoryDiffs):
            self._note_names(row, newest_with_names(diffs.known))
        if diffs is not None:
            for diff in diffs.known:
                self.note(row, diff.snapshot_id)
            if not diffs.any:
                self.note(row, NO_SNAPSHOT)
        return diffs

    def _note_names(self, row: int, newest: dict[bytes, int]) -> None:
        """Add the names in a directory's image diffs to `early`."""
        first = self.early.count
        self.early.add_all(list(newest), [row] * len(newest))
        self.early.items["row"][first : self.early.count] = list(newest.values())

    def note(self, row: int, snapshot_id: int) -> None:
        """Record that an inode received a diff of a snapshot or, for `NO_SNAPSHOT`, lost its last diff."""
        self._rows_at[snapshot_id].add(row)
        diffs = self._loaded.get(row)
        self._count(row)
        if diffs is not None and self._references.hub(row) is None:
            last = diffs.last
            known = NO_SNAPSHOT if last is None else last.snapshot_id
            self._table.newest[row] = 0 if known > LARGEST_ID else known + 1 or -1
            before = self._table.marks.item(row)
            marks = before | COPIED if last is not None and last.copy is not None else before & (0xFF ^ COPIED)
            if marks != before:
                self._table.marks[row] = marks

    def replace_only(self, row: int, diffs: FileDiffs, snapshot_id: int) -> None:
        """Assign the only diff of a file to another snapshot; for `NO_SNAPSHOT`, remove the diff."""
        self._dirty.add(row)
        if snapshot_id == NO_SNAPSHOT:
            diffs.known.clear()
            self.note(row, snapshot_id)
            return
        diffs.known[0].snapshot_id = snapshot_id
        self._rows_at[snapshot_id].add(row)
        if self._references.hub(row) is None:
            self._table.newest[row] = 0 if snapshot_id > LARGEST_ID else snapshot_id + 1

    def _count(self, row: int) -> None:
        self.directories_changed += self._table.kind.item(row) != FILE

    def rows_at(self, snapshot_id: int) -> list[int]:
        """Return the rows of inodes with a diff of a snapshot or, for `NO_SNAPSHOT`, of inodes that lost all diffs.

        The result omits inodes whose diffs were not read; see `unread_at`. Each snapshot is queried once, when it is
        deleted.
        """
        loaded, noted = self._loaded, self._rows_at.pop(snapshot_id, ())
        if snapshot_id != NO_SNAPSHOT:
            return [row for row in noted if (diffs := loaded.get(row)) is not None and diffs.has(snapshot_id)]
        found = [row for row in noted if (diffs := loaded.get(row)) is not None and not diffs.items]
        self._rows_at[NO_SNAPSHOT] = set(found)
        return found

    def unread_at(self, snapshot_id: int) -> list[int]:
        """Return the ids of base inodes to which the rules of `rows_at` apply, but whose diffs were not read."""
        owners = self._unread if snapshot_id == NO_SNAPSHOT else None
        if owners is None:
            owners = self._base.snapshot_index.owners_at(snapshot_id).tolist()
        row_of = self._table.row_of
        found = [inode_id for inode_id in owners if not self._is_read(row_of.get(inode_id))]
        if snapshot_id == NO_SNAPSHOT:
            # Diffs never become unread again.
            self._unread = found
        return found

    def _is_read(self, row: int | None) -> bool:
        """Return whether all diffs of an inode were read."""
        diffs = self._loaded.get(row) if row is not None else None
        return row in self._loaded and (diffs is None or diffs.older is None)

    def of_directory(self, row: int) -> DirectoryDiffs | None:
        diffs = self.get(row)
        assert diffs is None or isinstance(diffs, DirectoryDiffs)
        return diffs

    def of_file(self, row: int) -> FileDiffs | None:
        diffs = self.get(row)
        assert diffs is None or isinstance(diffs, FileDiffs)
        return diffs

    def directory(self, row: int) -> DirectoryDiffs:
        """Return the diffs of a directory for the caller to change."""
        diffs = self.of_directory(row)
        if diffs is None:
            diffs = self._loaded[row] = DirectoryDiffs()
            self._count(row)
        self._table.mark_special(row)
        self._dirty.add(row)
        return diffs

    def file(self, row: int) -> FileDiffs:
        """Return the diffs of a file for the caller to change."""
        diffs = self.of_file(row)
        if diffs is None:
            diffs = self._loaded[row] = FileDiffs()
        self._table.mark_special(row)
        self._dirty.add(row)
        return diffs

    def to_keep(self, row: int) -> Diffs:
        """Return the diffs of an inode; the caller adds a change that the row already reflects."""
        diffs = self._loaded.get(row)
        if diffs is None:
            diffs = self.get(row)
        if diffs is None:
            diffs = self._loaded[row] = FileDiffs() if self._table.kind.item(row) == FILE else DirectoryDiffs()
        self._dirty.add(row)
        return diffs

    def note_kept(self, row: int, snapshot_id: int) -> None:
        """Note a diff that the row of the inode already reflects; the row may also reflect later diffs."""
        self._rows_at[snapshot_id].add(row)

    def newest(self, row: int) -> DirectoryDiff:
        """Return the newest diff of a directory for the caller to change."""
        self._dirty.add(row)
        return self.known(row)[-1]

    def is_loaded(self, row: int) -> bool:
        return row in self._loaded

    def references(self) -> Iterator[WithName | Hub]:
        """Yield the references in the deleted lists that were read, by directory id."""
        found = {row: each for row, each in self._loaded.items() if isinstance(each, DirectoryDiffs)}
        for row in sorted(found, key=lambda row: int(self._table.id[row])):
            # Unread older diffs contain no references.
            for diff in found[row].known:
                yield from filter(None, map(self.encoder.reference, diff.deleted.values()))

    def directories_read(self) -> list[int]:
        """Return the rows of the directories whose diffs were read or created, in the order of these events."""
        return [row for row, diffs in self._loaded.items() if isinstance(diffs, DirectoryDiffs)]

    def known(self, row: int) -> list[DirectoryDiff]:
        """Return the known diffs of one of the directories in `directories_read`."""
        diffs = self._loaded[row]
        assert isinstance(diffs, DirectoryDiffs)
        return diffs.known

    def touch(self, row: int) -> None:
        """Mark the diffs of an inode, if any, as changed."""
        if self._loaded.get(row) is not None:
            self._dirty.add(row)

    def remove(self, row: int) -> None:
        if self.get(row) is not None:
            self._loaded[row] = None
            self._count(row)
            self._table.newest[row] = -1 if self._references.hub(row) is None else 0
            self._table.marks[row] &= 0xFF ^ COPIED
            self._dirty.discard(row)
            if self._table.slot[row] >= 0:
                self._removed.add(int(self._table.id[row]))

    def _note_older(self, row: int, diffs: list[DirectoryDiff], noted: Collection[bytes]) -> None:
        """Note a directory's older diffs and the names in them; `noted` contains the names in its newest diff."""
        found = {name: last for name, last in newest_with_names(diffs).items() if name not in noted}
        self._note_names(row, found)
        for name in found:
            child = self._child(row, name)
            if child is not None and child != NO_ROW and self._table.born.item(child) < 0:
                # `born` was correct only for the diffs that were known before.
                self._table.born[child] = 0
        for diff in diffs:
            self.note_kept(row, diff.snapshot_id)

    def _changed_ids(self) -> set[int]:
        return self._removed | {int(self._table.id[row]) for row in self._dirty}

    def unchanged(self, owners: Iterable[int]) -> list[int]:
        """Return `owners` and the inodes whose diffs Hadoop would load with other quotas, excluding changed inodes."""
        return sorted({*owners, *self._base.snapshot_index.quota_copy_owners().tolist()} - self._changed_ids())

    def gone_spans(self, patched: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield (start, end) in SNAPSHOT_DIFF of the entries that are not copied, including the `patched` entries."""
        for inode_id in self._changed_ids().union(patched):
            span = self._base.snapshot_index.diff_span(inode_id)
            if span[0] >= 0:
                yield span

    def encode_changed(self, numbering: Numbering) -> Iterator[bytes]:
        """Encode the changed entries, each with its diffs."""
        for row in sorted(self._dirty, key=lambda row: int(self._table.id[row])):
            diffs = self._loaded[row]
            assert diffs is not None
            yield from self.encoder.encode(row, diffs, numbering)
