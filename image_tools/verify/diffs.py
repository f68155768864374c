"""Check and repair of SNAPSHOT_DIFF, one inode's list of diffs at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hadoop_common.quantities import counted
from image_format.errors import RecordError
from image_format.proto import fsimage_pb2 as pb
from image_format.snapshot_sections import DiffScan
from image_tools.verify.diff_lists import DiffBlock, DiffListCheck, DiffLists, encode_block, read_block
from image_tools.verify.directories import DirectoryCheck
from image_tools.verify.findings import Findings
from image_tools.verify.fixes import Fixes
from image_tools.verify.frame import ImageFrame
from image_tools.verify.inodes import DIRECTORY, FILE, InodeArrays
from image_tools.verify.kernels.diff_audit import count_references
from image_tools.verify.namesystem import BlockMaxima
from image_tools.verify.references import ReferenceCheck
from image_tools.verify.snapshots import SnapshotCheck
from image_tools.verify.strings import StringTableCheck
from image_tools.verify.view import SectionView

Ids = npt.NDArray[np.int64]


class DiffCheck:
    """The diffs of an image.

    The constructor finds the positions of the lists and the references in them; `check` decodes the lists.
    """

    def __init__(self, frame: ImageFrame, findings: Findings, inodes: InodeArrays, references: ReferenceCheck) -> None:
        self.view = SectionView(frame, "SNAPSHOT_DIFF", findings)
        self._inodes, self._references = inodes, references
        buffer = np.frombuffer(self.view.data, np.uint8)
        scan = DiffScan(buffer)
        uses = np.zeros(references.count, np.int64)
        damaged, end, count = scan.damaged_at is not None, scan.end, scan.entries.size
        first_damaged = int(count_references(buffer, scan.diffs, uses))
        if first_damaged >= 0:
            count = int(np.searchsorted(scan.entries["offset"], scan.diffs["offset"][first_damaged])) - 1
            damaged, end = True, int(scan.entries["offset"][count])
        if damaged:
            self.view.damaged = True
            self.view.add("record-damaged", "the DiffEntry or a diff after it is damaged", end)
        self._ids: Ids = scan.entries["owner"][:count].copy()
        self._offsets: Ids = scan.entries["offset"][:count].copy()
        self._end = end
        references.listed[uses > 0] = 0

    def check(
        self,
        directories: DirectoryCheck,
        snapshots: SnapshotCheck,
        strings: StringTableCheck,
        maxima: BlockMaxima,
        fixes: Fixes | None,
    ) -> DiffLists:
        """Decode every list and report its faults; with `fixes`, correct the lists."""
        lists = DiffLists(self._inodes, directories, self._references)
        checker = DiffListCheck(self.view, lists, snapshots, strings, maxima, repair=fixes is not None)
        twins = self._twins()
        waiting: dict[int, list[DiffBlock]] = {}
        for block in self._blocks():
            inode_id = int(block.header.inodeId)
            if not self._fits(block):
                self._replace(fixes, block, b"")
            elif inode_id not in twins:
                if checker.check(block):
                    self._replace(fixes, block, encode_block(block))
            else:
                waiting.setdefault(inode_id, []).append(block)
        for blocks in waiting.values():
            self._join(blocks)
            checker.check(blocks[0])
            self._replace(fixes, blocks[0], encode_block(blocks[0]))
            for block in blocks[1:]:
                self._replace(fixes, block, b"")
        lists.finish()
        return lists

    def block(self, inode_id: int) -> DiffBlock | None:
        """Return the first list of diffs of an inode in the image, or None if it has none."""
        (found,) = np.nonzero(self._ids == inode_id)
        if not found.size:
            return None
        bounds = np.append(self._offsets, self._end)
        return read_block(self.view.data, int(bounds[found[0]]), int(bounds[found[0] + 1]), self.view.place)

    def _twins(self) -> set[int]:
        ordered = np.sort(self._ids)
        return set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())

    def _blocks(self) -> Iterator[DiffBlock]:
        bounds = [*self._offsets.tolist(), self._end]
        for start, end in itertools.pairwise(bounds):
            try:
                yield read_block(self.view.data, start, end, self.view.place)
            except RecordError as error:
                self.view.report_damage(error)

    def _fits(self, block: DiffBlock) -> bool:
        """Return whether the inode exists and has the right type for the diffs."""
        inode_id = int(block.header.inodeId)
        slot = self._inodes.slot(inode_id)
        if slot < 0:
            text = f"{counted(len(block.diffs), 'diff')} of inode {inode_id}, which is not in the image"
            self.view.add("diff-inode", text, block.start, inode=inode_id)
            return False
        wanted = DIRECTORY if block.header.type == pb.DiffEntry.DIRECTORYDIFF else FILE
        if self._inodes.kinds[slot] != wanted:
            text = (
                "file diffs of an inode that is not a file"
                if wanted == FILE
                else "directory diffs of an inode that is not a directory"
            )
            self.view.add("diff-kind", text, block.start, inode=inode_id)
            return False
        return True

    def _join(self, blocks: list[DiffBlock]) -> None:
        """Move all diffs of an inode to its first `DiffBlock`."""
        if len(blocks) < 2:
            return
        inode_id = int(blocks[0].header.inodeId)
        text = f"inode {inode_id} has {counted(len(blocks), 'list')} of diffs"
        self.view.add("diff-twice", text, blocks[1].start, inode=inode_id)
        joined = [item for block in blocks for item in zip(block.diffs, block.created, strict=True)]
        joined.sort(key=lambda item: -item[0].snapshotId)
        blocks[0].diffs = [diff for diff, _ in joined]
        blocks[0].created = [created for _, created in joined]

    def _replace(self, fixes: Fixes | None, block: DiffBlock, data: bytes) -> None:
        if fixes is not None:
            fixes.replace(self.view.name, block.start, block.end, data)
