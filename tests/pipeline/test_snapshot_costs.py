"""Space kept by each snapshot, compared with a walk through every snapshot of recorded images."""

from __future__ import annotations

import itertools
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from engine.merge import merge
from hadoop_common.java_numbers import signed64
from image_format.erasure_policies import raw_bytes
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.browse import ImageBrowser
from image_tools.dump.records import FileDiffRecords, ImageRecords
from image_tools.namespace_browser import LocatedInode
from journal.ops import DeleteSnapshotOp
from pipeline.host_image import HostImage
from pipeline.reports.counts.snapshots import ALWAYS, KeptSpace, needed, replica_views
from pipeline.reports.request import ReportOptions
from pipeline.reports.sections import make_section
from pipeline.reports.snapshot_costs import SnapshotsTask, kept_space, snapshot_costs
from pipeline.reports.snapshot_views import SnapshotViews
from pipeline.reports.work import ReportData
from pipeline.source_files import SourceFile
from tests.image_format.image_support import build_image, delimited, has_its_references, minimal_sections, store
from tests.pipeline.report_frames import AS_OF, ROOT, counted, directory
from tests.recorded_cases import ALL_CASES

UNKNOWN = 1 << 48

CURRENT = -1
View = dict[int, set[int]]


IMAGES = [
    case.image("after") for case in ALL_CASES if "snapshot" in case.id and has_its_references(case.image("after"))
]


class Walk:
    """Walk of the current tree and each snapshot, which collects the blocks of every file."""

    def __init__(self, image: ImageFile) -> None:
        self._browser = ImageBrowser(image)
        records = ImageRecords(image)
        self._inodes = {signed64(each.id): each for each in records.inodes()}
        self._diffs = {each.inode_id: each for each in records.snapshot_diffs() if isinstance(each, FileDiffRecords)}
        self._renamed = {signed64(each.referredId) for each in records.references()}
        self.blocks: dict[int, dict[int, int]] = {}
        self.files: View = {}
        """Snapshots in which a file is visible, by inode; `CURRENT` is the current tree."""
        self.users: View = {}
        """Snapshots in which a file with a block is visible, by block; `CURRENT` is the current tree."""
        self._walk(16385, None)
        for snapshot in records.snapshots():
            self._walk(signed64(snapshot.root.id), snapshot.snapshotId)

    def _walk(self, directory: int, snapshot: int | None) -> None:
        pending = [directory]
        while pending:
            each = pending.pop()
            if self._inodes[each].HasField("directory"):
                place = LocatedInode(self._inodes[each], snapshot)
                pending += [signed64(child.inode.id) for child in self._browser.children(place)]
            elif self._inodes[each].HasField("file"):
                self._use(each, snapshot)

    def _use(self, inode_id: int, snapshot: int | None) -> None:
        user = CURRENT if snapshot is None else snapshot
        self.files.setdefault(inode_id, set()).add(user)
        for block in self._blocks(inode_id, snapshot):
            size = 0 if block.numBytes > UNKNOWN else block.numBytes
            self.blocks.setdefault(inode_id, {})[block.blockId] = size
            self.users.setdefault(block.blockId, set()).add(user)

    def _blocks(self, inode_id: int, snapshot: int | None) -> list[pb.BlockProto]:
        """Return the blocks that the deletion of later snapshots leaves to a snapshot (FileDiff.setBlocks)."""
        blocks = self._inodes[inode_id].file.blocks
        if snapshot is None or inode_id not in self._diffs:
            return list(blocks)
        later = [diff for diff in reversed(self._diffs[inode_id].diffs) if diff.snapshotId >= snapshot]
        blocks = next((diff.blocks for diff in later if diff.blocks), blocks)
        if len(later) < 2 or later[0].blocks or inode_id in self._renamed:
            return list(blocks)
        starts = itertools.accumulate((block.numBytes for block in blocks), initial=0)
        return [block for block, start in zip(blocks, starts, strict=False) if start < later[0].fileSize]

    def cost(self, left: set[int]) -> dict[str, int]:
        """Return files and bytes of their blocks without and with replicas, if only these snapshots remained."""
        found = {"files": 0, "length": 0, "raw": 0}
        for inode_id, users in self.files.items():
            if users & left:
                blocks = self.blocks.get(inode_id, {})
                sizes = [size for block, size in blocks.items() if self.users[block] & left]
                found["files"] += 1
                found["length"] += sum(sizes)
                found["raw"] += self._space(inode_id, users & left, sizes)
        return found

    def _space(self, inode_id: int, users: set[int], sizes: list[int]) -> int:
        """Compute the space as INodeFile.storagespaceConsumed does."""
        file = self._inodes[inode_id].file
        if (policy := self._browser.erasure_policies.get(file.erasureCodingPolicyID)) and file.HasField(
            "erasureCodingPolicyID"
        ):
            return sum(int(raw_bytes(np.array([size]), policy)[0]) for size in sizes)
        diffs = list(reversed(self._diffs[inode_id].diffs)) if inode_id in self._diffs else []
        bounds = itertools.pairwise([-1, *(diff.snapshotId for diff in diffs)])
        factors = [
            diff.snapshotCopy.replication
            for diff, (after, until) in zip(diffs, bounds, strict=True)
            if any(after < user <= until for user in users - {CURRENT})
        ]
        if CURRENT in users or not diffs:
            factors.append(file.replication)
        return sum(sizes) * max(factors, default=0)

    def freed(self, deleted: set[int]) -> dict[str, int]:
        """Return the space that deleting the snapshots would free."""
        every = {user for users in self.files.values() for user in users}
        with_all, without = self.cost(every), self.cost(every - deleted)
        return {name: with_all[name] - without[name] for name in with_all}


