"""A dry run of a merge, which replays the edits, builds and measures the image, but writes no file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpointer.merging.offline import MergePlan
from engine.image_steps import image_warnings
from engine.namespace import Namespace
from engine.observer import Observer
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from hadoop_common.disk_space import DiskSpace, disk_space
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from image_format.md5_file import format_md5
from journal.segment_file import SegmentTransactions


@dataclass(frozen=True, slots=True)
class InodeChanges:
    """The differences between the inodes of the new and the old image.

    Attributes:
        total: inodes of the new image.
        created: inodes that only the new image contains.
        changed: inodes that both images contain, with rewritten records.
        deleted: inodes that only the old image contains.
    """

    total: int
    created: int
    changed: int
    deleted: int


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result of a dry run.

    Attributes:
        base_txid, txid: newest transaction of the old and of the new image.
        transactions: number of replayed transactions.
        size: size of the new image in bytes.
        layout_version: layout version of the new image.
        room: space in the folder of the new image.
        warnings: warnings about the new image.
        healed: a sentence for each inconsistency that the merge would heal.
        ignored: number of operations that change nothing.
    """

    base_txid: int
    txid: int
    transactions: int
    inodes: InodeChanges
    size: int
    layout_version: int
    room: DiskSpace
    warnings: tuple[str, ...] = ()
    healed: tuple[str, ...] = ()
    ignored: int = 0

    def check_room(self) -> None:
        """Raise the merge's StorageError if there is not enough space for the image."""
        room = self.room
        if not room.enough:
            raise StorageError(
                f"no space for {image_name(self.txid)}: {room.folder} needs {room.needed:,} bytes, but only "
                f"{room.free:,} are free",
                hint="Free space on the disk; nothing was written.",
            )


def dry_run(plan: MergePlan, settings: MergeSettings = MergeSettings(), *, observer: Observer | None = None) -> DryRun:
    """Execute a plan without writing the image. Except for the write, this takes as long as `merge_directory`.

    Raises:
        HdfsError: the merge would fail.
    """
    expected = plan.last_txid - plan.image_txid
    with WarmNamespace(settings) as namespace:
        namespace.load(plan.image, observer)
        namespace.apply(SegmentTransactions(plan.segments, plan.image_txid + 1), expected=expected, observer=observer)
        size = namespace.measure(observer)
        return DryRun(
            base_txid=namespace.base_txid,
            txid=namespace.last_txid,
            transactions=namespace.last_txid - namespace.base_txid,
            inodes=_changes(namespace.namespace),
            size=size,
            layout_version=namespace.layout_version,
            room=_room(plan.folder, namespace.last_txid, size),
            warnings=tuple(image_warnings(namespace.namespace)),
            healed=tuple(map(str, namespace.namespace.healing_log)),
            ignored=namespace.namespace.ignored,
        )


def expected_room(plan: MergePlan) -> DiskSpace:
    """Estimate the space for the new image as the total size of the old image and the edits.

    Raises:
        OSError, StorageError: a file or the folder cannot be read.
    """
    size = plan.image.stat().st_size + sum(segment.path.stat().st_size for segment in plan.segments)
    return _room(plan.folder, plan.last_txid, size)


def _changes(namespace: Namespace) -> InodeChanges:
    tree = namespace.tree
    deleted = int(np.count_nonzero(tree.dropped))
    return InodeChanges(
        total=tree.inode_count,
        created=tree.inode_count - namespace.base.slot_count + deleted,
        changed=namespace.table.dirty_rows().old.size,
        deleted=deleted,
    )


def _room(folder: Path, txid: int, size: int) -> DiskSpace:
    """Return the space for an image of `size` bytes and its digest file; raise StorageError for an unreadable
    folder.
    """
    return disk_space(folder, size + len(format_md5(bytes(16), image_name(txid))))
