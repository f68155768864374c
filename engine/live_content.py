"""Sums of a subtree of a warm namespace, as a NameNode counts them (INode.computeContentSummary).

A walk counts directories one after the other, and pauses after a bounded time, so that edits are applied. It continues
like a NameNode that released its lock: what was counted stays counted, a directory that was removed in between counts
no further, and the rest is counted as it is by then.

A NameNode also counts the inodes in the deleted lists of the directories below, which only snapshots have. A subtree
with a directory that has snapshot diffs is therefore refused.

With `DirectorySums` of the base image, a walk visits only directories that edits touched since, or whose sums are
unknown; for all others it takes their sums. A caller whose permissions are checked in each directory walks all.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from engine.read_refusals import SNAPSHOT_READS, refused_read
from image_format.index import Ids
from image_format.inode_columns import read_inode_columns
from image_format.inode_features import to_signed
from image_format.kernels.inode import DIRECTORY
from image_format.kernels.scan import find_ids
from image_format.kernels.tables import UNKNOWN
from image_format.name_order import name_key
from image_tools.namespace_browser import NO_TOTALS, Enter, LocatedInode, SubtreeTotals, leaf_totals, space_consumed

if TYPE_CHECKING:
    from engine.live_browser import LiveBrowser

_BATCH_SECONDS = 0.02
"""Time between two pauses."""
_BATCH = 20_000
"""Untouched inodes that are counted at once, which takes some milliseconds."""


class ContentWalk:
    """One walk.

    Args:
        enter: called with each directory before its children, in name order; what it raises ends the walk.
    """

    def __init__(self, browser: LiveBrowser, enter: Enter | None) -> None:
        self._browser = browser
        self._enter = enter
        self._pause_at = time.monotonic() + _BATCH_SECONDS

    def totals(self, place: LocatedInode) -> SubtreeTotals:
        """Return the sums of the subtree at an inode.

        Raises:
            RecordError: a record is damaged.
            NamespaceBusyError: the namespace did not become available again after a pause.
            ReadRefusedError: a directory has snapshot diffs, or too many changes.
        """
        if not place.inode.HasField("directory"):
            return leaf_totals(place.inode, self._browser.erasure_policies)
        totals, waiting = SubtreeTotals(0, 1, 0, 0), [to_signed(place.inode.id)]
        if self._browser.namespace.table.row_of.get(waiting[0]) is None:
            below, waiting = self._of_untouched_directories(np.array(waiting, np.int64))
            totals = totals.plus(below)
        while waiting:
            self._pause_if_due()
            directory_id = waiting.pop()
            inode = self._browser.inode(directory_id)
            if inode is None:
                continue
            if self._enter is not None:
                self._enter(LocatedInode(inode))
            if self._browser.has_diffs(directory_id):
                raise refused_read(SNAPSHOT_READS)
            found, directories = self._of_children(directory_id)
            totals = totals.plus(found)
            waiting += self._in_order(directories)[::-1]
        return totals

    def _of_children(self, directory_id: int) -> tuple[SubtreeTotals, list[int]]:
        """Return the sums of the children of a directory, and the directories among them."""
        plain, named = self._browser.children(directory_id)
        totals, directories = self._of_touched(named.values())
        for first in range(0, plain.size, _BATCH):
            self._pause_if_due()
            found, more = self._of_untouched(plain[first : first + _BATCH])
            totals = totals.plus(found)
            directories += more
        return totals, directories

    def _in_order(self, directories: list[int]) -> list[int]:
        """Return directories in name order if their order matters."""
        if self._enter is None:
            return directories
        named = []
        for each in directories:
            self._pause_if_due()
            if inode := self._browser.inode(each):
                named.append((name_key(inode.name), each))
        return [each for _, each in sorted(named)]

    def _pause_if_due(self) -> None:
        """Pause after `_BATCH_SECONDS`; only ids, no rows and no arrays of the namespace, are valid afterwards."""
        if time.monotonic() >= self._pause_at:
            self._browser.pause()
            self._pause_at = time.monotonic() + _BATCH_SECONDS

    def _of_untouched(self, ids: Ids) -> tuple[SubtreeTotals, list[int]]:
        """Return the sums of inodes, vectorised for those of the base image, and the directories among them."""
        browser = self._browser
        slots, tree = browser.index.slots_of(ids), browser.namespace.tree
        is_plain = (browser.namespace.table.row_of.get_all(ids) == UNKNOWN) & (slots >= 0) & ~tree.dropped[slots]
        is_plain &= find_ids(tree.leased_ids, ids) < 0
        offsets = browser.index.inode_offsets(slots[is_plain])
        columns = read_inode_columns(browser.index.inode_buffer, offsets, browser.index.place("INODE"))
        is_directory = columns.kind == DIRECTORY
        space = space_consumed(browser.erasure_policies, columns.length, columns.replication, columns.ec_policy)
        files = ~is_directory
        found = SubtreeTotals(
            int(files.sum()), int(is_directory.sum()), int(columns.length[files].sum()), int(space[files].sum())
        )
        directories = ids[is_plain][is_directory]
        below, unknown = self._of_untouched_directories(directories)
        # the pause in `_of_touched` invalidates arrays
        del browser, tree, columns, offsets
        others, more = self._of_touched(ids[~is_plain].tolist())
        return found.plus(below).plus(others), unknown + more

    def _of_untouched_directories(self, ids: Ids) -> tuple[SubtreeTotals, list[int]]:
        """Return the sums below directories that no edit touched since the base image, and those to be walked.

        Nothing below such a directory is touched either: what an edit touches has a row, and so have the directories
        above it.
        """
        if self._enter is not None or self._browser.sums is None:
            return NO_TOTALS, ids.tolist()
        return self._browser.sums.below(ids)

    def _of_touched(self, ids: Iterable[int]) -> tuple[SubtreeTotals, list[int]]:
        totals, directories = NO_TOTALS, list[int]()
        for each in ids:
            self._pause_if_due()
            inode = self._browser.inode(each)
            if inode is None:
                continue
            if inode.HasField("directory"):
                directories.append(each)
            else:
                totals = totals.plus(leaf_totals(inode, self._browser.erasure_policies))
        return totals._replace(directories=len(directories)), directories
