"""Deletion of files with snapshots: the blocks and diffs that are no longer needed."""

from __future__ import annotations

import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable

from engine.namespace.diff_recorder import DiffRecorder
from engine.namespace.diffs import CURRENT_STATE, NO_SNAPSHOT, FileDiff, FileDiffs
from engine.namespace.tree import Tree
from image_format.kernels.inode import DROPPED, UNDER_CONSTRUCTION

# A path has at most a thousand components (MAX_PATH_DEPTH), and each component requires a few nested calls.
_RECURSION_LIMIT = 20_000


class FileReclaimer(ABC):
    """Effects of a deletion on files; see `Reclaimer`.

    Args:
        gone: called with the row of each removed inode.
        closed: called with the row of each open file that now exists only in snapshots.
        deleted_snapshot: the snapshot to delete; `CURRENT_STATE` for the deletion of a path.
    """

    def __init__(
        self,
        tree: Tree,
        recorder: DiffRecorder,
        *,
        gone: Callable[[int], None],
        closed: Callable[[int], None],
        deleted_snapshot: int = CURRENT_STATE,
    ) -> None:
        self._tree, self._recorder = tree, recorder
        self._table, self._references, self._diffs = tree.table, tree.references, recorder.diffs
        self._gone, self._closed = gone, closed
        self._deleted_snapshot = deleted_snapshot
        if sys.getrecursionlimit() < _RECURSION_LIMIT:
            sys.setrecursionlimit(_RECURSION_LIMIT)

    @abstractmethod
    def destroy_inode(self, row: int) -> None:
        """Destroy an inode and its descendants."""

    def clean_file(self, row: int, snapshot: int, prior: int) -> None:
        """Implement INodeFile.cleanSubtree."""
        diffs = self._diffs.of_file(row)
        if diffs is None:
            if snapshot == CURRENT_STATE and prior == NO_SNAPSHOT:
                self.destroy_inode(row)
            elif snapshot == CURRENT_STATE and self._table.is_under_construction(row):
                self._drop_empty_block(row)
                self._closed(row)
            return
        if snapshot == CURRENT_STATE:
            deletes_path = not self._tree.hadoop3 or self._deleted_snapshot == CURRENT_STATE
            if deletes_path and not self._recorder.lookup.is_current_deleted(row):
                self._recorder.record_in(row, prior)
                diffs.current_deleted = True
            self._keep_needed_blocks(row, diffs)
        else:
            own = prior if len(diffs.known) == 1 else diffs.update_prior(snapshot, prior)
            self.remove_file_diff(row, diffs, snapshot, own)
        flags = self._table.flags.item(row)
        if flags & DROPPED:
            return
        if flags & UNDER_CONSTRUCTION:
            self._closed(row)
        if self._tree.hadoop3 and not diffs.any:
            self._diffs.remove(row)

    def delete_kept(self, row: int) -> None:
        """Handle the removal of a file that has no lease, has a diff and is in the latest snapshot."""
        diffs = self._diffs.of_file(row)
        assert diffs is not None
        diffs.current_deleted = True
        self._keep_needed_blocks(row, diffs)

    def _drop_empty_block(self, row: int) -> None:
        blocks = self._table.file_blocks(row)
        if blocks and blocks[-1].num_bytes == 0:
            self._cut_blocks(row, len(blocks) - 1)

    def _cut_blocks(self, row: int, count: int) -> None:
        if count < self._table.block_count[row]:
            self._tree.touch(row)
            self._table.truncate_blocks(row, count)

    def _keep_needed_blocks(self, row: int, diffs: FileDiffs) -> None:
        """Implement FileWithSnapshotFeature.collectBlocksAndClear."""
        deleted = self._recorder.lookup.is_current_deleted(row)
        last = diffs.last
        if deleted and last is None:
            self.destroy_inode(row)
            return
        blocks = self._table.file_blocks(row)
        if last is not None and last.blocks is not None:
            shared = itertools.takewhile(
                lambda pair: pair[0].block_id == pair[1].block_id and pair[0].block_id not in last.detached,
                zip(blocks, last.blocks, strict=False),
            )
            kept = len(list(shared))
        else:
            wanted = sum(block.num_bytes for block in blocks)
            if deleted and last is not None:
                wanted = last.file_size
            kept = size = 0
            while kept < len(blocks) and size < wanted:
                size += blocks[kept].num_bytes
                kept += 1
        self._cut_blocks(row, kept)

    def remove_file_diff(self, row: int, diffs: FileDiffs, snapshot: int, prior: int) -> None:
        """Delete the diff of a snapshot; the previous diff receives its blocks."""
        known = diffs.known
        # Most files have one diff, which is assigned to the previous snapshot without changes.
        if len(known) == 1 and known[0].snapshot_id == snapshot:
            is_unneeded = diffs.current_deleted is False and known[0].blocks is None
            if prior != NO_SNAPSHOT or is_unneeded:
                self._diffs.replace_only(row, diffs, prior)
                return
        self._diffs.touch(row)
        taken = diffs.remove_diff(snapshot, prior)
        if taken is None:
            return
        removed, _ = taken
        self._diffs.note(row, prior if diffs.any else NO_SNAPSHOT)
        if removed is None:
            return
        if removed.blocks is None:
            if self._recorder.lookup.is_current_deleted(row):
                self._keep_needed_blocks(row, diffs)
            return
        earlier = diffs.prior(removed.snapshot_id, exclusive=True)
        adopter: FileDiff | None = None if earlier == NO_SNAPSHOT else diffs.at(earlier)
        if adopter is not None and adopter.blocks is None:
            adopter.set_blocks(removed.blocks)
            adopter.detached = set(removed.detached)
