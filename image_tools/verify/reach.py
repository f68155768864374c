"""Reachability of inodes from the root through children, references and deleted lists."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_tools.verify.diff_lists import DiffLists
from image_tools.verify.inodes import DIRECTORY, InodeArrays
from image_tools.verify.kernels.tree_audit import mark_reachable

Ids = npt.NDArray[np.int64]


class Reachability:
    """The inodes reachable from the root; dropped references are not followed.

    Attributes:
        reached: whether each inode is reachable, by slot.
    """

    def __init__(self, inodes: InodeArrays, lists: DiffLists) -> None:
        self._inodes, self._lists = inodes, lists
        self.reached = np.zeros(inodes.count, np.uint8)
        self._stack = np.empty(int((inodes.kinds == DIRECTORY).sum()) + 1, np.int64)
        references = lists.references
        self._referred = np.where(references.kept, references.referred, -1)
        root = inodes.slot(ROOT_INODE_ID)
        if root >= 0:
            self.mark(root)

    def mark(self, slot: int) -> None:
        """Mark an inode and all inodes reachable from it."""
        inodes, directories = self._inodes, self._lists.directories
        mark_reachable(
            slot,
            self.reached,
            inodes.kinds,
            self._stack,
            directories.buffer,
            directories.entry_of,
            directories.offsets,
            directories.following,
            directories.flags,
            inodes.ids,
            inodes.slots,
            self._referred,
            self._lists.sources,
            self._lists.targets,
        )

    def unreachable(self) -> Ids:
        """Return unreachable slots, without damaged records and records that a later record replaces."""
        usable = self._inodes.record_ids > 0
        usable[self._inodes.shadowed] = False
        return np.flatnonzero(usable & (self.reached == 0))

    def tops(self) -> list[int]:
        """Return unreachable inodes that lead to all other unreachable inodes; mark all of these inodes as reached."""
        left = self.unreachable()
        listed = self._lists.directories.owner >= 0
        listed[self._lists.targets] = True
        references = self._lists.references
        used = references.kept & (references.owner >= 0)
        listed[self._referred[used]] = True
        found = [*left[~listed[left]].tolist(), *left[listed[left]].tolist()]
        chosen = []
        for slot in found:
            if not self.reached[slot]:
                self.mark(slot)
                chosen.append(slot)
        return chosen
