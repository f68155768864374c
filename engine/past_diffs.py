"""Snapshot diffs for readers, decoded without loading inodes, so that replay and the next image are unaffected.

Diffs that edits touched are read from the namespace, and all other diffs from the image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from engine.namespace import Namespace
from engine.namespace.diff_codec import Diffs
from engine.namespace.diffs import DirectoryDiff, FileDiff, FileDiffs, Node, row_of
from engine.namespace.references import WithName
from image_format.index import Ids, ImageIndex
from image_format.kernels.scan import find_id
from image_format.messages import MessageReader
from image_tools.image_diffs import DirectoryChange, FileChange, ImageDiffs, PastEntry

_MAX_ENTRIES = 50_000
"""Maximum number of entries of created and deleted lists that a reader decodes between two pauses (about 0.2 s)."""


class PastDiffs(ImageDiffs):
    """Diffs of a namespace for the thread that holds its gate; they are valid until the next pause.

    Args:
        refuse: refuses an action that takes a long time.
    """

    def __init__(self, index: ImageIndex, namespace: Namespace, refuse: Callable[[str], None]) -> None:
        super().__init__(index, lambda snapshot: namespace.snapshots.get(snapshot).directory)
        self._namespace, self._refuse = namespace, refuse
        self._store = namespace.recorder.diffs
        self._left = _MAX_ENTRIES

    @property
    def owners(self) -> Ids:
        """Ascending ids of the inodes with diffs in the image."""
        return self._store.owners

    def exist(self, inode_id: int) -> bool:
        """Return whether an inode may have diffs."""
        row = self._namespace.table.row_of.get(inode_id)
        if row is not None and self._store.is_loaded(row):
            return self._store.has_known(row)
        return bool(find_id(self._store.owners, inode_id) >= 0)

    # ---- diffs of the namespace ----------------------------------------------------------------------------

    def _loaded(self, inode_id: int) -> tuple[Diffs | None, bool]:
        """Return the diffs that replay has read or created, and whether the image contains no other diffs."""
        row = self._namespace.table.row_of.get(inode_id)
        if row is None or not self._store.is_loaded(row):
            return None, find_id(self._store.owners, inode_id) < 0
        return self._store.get(row), True

    def _directory_changes(self, inode_id: int) -> Iterator[DirectoryChange]:
        diffs, complete = self._loaded(inode_id)
        if not complete:
            yield from super()._directory_changes(inode_id)
        elif diffs is not None and not isinstance(diffs, FileDiffs):
            yield from map(self._known_directory, reversed(diffs.known))
            if diffs.older is not None:
                records = np.frombuffer(diffs.older.records, np.uint8)
                yield from self._read_directory(MessageReader(records, self._place), diffs.older.count)

    def _file_changes(self, inode_id: int) -> Iterator[FileChange]:
        diffs, complete = self._loaded(inode_id)
        if not complete:
            yield from super()._file_changes(inode_id)
        elif isinstance(diffs, FileDiffs):
            yield from map(self._known_file, reversed(diffs.known))

    def _known_directory(self, diff: DirectoryDiff) -> DirectoryChange:
        self._count(len(diff.created) + len(diff.deleted))
        deleted = {name: self._entry(node) for name, node in diff.deleted.items()}
        return DirectoryChange(diff.snapshot_id, self._store.encoder.directory_copy(diff), diff.created, deleted)

    def _known_file(self, diff: FileDiff) -> FileChange:
        blocks = {block.block_id: block.num_bytes for block in diff.blocks or ()}
        return FileChange(diff.snapshot_id, diff.file_size, self._store.encoder.file_copy(diff), blocks)

    def _entry(self, node: Node) -> PastEntry:
        inode_id = int(self._namespace.table.id[row_of(node)])
        return PastEntry(inode_id, node.last_snapshot if isinstance(node, WithName) else None)

    def _name(self, inode_id: int) -> bytes | None:
        row = self._namespace.table.row_of.get(inode_id)
        return super()._name(inode_id) if row is None else self._namespace.table.name(row)

    def _count(self, entries: int) -> None:
        self._left -= 1 + entries
        if self._left < 0:
            self._refuse(f"reading more than {_MAX_ENTRIES:,} changes since a snapshot in one request")
