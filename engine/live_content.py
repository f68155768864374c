"""Sums of a subtree of a warm namespace, as a NameNode counts them (INode.computeContentSummary).

A walk counts directories one after the other, and pauses after a bounded number of inodes, so that edits are applied.
It continues like a NameNode that released its lock: what was counted stays counted, a directory that was removed in
between counts no further, and the rest is counted as it is by then.

A NameNode also counts the inodes in the deleted lists of the directories below, which only snapshots have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.namespace.diffs import DirectoryDiffs, Node, row_of
from engine.namespace.references import WithName
from image_format.index import Ids
from image_format.inode_columns import read_inode_columns
from image_format.inode_features import to_signed
from image_format.kernels.inode import DIRECTORY
from image_format.kernels.scan import find_ids
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import signed32
from image_tools.namespace_browser import NO_TOTALS, ContentTotals, Enter, LocatedInode, SubtreeTotals, space_consumed

if TYPE_CHECKING:
    from engine.live_browser import LiveBrowser

_BATCH = 20_000
"""Inodes that are counted between two pauses, which takes some milliseconds."""


class ContentWalk:
    """One walk.

    Args:
        enter: called with each directory before its children, in name order; what it raises ends the walk.
    """

    def __init__(self, browser: LiveBrowser, enter: Enter | None) -> None:
        self._browser = browser
        self._enter = enter
        self._left = _BATCH
        # ids of directories of the present tree with snapshot diffs
        self._with_diffs: list[int] = []
        self._diffs_may_exist = browser.namespace.history.lookup.active

    def totals(self, place: LocatedInode) -> ContentTotals:
        """Return the sums of the subtree at an inode.

        Raises:
            RecordError: a record is damaged.
            NamespaceBusyError: the namespace did not become available again after a pause.
        """
        if not place.inode.HasField("directory"):
            return ContentTotals(self._of_leaf(place.inode))
        inode_id = to_signed(place.inode.id)
        if place.snapshot is not None:
            return ContentTotals(self._past(inode_id, place.snapshot))
        found = self._present(inode_id)
        deleted = self._only_in_snapshots()
        return ContentTotals(found.plus(deleted), deleted)

    # ---- the present tree ----------------------------------------------------------------------------------

    def _present(self, top: int) -> SubtreeTotals:
        totals, waiting = NO_TOTALS, [top]
        while waiting:
            directory_id = waiting.pop()
            inode = self._browser.inode(directory_id)
            if inode is None:
                continue
            if self._enter is not None:
                self._enter(LocatedInode(inode))
            if self._diffs_may_exist and self._browser.diffs(directory_id) is not None:
                self._with_diffs.append(directory_id)
            plain, named = self._browser.children(directory_id)
            found, directories = self._of_untouched(plain)
            more, others = self._of_touched(named.values())
            totals = totals.plus(found).plus(more)
            waiting += self._in_order([*directories, *others])[::-1]
            self._count(1 + plain.size + len(named))
        return totals._replace(directories=totals.directories + 1)

    def _in_order(self, directories: list[int]) -> list[int]:
        """Return directories in name order if their order matters."""
        if self._enter is None:
            return directories
        named = [(name_key(inode.name), each) for each in directories if (inode := self._browser.inode(each))]
        return [each for _, each in sorted(named)]

    def _count(self, inodes: int) -> None:
        self._left -= inodes
        if self._left <= 0:
            self._left = _BATCH
            self._browser.pause()

    def _of_untouched(self, ids: Ids) -> tuple[SubtreeTotals, list[int]]:
        """Return the sums of inodes of the base image, and the directories among them."""
        browser = self._browser
        if not ids.size:
            return NO_TOTALS, []
        is_open = find_ids(browser.namespace.tree.leased_ids, ids) >= 0
        totals = _sum(self._of_leaf(inode) for each in ids[is_open].tolist() if (inode := browser.inode(each)))
        ids = ids[~is_open]
        offsets = browser.index.inode_offsets(browser.index.slots_of(ids))
        columns = read_inode_columns(browser.index.inode_buffer, offsets, browser.index.place("INODE"))
        is_directory = columns.kind == DIRECTORY
        space = space_consumed(browser.erasure_policies, columns.length, columns.replication, columns.ec_policy)
        files = ~is_directory
        found = SubtreeTotals(
            int(files.sum()), int(is_directory.sum()), int(columns.length[files].sum()), int(space[files].sum())
        )
        return totals.plus(found), ids[is_directory].tolist()

    def _of_touched(self, ids: Iterable[int]) -> tuple[SubtreeTotals, list[int]]:
        directories, leaves = [], []
        for each in ids:
            inode = self._browser.inode(each)
            if inode is None:
                continue
            if inode.HasField("directory"):
                directories.append(each)
            else:
                leaves.append(self._of_leaf(inode))
        return _sum(leaves)._replace(directories=len(directories)), directories

    def _of_leaf(self, inode: pb.INode) -> SubtreeTotals:
        """Return the sums of a file or symlink; the last block of an open file takes its full size of disk."""
        file = inode.file
        length = sum(to_signed(block.numBytes) for block in file.blocks)
        stored = length
        if file.HasField("fileUC") and file.blocks:
            stored += to_signed(file.preferredBlockSize) - to_signed(file.blocks[-1].numBytes)
        coding = file.erasureCodingPolicyID if file.HasField("erasureCodingPolicyID") else -1
        columns: list[npt.NDArray[np.int64]] = [
            np.array([each], np.int64) for each in (stored, signed32(file.replication), coding)
        ]
        return SubtreeTotals(1, 0, length, int(space_consumed(self._browser.erasure_policies, *columns)[0]))

    # ---- snapshots -----------------------------------------------------------------------------------------

    def _past(self, top: int, snapshot: int) -> SubtreeTotals:
        """Return the sums of a directory in a snapshot, which edits do not change."""
        totals, waiting = SubtreeTotals(0, 1, 0, 0), [top]
        while waiting:
            directory_id = waiting.pop()
            if self._enter is not None and (inode := self._browser.inode_at(directory_id, snapshot)):
                self._enter(LocatedInode(inode, snapshot))
            names = self._browser.names_at(directory_id, snapshot)
            below = []
            for name in sorted(names, key=name_key) if self._enter else names:
                inode = self._browser.inode_at(names[name], snapshot)
                if inode is None:
                    continue
                if inode.HasField("directory"):
                    below.append(names[name])
                else:
                    totals = totals.plus(self._of_leaf(inode))
            totals = totals._replace(directories=totals.directories + len(below))
            waiting += below[::-1]
            self._count(1 + len(names))
        return totals

    def _only_in_snapshots(self) -> SubtreeTotals:
        """Return the sums of all entries of the deleted lists of the directories that were counted.

        As in a NameNode (DirectoryWithSnapshotFeature.computeContentSummary4Snapshot), a moved inode counts at each of
        its places, and permissions are not checked.
        """
        self._enter, totals = None, NO_TOTALS
        # a deleted directory may have snapshot diffs of its own, so the list grows
        while self._with_diffs:
            for node in self._deleted(self._with_diffs.pop()):
                totals = totals.plus(self._of_deleted(node))
        return totals

    def _deleted(self, directory_id: int) -> list[Node]:
        diffs = self._browser.diffs(directory_id)
        if not isinstance(diffs, DirectoryDiffs):
            return []
        return [node for diff in diffs.items for node in diff.deleted.values()]

    def _of_deleted(self, node: Node) -> SubtreeTotals:
        inode_id = int(self._browser.namespace.table.id[row_of(node)])
        if isinstance(node, WithName):
            inode = self._browser.inode_at(inode_id, node.last_snapshot)
            if inode is None:
                return NO_TOTALS
            is_directory = inode.HasField("directory")
            return self._past(inode_id, node.last_snapshot) if is_directory else self._of_leaf(inode)
        inode = self._browser.inode(inode_id)
        if inode is None:
            # a copy of a symlink that was deleted since
            return SubtreeTotals(1, 0, 0, 0)
        return self._present(inode_id) if inode.HasField("directory") else self._of_leaf(inode)


def _sum(totals: Iterable[SubtreeTotals]) -> SubtreeTotals:
    found = NO_TOTALS
    for each in totals:
        found = found.plus(each)
    return found
