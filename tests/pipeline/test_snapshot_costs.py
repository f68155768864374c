"""What each snapshot keeps, compared with a walk through every snapshot of recorded images."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from image_format.index import ImageIndex
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.dump.records import FileDiffRecords, ImageRecords
from image_tools.dump.values import signed64
from image_tools.past_tree import PastTree
from pipeline.host_image import HostImage
from pipeline.reports.counts.snapshots import KeptSpace
from pipeline.reports.snapshot_costs import kept_space, snapshot_costs
from pipeline.reports.snapshot_views import SnapshotViews
from tests.image_format.image_support import has_its_references
from tests.recorded_cases import ALL_CASES

UNKNOWN = 1 << 48

View = dict[int, set[int]]


IMAGES = [
    case.image("after") for case in ALL_CASES if "snapshot" in case.id and has_its_references(case.image("after"))
]


class Walk:
    """The blocks of every file, by walking the current tree and each snapshot."""

    def __init__(self, image: ImageFile) -> None:
        self._index = ImageIndex(image)
        self._past = PastTree(image, self._index)
        records = ImageRecords(image)
        self._inodes = {signed64(each.id): each for each in records.inodes()}
        self._diffs = {each.inode_id: each for each in records.snapshot_diffs() if isinstance(each, FileDiffRecords)}
        self.sizes: dict[int, int] = {}
        self.current: set[int] = set()
        self.users: View = {}
        self.files: View = {}
        self._walk(16385, None)
        for snapshot in records.snapshots():
            self._walk(signed64(snapshot.root.id), snapshot.snapshotId)

    def _walk(self, directory: int, snapshot: int | None) -> None:
        pending = [directory]
        while pending:
            each = pending.pop()
            if self._inodes[each].HasField("directory"):
                children = (
                    [*self._index.children(each).tolist(), *map(self._referred, self._index.reference_children(each))]
                    if snapshot is None
                    else [*self._past.children(each, snapshot).values()]
                )
                pending += [child for child in children if child in self._inodes]
            elif self._inodes[each].HasField("file"):
                self._use(each, snapshot)

    def _referred(self, number: int) -> int:
        return signed64(self._index.history.reference(int(number)).referredId)

    def _use(self, inode_id: int, snapshot: int | None) -> None:
        if snapshot is None:
            self.current.add(inode_id)
        else:
            self.files.setdefault(inode_id, set()).add(snapshot)
        for block in self._blocks(inode_id, snapshot):
            self.sizes[block.blockId] = 0 if block.numBytes > UNKNOWN else block.numBytes
            self.users.setdefault(block.blockId, set()).add(-1 if snapshot is None else snapshot)

    def _blocks(self, inode_id: int, snapshot: int | None) -> list[pb.BlockProto]:
        if snapshot is not None and inode_id in self._diffs:
            for diff in reversed(self._diffs[inode_id].diffs):
                if diff.snapshotId >= snapshot and diff.blocks:
                    return list(diff.blocks)
        return list(self._inodes[inode_id].file.blocks)

    def alone(self, snapshots: list[int]) -> dict[int, tuple[int, int]]:
        """By snapshot: files, and bytes of blocks, that nothing else has."""
        files = Counter(min(each) for inode, each in self.files.items() if len(each) == 1 and self._has(inode))
        length: Counter[int] = Counter()
        for block, users in self.users.items():
            if len(users) == 1:
                length[min(users)] += self.sizes[block]
        return {each: (files[each], length[each]) for each in snapshots}

    def _has(self, inode_id: int) -> bool:
        diffs = self._diffs.get(inode_id)
        blocks = self._inodes[inode_id].file.blocks or (diffs and any(each.blocks for each in diffs.diffs))
        return inode_id not in self.current and bool(blocks)

    def together(self) -> tuple[int, int]:
        """Files, and bytes of blocks, that only snapshots have."""
        files = sum(self._has(inode) for inode in self.files)
        return files, sum(self.sizes[block] for block, users in self.users.items() if -1 not in users)


@pytest.mark.recorded
@pytest.mark.parametrize("path", IMAGES, ids=lambda path: "-".join(path.parts[-4:-2]))
def test_each_snapshot_keeps_what_a_walk_finds(path: Path, tmp_path: Path) -> None:
    with ImageFile.open(path) as image:
        host = HostImage.indexed(image, tmp_path)
        walk, views = Walk(image), SnapshotViews(host)
        kept = kept_space(host, views)
        alone = dict(zip(views.ids, kept.by_snapshot(len(views.ids)), strict=True))
        assert {each: (sums["files"], sums["length"]) for each, sums in alone.items()} == walk.alone(views.ids)
        seen = KeptSpace({view: sums for view, sums in kept.by_view.items() if view})
        assert (seen.total()["files"], seen.total()["length"]) == walk.together()
        for inode, snapshots in walk.files.items():
            assert views.file(inode) == sum(1 << views.ids.index(each) for each in snapshots), inode
        costs = snapshot_costs(host)
        assert len(costs.snapshots) == len(views.ids)
        assert sum(row["snapshots"] for row in costs.directories) == len(views.ids)


def test_sums_of_views() -> None:
    kept = KeptSpace()
    kept.add(0b001, 1, 10, 30)
    kept.add(0b001, 0, 5, 15)
    kept.add(0b010, 1, 1, 3)
    kept.add(0b011, 1, 100, 300)
    kept.add(0b110, 1, 1000, (1 << 63) - 1)
    assert kept.by_snapshot(3) == [
        {"files": 1, "length": 15, "raw": 45},
        {"files": 1, "length": 1, "raw": 3},
        {"files": 0, "length": 0, "raw": 0},
    ]
    assert kept.by_root([7, 7, 8]) == {
        7: {"files": 4, "length": 1116, "raw": (1 << 63) - 1},
        8: {"files": 1, "length": 1000, "raw": (1 << 63) - 1},
    }
    assert kept.total() == {"files": 4, "length": 1116, "raw": (1 << 63) - 1, "directories": 0}
