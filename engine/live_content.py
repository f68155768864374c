"""Sums of a subtree of a warm namespace, as a NameNode counts them (INode.computeContentSummary).

A walk counts one directory after another, and pauses after a bounded time so that edits can be applied. It then
continues as a NameNode does after it has yielded its lock. Counted inodes stay counted. If a directory is removed
during the pause, its walk ends. Each other inode is counted in its state at the time when the walk reaches the inode.

A NameNode also counts inodes that exist only in snapshots: the inodes in the deleted lists of the directories below. A
moved inode is counted at each of its places. Permissions are not checked in deleted lists
(DirectoryWithSnapshotFeature.computeContentSummary4Snapshot). Hadoop 2 counts a directory once more for each of its
diffs, and a file with diffs once for each diff. For the old name of a moved inode, it counts only the space.

With `LiveSums`, a walk visits only directories above inodes that snapshots contain. For all other directories it uses
the stored sums. Without `LiveSums`, a kernel sums the subtrees of directories that snapshots do not contain. If the
caller's permissions must be checked in each directory, the walk visits all directories.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from engine.live_inodes import LiveInodes
from engine.read_refusals import refused_read
from hadoop_common.java_numbers import signed32, signed64
from image_format.errors import RecordError
from image_format.index import Ids
from image_format.kernels.inode import DIRECTORY, DROPPED, FILE, SPECIAL, UNDER_CONSTRUCTION
from image_format.kernels.scan import find_ids
from image_format.kernels.tables import UNKNOWN
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_tools.directory_sums import leaves_at, policy_units
from image_tools.image_diffs import FileChange, PastEntry
from image_tools.kernels.subtree_sums import MAX_ENTRY, sum_below
from image_tools.namespace_browser import (
    BATCH_SECONDS,
    NO_TOTALS,
    ContentTotals,
    Enter,
    LocatedInode,
    SubtreeTotals,
    leaf_totals,
)

_BATCH = 20_000
"""Number of untouched inodes of one directory that are counted at a time; counting them takes a few milliseconds."""
_MAX_DIRECTORIES = 2_000
"""Maximum number of directories whose subtrees one kernel call sums."""
_MAX_INODES = 50_000
"""Approximate maximum number of inodes that one kernel call counts below these directories."""
_WINDOW = 64
"""Number of inodes whose records a kernel prefetches at a time."""
NO_NAMES: Mapping[int, bytes] = MappingProxyType({})


class ContentWalk:
    """A walk that sums one subtree.

    Args:
        enter: called with each directory before its children, in name order; an exception from this function ends the
            walk.
    """

    def __init__(self, browser: LiveInodes, enter: Enter | None) -> None:
        self._browser = browser
        self._enter = enter
        self._pause_at = time.monotonic() + BATCH_SECONDS
        # the snapshots at the start; a walk ends if a snapshot that it reads is deleted
        self._snapshots: frozenset[int] = frozenset()
        # directories with diffs, whose deleted lists are still to be counted
        self._with_diffs: list[int] = []
        # directories whose subtrees a kernel will sum
        self._summable: list[int] = []
        self._is_deleted = False
        self._hadoop3 = browser.namespace.hadoop3

    @cached_property
    def _scratch(self) -> npt.NDArray[np.int64]:
        return np.empty((4, _MAX_DIRECTORIES + 2 * MAX_ENTRY), np.int64)

    def totals(self, place: LocatedInode) -> ContentTotals:
        """Return the sums of the subtree at an inode.

        Raises:
            RecordError: a record is damaged.
            NamespaceBusyError: the namespace did not become available again after a pause.
            ReadRefusedError: a directory has too many changes, a snapshot was deleted during the walk, or the inode is
                in a Hadoop 2 snapshot.
        """
        if place.snapshot is not None and not self._hadoop3:
            # Hadoop 2 mixes the present state with the state of the snapshot
            self._browser.refuse("summing a directory of a snapshot of Hadoop 2")
        inode_id = signed64(place.inode.id)
        if place.snapshot is not None:
            self._snapshots = self._browser.namespace.snapshots.ids
            if place.inode.HasField("directory"):
                return ContentTotals(self._past(inode_id, place.snapshot))
            return ContentTotals(leaf_totals(place.inode, self._browser.erasure_policies))
        if not place.inode.HasField("directory"):
            return ContentTotals(self._leaf(place.inode))
        found = self._present(inode_id)
        deleted = self._only_in_snapshots()
        return ContentTotals(found.plus(deleted), deleted if self._hadoop3 else NO_TOTALS)

    def _present(self, top: int) -> SubtreeTotals:
        """Return the sums of a directory as it is now, without its deleted lists."""
        totals, waiting = SubtreeTotals(0, 1, 0, 0), [top]
        below, waiting = self._of_directories(waiting)
        totals = totals.plus(below)
        while waiting or self._summable:
            self._pause_if_due()
            if self._sums_next(waiting):
                below, others, directories = self._below_summable(with_touched=True)
                found, more = self._of_touched(others)
                totals = totals.plus(below).plus(found)
                waiting += directories + more
                continue
            directory_id = waiting.pop()
            inode = self._browser.inode(directory_id)
            if inode is None:
                continue
            if self._enter is not None:
                self._enter(LocatedInode(inode))
            if self._browser.past.exist(directory_id):
                self._snapshots = self._snapshots or self._browser.namespace.snapshots.ids
                self._with_diffs.append(directory_id)
            found, directories = self._of_children(directory_id)
            totals = totals.plus(found)
            waiting += self._in_order(directories)[::-1]
        return totals

    def _of_children(self, directory_id: int) -> tuple[SubtreeTotals, list[int]]:
        """Return the sums of the children of a directory, and the directories among these children."""
        if self._enter is None and (summed := self._of_children_at_once(directory_id)) is not None:
            return summed
        plain, named = self._browser.child_ids(directory_id)
        totals, directories = self._of_touched(named.values())
        below, directories = self._of_directories(directories)
        totals = totals.plus(below)
        for first in range(0, plain.size, _BATCH):
            self._pause_if_due()
            found, more = self._of_untouched(plain[first : first + _BATCH])
            totals = totals.plus(found)
            directories += more
        return totals, directories

    def _in_order(self, directories: list[int], names: Mapping[int, bytes] = NO_NAMES) -> list[int]:
        """Return directories in name order if their order matters; `names` overrides the present names."""
        if self._enter is None:
            return directories
        named = []
        for each in directories:
            self._pause_if_due()
            if inode := self._browser.inode(each):
                named.append((name_key(names.get(each, inode.name)), each))
        return [each for _, each in sorted(named)]

    def _pause_if_due(self) -> None:
        """Pause after `BATCH_SECONDS`; afterwards only ids are valid, not rows or arrays of the namespace."""
        if time.monotonic() >= self._pause_at:
            self._browser.pause()
            if not self._snapshots <= self._browser.namespace.snapshots.ids:
                raise refused_read("counting the contents of a snapshot while a snapshot is deleted")
            self._pause_at = time.monotonic() + BATCH_SECONDS

    def _of_untouched(self, ids: Ids) -> tuple[SubtreeTotals, list[int]]:
        """Return the sums of inodes (vectorised for base inodes), and the directories among the inodes."""
        browser = self._browser
        slots, tree = browser.index.slots_of(ids), browser.namespace.tree
        is_plain = (browser.namespace.table.row_of.get_all(ids) == UNKNOWN) & (slots >= 0) & ~tree.dropped[slots]
        is_plain &= find_ids(browser.past.owners, ids) < 0
        offsets = browser.index.inode_offsets(slots[is_plain])
        units, place = policy_units(browser.erasure_policies), browser.index.place("INODE")
        leaves = leaves_at(browser.index.inode_buffer, offsets, units, place)
        is_directory = leaves[:, 0] == DIRECTORY
        count = int(is_directory.sum())
        length, space = leaves[:, 1:].sum(axis=0).tolist()
        found = SubtreeTotals(is_directory.size - count, count, length, space)
        below, directories = self._below_plain(ids[is_plain][is_directory].tolist())
        # the pause in `_of_touched` invalidates arrays
        del browser, tree, leaves, offsets
        others, more = self._of_touched(ids[~is_plain].tolist())
        return found.plus(below).plus(others), directories + more

    def _sums_next(self, waiting: list[int]) -> bool:
        """Return whether to sum `_summable` next; a kernel call is slow, so many directories are collected first."""
        return len(self._summable) > (_MAX_DIRECTORIES if waiting else 0)

    def _of_directories(self, ids: list[int]) -> tuple[SubtreeTotals, list[int]]:
        """Return the sums below directories of the present tree that `LiveSums` contains, and the other directories."""
        if self._enter is not None or self._browser.sums is None:
            return NO_TOTALS, ids
        return self._browser.sums.below(np.array(ids, np.int64))

    def _below_plain(self, ids: list[int]) -> tuple[SubtreeTotals, list[int]]:
        """Return the result of `_of_directories` for directories without diffs.

        A kernel computes the sums if `LiveSums` is missing.
        """
        if self._enter is None and self._browser.sums is None:
            self._summable += ids
            return NO_TOTALS, []
        return self._of_directories(ids)

    def _of_children_at_once(self, directory_id: int) -> tuple[SubtreeTotals, list[int]] | None:
        """Compute `_of_children` with a kernel; return None if the kernel does not support the directory."""
        found, others, directories, odd = self._run_kernel(np.array([directory_id]), 1)
        if odd:
            return None
        below, directories = self._below_plain(directories)
        touched, more = self._of_touched(others)
        more_below, more = self._of_directories(more)
        return found.plus(below).plus(touched).plus(more_below), directories + more

    def _below_summable(self, *, with_touched: bool) -> tuple[SubtreeTotals, list[int], list[int]]:
        """Return sums below the directories of `_summable`, inodes still to be counted, and directories to be walked.

        Several calls may be necessary. Below a directory without a row, no inode has a row.

        Args:
            with_touched: whether to sum the present state of touched directories, instead of leaving them to a walk.
        """
        namespace, index = self._browser.namespace, self._browser.index
        ids = np.array(self._summable[-_MAX_DIRECTORIES:], np.int64)
        del self._summable[-_MAX_DIRECTORIES:]
        rows, slots = namespace.table.row_of.get_all(ids), index.slots_of(ids)
        touched = rows != UNKNOWN
        ids = ids[exists := touched | ((slots >= 0) & ~namespace.tree.dropped[slots])]
        rows, touched = rows[exists], touched[exists]
        # some directories may have received diffs during a pause
        walked = find_ids(self._browser.past.owners, ids) >= 0
        walked |= touched & (namespace.table.marks[rows] & SPECIAL != 0) if with_touched else touched
        found, others, left, odd = self._run_kernel(ids[~walked], _MAX_INODES)
        self._summable += left
        return found, others, ids[walked].tolist() + odd

    def _run_kernel(self, ids: Ids, most: int) -> tuple[SubtreeTotals, list[int], list[int], list[int]]:
        """Sum the inodes below directories.

        Args:
            most: approximate number of inodes to count; 1 for the children of one directory.

        Returns:
            (sums; ids of inodes in snapshots, which are not counted; directories whose subtrees are not counted;
            directories in or below `ids` that the kernel cannot read).
        """
        browser = self._browser
        index, table, owners = browser.index, browser.namespace.table, browser.past.owners
        stack, odd = self._scratch[:3], self._scratch[3]
        stack[0, : ids.size] = ids
        totals = np.zeros((1, len(NO_TOTALS)), np.int64)
        arrays, units = index.arrays, policy_units(browser.erasure_policies)
        left, met, damaged = sum_below(
            *(index.directory_buffer, arrays.directory_ids, arrays.directory_offsets),
            *(arrays.ids, arrays.slots, arrays.offsets, index.inode_buffer, units, owners),
            *(table.row_of.slots, (table.rows, table.blocks, browser.namespace.tree.links.links)),
            *(stack, ids.size, most, totals, odd, np.empty((2, _WINDOW), np.int64)),
        )
        if damaged >= 0:
            raise index.place("INODE_DIR").error(RecordError, "damaged entry of a directory", int(damaged))
        others = odd[:met]
        sums = SubtreeTotals(*totals[0].tolist())
        return sums, others[others >= 0].tolist(), stack[0, :left].tolist(), (~others[others < 0]).tolist()

    def _of_touched(self, ids: Iterable[int]) -> tuple[SubtreeTotals, list[int]]:
        wanted = np.fromiter(ids, np.int64)
        if not wanted.size:
            return NO_TOTALS, []
        totals, others = self._of_rows(wanted)
        directories = list[int]()
        for each in wanted[others].tolist():
            self._pause_if_due()
            inode = self._browser.inode(each)
            if inode is None:
                continue
            if inode.HasField("directory"):
                directories.append(each)
            else:
                totals = totals.plus(self._leaf(inode))
        return totals._replace(directories=len(directories)), directories

    def _of_rows(self, ids: Ids) -> tuple[SubtreeTotals, npt.NDArray[np.bool_]]:
        """Return the sums of the files among inodes with a row, and a mask of all inodes that were not summed.

        Files with snapshot diffs and striped files are not summed.
        """
        table = self._browser.namespace.table
        rows = table.row_of.get_all(ids)
        others = rows == UNKNOWN
        rows[others] = 0
        flags, has_diffs = table.flags[rows], table.newest[rows] != -1
        others |= (table.kind[rows] != FILE) | (flags & DROPPED != 0) | (table.ec_policy[rows] >= 0)
        if self._browser.namespace.recorder.lookup.active:
            others |= has_diffs
        rows = rows[~others]
        counts, starts = table.block_count[rows].astype(np.int64), table.rows["blocks_offset"][rows]
        ends = np.cumsum(counts)
        places = np.repeat(starts - (ends - counts), counts) + np.arange(int(counts.sum()))
        sizes = table.blocks["num_bytes"][places]
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        length = sums[ends] - sums[ends - counts]
        is_open = (flags[~others] & UNDER_CONSTRUCTION != 0) & (counts > 0)
        stored = length.copy()
        stored[is_open] += table.block_size[rows[is_open]] - sizes[ends[is_open] - 1]
        space = stored * np.maximum(table.replication[rows], 0)
        return SubtreeTotals(rows.size, 0, int(length.sum()), int(space.sum())), others

    # ---- snapshots -----------------------------------------------------------------------------------------

    def _leaf(self, inode: pb.INode) -> SubtreeTotals:
        """Return the sums of a file or symlink; a file with diffs also uses the space of all blocks in the diffs."""
        totals = leaf_totals(inode, self._browser.erasure_policies)
        if not inode.HasField("file") or inode.file.HasField("erasureCodingPolicyID"):
            return totals
        changes = self._browser.past.of_file(signed64(inode.id))
        if not changes:
            return totals
        if not self._hadoop3:
            length = changes[-1].length if self._is_deleted else totals.length
            totals = totals._replace(files=len(changes), length=length)
        return totals._replace(space=_space_with_diffs(inode.file, changes, is_deleted=self._is_deleted))

    def _past(self, top: int, snapshot: int) -> SubtreeTotals:
        """Return the sums of a directory at a snapshot."""
        totals, waiting = SubtreeTotals(0, 1, 0, 0), [top]
        while waiting or self._summable:
            self._pause_if_due()
            if self._sums_next(waiting):
                below, others, directories = self._below_summable(with_touched=False)
                found, more = self._of_past(others, snapshot)
                totals = totals.plus(below).plus(found)
                waiting += directories + more
                continue
            directory_id = waiting.pop()
            browser = self._browser
            if self._enter is not None and (inode := browser.inode_at(directory_id, snapshot)):
                self._enter(LocatedInode(inode, snapshot))
            plain, named = browser.child_ids_at(directory_id, snapshot)
            changed = find_ids(browser.past.owners, plain) >= 0
            unchanged, ids = plain[~changed], [*plain[changed].tolist(), *named.values()]
            names = {each: name for name, each in named.items()}
            # the pauses below invalidate arrays
            del browser, plain, changed
            directories = []
            for first in range(0, unchanged.size, _BATCH):
                self._pause_if_due()
                found, more = self._of_untouched(unchanged[first : first + _BATCH])
                totals = totals.plus(found)
                directories += more
            found, more = self._of_past(ids, snapshot)
            totals = totals.plus(found)
            directories += more
            waiting += self._in_order(directories, names)[::-1]
        return totals

    def _of_past(self, ids: Iterable[int], snapshot: int) -> tuple[SubtreeTotals, list[int]]:
        totals, directories = NO_TOTALS, list[int]()
        for each in ids:
            self._pause_if_due()
            inode = self._browser.inode_at(each, snapshot)
            if inode is None:
                continue
            if inode.HasField("directory"):
                directories.append(each)
            else:
                totals = totals.plus(leaf_totals(inode, self._browser.erasure_policies))
        return totals._replace(directories=len(directories)), directories

    def _only_in_snapshots(self) -> SubtreeTotals:
        """Return the sums of the deleted lists of the counted directories, and of the directories in these lists."""
        self._enter, self._is_deleted, totals = None, True, NO_TOTALS
        while self._with_diffs:
            self._pause_if_due()
            changes = self._browser.past.of_directory(self._with_diffs.pop())
            if not self._hadoop3:
                totals = totals._replace(directories=totals.directories + len(changes))
            for entry in [each for change in changes for each in change.deleted.values()]:
                self._pause_if_due()
                totals = totals.plus(self._of_deleted(entry))
        return totals

    def _of_deleted(self, entry: PastEntry) -> SubtreeTotals:
        if entry.last_snapshot is not None and not self._hadoop3:
            return NO_TOTALS._replace(space=self._of_name(entry, entry.last_snapshot).space)
        return self._of_name(entry, entry.last_snapshot)

    def _of_name(self, entry: PastEntry, snapshot: int | None) -> SubtreeTotals:
        browser = self._browser
        inode = browser.inode(entry.inode_id) if snapshot is None else browser.inode_at(entry.inode_id, snapshot)
        if inode is None:
            # a copy of a symlink that has since been deleted
            return SubtreeTotals(1, 0, 0, 0)
        if inode.HasField("directory"):
            return self._present(entry.inode_id) if snapshot is None else self._past(entry.inode_id, snapshot)
        return self._leaf(inode) if snapshot is None else leaf_totals(inode, browser.erasure_policies)


def _space_with_diffs(file: pb.INodeFile, changes: Sequence[FileChange], *, is_deleted: bool) -> int:
    """Return the space of a file's distinct blocks at its highest replication (storagespaceConsumedContiguous).

    Args:
        is_deleted: whether the file exists only in snapshots; its present replication then does not count.
    """
    sizes = {each: size for change in changes for each, size in change.blocks.items()}
    sizes |= {signed64(block.blockId): signed64(block.numBytes) for block in file.blocks}
    if file.HasField("fileUC") and file.blocks:
        sizes[signed64(file.blocks[-1].blockId)] = signed64(file.preferredBlockSize)
    replications = [0 if is_deleted else signed32(file.replication)]
    replications += [signed32(each.attributes.replication) for each in changes if each.attributes is not None]
    return sum(sizes.values()) * max(replications)