@pytest.mark.recorded
@pytest.mark.parametrize("path", IMAGES, ids=lambda path: "-".join(path.parts[-4:-2]))
def test_space_kept_by_each_snapshot_equals_that_of_a_walk(path: Path, tmp_path: Path) -> None:
    with ImageFile.open(path) as image:
        host = HostImage.indexed(image, tmp_path)
        walk, views = Walk(image), SnapshotViews(host)
        kept = kept_space(host, views)
        assert kept.by_snapshot(len(views.ids)) == [walk.freed({each}) for each in views.ids]
        assert KeptSpace({need: sums for need, sums in kept.by_views.items() if any(need)}).total() == {
            **walk.freed(set(views.ids)),
            "directories": 0,
        }
        inodes = np.array(sorted(walk.files), np.int64)
        for inode, view in zip(inodes.tolist(), views.inodes(inodes), strict=True):
            assert view == sum(1 << views.ids.index(each) for each in walk.files[inode] - {CURRENT}), inode
        costs = snapshot_costs(host)
        assert len(costs.snapshots) == len(views.ids)
        assert sum(row["snapshots"] for row in costs.directories) == len(views.ids)


# Hadoop 2.7 forgets at a restart which files exist only in snapshots, and then keeps blocks that no snapshot contains
REPLAYED = [
    pytest.param(path, marks=[pytest.mark.deep] if "random" in path.parts[-3] else [])
    for path in IMAGES
    if "random" not in path.parts[-3] or path.parts[-4] != "hadoop-2.7.3"
]
INEXACT = {
    ("random-snapshot-15443", "sju195"): "replay keeps an unreachable inode",
    ("random-snapshot-ec-15056", "sstokanzed116"): "replay cuts a renamed file that an earlier snapshot contains",
}
"""Snapshots of which the report promises another space, with the reason."""


@pytest.mark.recorded
@pytest.mark.parametrize("path", REPLAYED, ids=lambda path: "-".join(path.parts[-4:-2]))
def test_replay_of_a_deletion_frees_what_the_report_promises(path: Path, tmp_path: Path) -> None:
    with ImageFile.open(path) as image:
        txid = image.txid
        costs = snapshot_costs(HostImage.indexed(image, tmp_path / "scratch"))
    files, blocks = _stored(path)
    for number, row in enumerate(costs.snapshots):
        if row["path"] is None:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        deletion = DeleteSnapshotOp(txid=txid + 1, snapshot_root=row["path"], snapshot_name=row["name"])
        left_files, left_blocks = _stored(merge(path, [deletion], [folder]).saved.paths[0])
        freed = sum(size for block, size in blocks.items() if block not in left_blocks)
        is_exact = (row["files"], row["length"]) == (files - left_files, freed)
        assert is_exact == ((path.parts[-3], row["name"]) not in INEXACT), row


def _stored(path: Path) -> tuple[int, dict[int, int]]:
    """Return the number of files of an image, and the sizes of all their blocks by id."""
    files, blocks = 0, dict[int, int]()
    with ImageFile.open(path) as image:
        records = ImageRecords(image)
        for inode in records.inodes():
            files += inode.HasField("file")
            blocks |= {block.blockId: block.numBytes for block in inode.file.blocks}
        for of_file in records.snapshot_diffs():
            if isinstance(of_file, FileDiffRecords):
                blocks |= {block.blockId: block.numBytes for diff in of_file.diffs for block in diff.blocks}
    return files, {block: size if size <= UNKNOWN else 0 for block, size in blocks.items()}


