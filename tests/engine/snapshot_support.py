"""A small tree for tests of snapshots, operations on it, and queries on the image afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.healing import HealingMode
from engine.settings import ReplayRules
from image_format.proto import fsimage_pb2 as pb
from journal import ops
from journal.ops import EditOp
from tests.engine.image_builder import LAYOUTS, ImageBuilder, Saved, merge_bytes, store
from tests.engine.snapshot_reader import CURRENT, Diff, Holder, SnapshotReader

NEW = 20000
HEAL, STRICT = ReplayRules(healing=HealingMode.HEAL), ReplayRules(healing=HealingMode.STRICT)
BLOCKS = [(1, 128, 1001), (2, 50, 1001)]
WHOLE = 178
"""Bytes in `BLOCKS`."""

__all__ = ["BLOCKS", "CURRENT", "NEW", "WHOLE", "Outcome", "Setting", "allow", "create", "remove", "retitle"]


def allow(path: str = "/s") -> EditOp:
    return ops.AllowSnapshotOp(snapshot_root=path)


def create(name: str, path: str = "/s", mtime: int = 2000) -> EditOp:
    return ops.CreateSnapshotOp(snapshot_root=path, snapshot_name=name, mtime=mtime)


def remove(name: str, path: str = "/s", mtime: int = 2000) -> EditOp:
    return ops.DeleteSnapshotOp(snapshot_root=path, snapshot_name=name, mtime=mtime)


def retitle(old: str, new: str, path: str = "/s", mtime: int = 2000) -> EditOp:
    return ops.RenameSnapshotOp(snapshot_root=path, snapshot_old_name=old, snapshot_new_name=new, mtime=mtime)


class Outcome:
    """An image with snapshots; tests name its inodes by their paths in the image of `Setting`.

    Without `whole`, the image may refer to removed inodes, as images of Hadoop may.
    """

    def __init__(self, image: bytes, ids: dict[str, int], *, whole: bool = True) -> None:
        self.bytes = image
        self.image = Saved(image)
        self.reader = SnapshotReader(self.image)
        self.ids = ids
        if whole:
            self.reader.check()

    def again(self, folder: Path, *given: EditOp, rules: ReplayRules = STRICT) -> Outcome:
        """Return the image after one more merge."""
        source = store(folder, self.bytes, self.image.info.transactionId)
        return Outcome(merge_bytes(source, given, rules=rules), self.ids)

    def id(self, path: str) -> int:
        """Return the id of an inode by its current path, or by its path before the edits."""
        return self.present().get(path) or self.ids[path]

    def present(self) -> dict[str, int]:
        return {path: seen.inode_id for path, seen in self.reader.tree().items()}

    def at(self, snapshot: str, root: str = "/s") -> dict[str, int]:
        """Return inode ids by path below a directory as it was at a snapshot."""
        found = self.reader.snapshots[self.id(root), snapshot]
        return {path: seen.inode_id for path, seen in self.reader.tree(self.id(root), found.snapshotId).items()}

    def root(self, snapshot: str, root: str = "/s") -> pb.INode:
        return self.reader.snapshots[self.id(root), snapshot].root

    def diffs(self, path: str) -> list[Diff]:
        """Return the diffs of an inode, oldest first."""
        return self.reader.diffs.get(self.id(path), [])

    def diff_ids(self, path: str) -> list[int]:
        return [diff.id for diff in self.diffs(path)]

    def directory_diff(self, path: str, snapshot_id: int) -> pb.DirectoryDiff:
        (found,) = [diff.message for diff in self.diffs(path) if diff.id == snapshot_id]
        assert isinstance(found, pb.DirectoryDiff)
        return found

    def file_diff(self, path: str, snapshot_id: int) -> pb.FileDiff:
        (found,) = [diff.message for diff in self.diffs(path) if diff.id == snapshot_id]
        assert isinstance(found, pb.FileDiff)
        return found

    def created(self, path: str, snapshot_id: int) -> list[str]:
        (found,) = [diff.created for diff in self.diffs(path) if diff.id == snapshot_id]
        return [name.decode() for name in found]

    def deleted(self, path: str, snapshot_id: int) -> dict[str, Holder]:
        (found,) = [diff for diff in self.diffs(path) if diff.id == snapshot_id]
        return {name.decode(): holder for name, holder in self.reader.deleted(found).items()}

    def references(self) -> list[tuple[int, str, int]]:
        """Return (inode id, name or "", snapshot id) of each record, in any order."""
        found = self.reader.references
        return sorted(
            (
                each.referredId,
                each.name.decode(),
                each.dstSnapshotId if each.HasField("dstSnapshotId") else each.lastSnapshotId,
            )
            for each in found
        )


class Setting:
    """An image with /s/d/f, /s/d/e/g, /s/f (two blocks each) and /z, on which operations are replayed.

    Args:
        folder: folder for the files.
        layout: layout of the image.
        rules: replay rules of the cluster; by default, an inconsistency that would be healed is an error.
    """

    def __init__(self, folder: Path, layout: int, rules: ReplayRules = STRICT) -> None:
        self.builder = ImageBuilder(layout)
        self.folder, self.rules = folder, rules
        for path in ("/s", "/s/d", "/s/d/e", "/z"):
            self.builder.directory(path)
        for path in ("/s/d/f", "/s/d/e/g", "/s/f"):
            self.builder.file(path, blocks=BLOCKS)
        self.hadoop3 = self.builder.erasure_coding

    @property
    def ids(self) -> dict[str, int]:
        return {path: inode.id for path, inode in self.builder.inodes.items()}

    def merged(self, *given: EditOp, whole: bool = True) -> Outcome:
        """Return the image of a single merge."""
        return Outcome(merge_bytes(self.builder.save(self.folder), given, rules=self.rules), self.ids, whole=whole)


layouts = pytest.mark.parametrize("layout", LAYOUTS)


def disallow(path: str = "/s") -> EditOp:
    return ops.DisallowSnapshotOp(snapshot_root=path)