def test_a_report_mentions_snapshots_with_a_missing_inode(tmp_path: Path) -> None:
    (case,) = (case for case in ALL_CASES if case.id.endswith("2.7.3/random-mixed-551376"))
    image = case.image("after")
    with mock.patch("pipeline.sources.fsimage.host_scratch", return_value=tmp_path):
        found = SnapshotsTask("snapshots", 0, SourceFile(str(image))).run()
    data = ReportData(ReportOptions(AS_OF), counted([directory(ROOT, None, "/")]), snapshots=found)
    (note,) = make_section("snapshots", data).notes
    assert f"{image}, section INODE_REFERENCE, offset 10830: a record of inode 16451" in note


def test_kept_space_by_snapshot() -> None:
    kept = KeptSpace()
    kept.add((0b001,), 1, 10, 30)
    kept.add((0b001,), 0, 5, 15)
    kept.add((0b010,), 1, 1, 3)
    kept.add((0b011,), 1, 100, 300)
    kept.add((0b110,), 1, 1000, (1 << 63) - 1)
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


def test_replicas_are_attributed_to_snapshots_by_replication_factor() -> None:
    factors = [(0b001, 2), (0b010, 5), (0b100, None)]
    assert replica_views(factors, 3, is_current=True) == [(2, ALWAYS), (1, ALWAYS), (2, 0b010)]
    assert replica_views(factors, 3, is_current=False) == [(2, 0b111), (1, 0b110), (2, 0b010)]
    assert replica_views([(0, 9), (0b011, 2)], 3, is_current=False) == [(2, 0b011)]
    assert needed(ALWAYS, 0b010) == needed(0b010, 0b110) == (0b010,)
    assert needed(0b001, 0b010) == (0b001, 0b010)

    kept = KeptSpace()
    kept.add(needed(0b001, 0b010), 0, 0, 7)
    assert [row["raw"] for row in kept.by_snapshot(3)] == [7, 7, 0]
    assert [row["raw"] for row in kept.by_root([1, 2, 3]).values()] == [7, 7, 0]
    assert kept.total()["raw"] == 7


DIRECTORIES, FILES = 300, 2


def test_the_diffs_of_a_directory_are_read_once(tmp_path: Path) -> None:
    mode = 0o755
    directories = range(16386, 16386 + DIRECTORIES)
    files = range(directories.stop, directories.stop + DIRECTORIES * FILES)
    inodes = [pb.INode(type=pb.INode.DIRECTORY, id=16385, name=b"", directory=pb.INodeDirectory(permission=mode))]
    for each in directories:
        below = pb.INodeDirectory(permission=mode)
        inodes.append(pb.INode(type=pb.INode.DIRECTORY, id=each, name=b"d%d" % each, directory=below))
    for each in files:
        # the first block has an unknown size
        sizes = [(1 << 63) - 1, 10] if each % FILES else []
        blocks = [pb.BlockProto(blockId=each, genStamp=1, numBytes=size) for size in sizes]
        file = pb.INodeFile(replication=3, permission=mode, blocks=blocks)
        inodes.append(pb.INode(type=pb.INode.FILE, id=each, name=b"f%d" % each, file=file))
    diffs = []
    for number, each in enumerate(directories):
        gone = files[number::DIRECTORIES]
        diffs += [
            pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=each, numOfDiff=1),
            pb.DirectoryDiff(snapshotId=0, createdListSize=0, deletedINode=gone),
        ]
    sections = {
        **dict(minimal_sections()),
        "INODE": delimited([pb.INodeSection(lastInodeId=files.stop, numInodes=len(inodes)), *inodes]),
        "INODE_DIR": delimited([pb.DirEntry(parent=16385, children=directories)]),
        "SNAPSHOT": delimited(
            [
                pb.SnapshotSection(snapshotCounter=1, snapshottableDir=[16385], numSnapshots=1),
                pb.Snapshot(root=inodes[0]),
            ]
        ),
        "SNAPSHOT_DIFF": delimited(diffs),
    }
    with ImageFile.open(store(tmp_path, build_image(list(sections.items())))) as image:
        host = HostImage.indexed(image, tmp_path / "scratch")
        views = SnapshotViews(host)
        with mock.patch.object(SnapshotViews, "_diffs", autospec=True, side_effect=SnapshotViews._diffs) as read:
            kept = kept_space(host, views)
    assert len({call.args[1] for call in read.call_args_list}) == read.call_count <= DIRECTORIES + 1
    files_with_blocks = len(files) // FILES
    assert kept.by_views == {(1,): [len(files), 10 * files_with_blocks, 30 * files_with_blocks]}
