"""Counts what each snapshot of an image keeps alive, in one task: a file may be visible in any snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from image_format.inode_columns import read_inode_columns
from image_format.kernels.inode import DIRECTORY
from image_format.policies import policies_of
from image_tools.dump.records import ImageRecords
from image_tools.namespace_browser import space_consumed
from pipeline.host_image import HostImage
from pipeline.reports.counts.classes import known_size
from pipeline.reports.counts.grouping import Numbers, add_up, grouped, numbers
from pipeline.reports.counts.snapshots import BLOCK_COLUMNS, KEPT, KeptSpace, SnapshotCosts, held_files
from pipeline.reports.rows import records
from pipeline.reports.snapshot_views import SnapshotViews
from pipeline.source_files import SourceFile
from pipeline.sources.fsimage import open_in_task
from pipeline.sources.image_tables import sections
from pipeline.sources.table_reader import TablePart
from pipeline.tables.snapshots import SNAPSHOTS

_SLOTS = 1 << 16
_LISTED = ("snapshot_id", "name", "root_id", "root_path", "creation_time")


@dataclass(frozen=True, slots=True)
class SnapshotsTask:
    """Counts the cost of all snapshots of an image with the memory of its Python process."""

    name: str
    size: int
    file: SourceFile

    def run(self) -> SnapshotCosts:
        return snapshot_costs(open_in_task(self.file))


def snapshot_costs(host: HostImage) -> SnapshotCosts:
    """Return the cost of the snapshots of an image.

    Raises:
        RecordError: a record is damaged.
    """
    views = SnapshotViews(host)
    kept = kept_space(host, views)
    listed = pa.Table.from_pylist(
        list(sections.snapshots(host, TablePart(0, 1))), SNAPSHOTS.select(_LISTED).arrow_schema()
    )
    rows = sorted(records(listed), key=lambda row: row["snapshot_id"])
    alone = [
        {"path": row["root_path"], "name": row["name"], "time": row["creation_time"], **sums}
        for row, sums in zip(rows, kept.by_snapshot(len(rows)), strict=True)
    ]
    return SnapshotCosts(kept.total(), alone, list(_by_directory(rows, views, kept)))


def _by_directory(rows: list[dict[str, Any]], views: SnapshotViews, kept: KeptSpace) -> Iterator[dict[str, Any]]:
    for root, sums in kept.by_root(views.roots).items():
        own = [row for row in rows if row["root_id"] == root]
        times = [row["creation_time"] for row in own if row["creation_time"] is not None]
        yield {
            "path": own[0]["root_path"],
            "snapshots": len(own),
            "oldest": min(times, default=None),
            "newest": max(times, default=None),
            "changed": views.changed[root],
            "deleted_trees": views.deleted[root],
            **sums,
        }


def kept_space(host: HostImage, views: SnapshotViews) -> KeptSpace:
    """Return what only snapshots keep: files outside of the current tree, and older blocks of any file."""
    kept = KeptSpace()
    special = np.array(sorted(views.files), np.int64)
    for start in range(0, host.count, _SLOTS):
        slots = range(start, min(start + _SLOTS, host.count))
        outside = np.flatnonzero(~host.in_tree(slots)) + start
        if outside.size:
            read = read_inode_columns(
                host.index.inode_buffer, host.arrays.offsets.at(outside), host.image.place("INODE")
            )
            kept.directories += int((read.kind == DIRECTORY).sum())
            _add_files(host, views, kept, outside, np.setdiff1d(read.id, special))
    for inode_id in views.files:
        _add_blocks(host, views, kept, inode_id)
    return kept


def _add_files(host: HostImage, views: SnapshotViews, kept: KeptSpace, outside: Numbers, ids: Numbers) -> None:
    """Add files whose blocks are the same in all snapshots.

    Args:
        outside: slots of inodes that are only in snapshots, of which `ids` are counted.
    """
    blocks = sections.blocks_of(host, range(int(outside[0]), int(outside[-1]) + 1), BLOCK_COLUMNS)
    parts = [held_files(batch, ids) for batch in blocks]
    if not parts:
        return
    found = grouped(pa.concat_tables(parts), ("inode_id",), KEPT[1:])
    inodes, length, raw = (numbers(found[name]) for name in ("inode_id", *KEPT[1:]))
    parents = host.parent_rows[host.index.slots_of(inodes)].astype(np.int64)
    above = np.where(parents >= 0, host.directories.ids[np.maximum(parents, 0)], -1)
    plain = (parents >= 0) & views.is_plain(inodes, above)
    directories, groups = np.unique(above[plain], return_inverse=True)
    sums = [add_up(each[plain], groups, directories.size) for each in (np.ones_like(length), length, raw)]
    for at, directory in enumerate(directories.tolist()):
        kept.add(views.directory(directory), *(int(each[at]) for each in sums))
    for at in np.flatnonzero(~plain).tolist():
        kept.add(views.file(int(inodes[at])), 1, int(length[at]), int(raw[at]))


def _add_blocks(host: HostImage, views: SnapshotViews, kept: KeptSpace, inode_id: int) -> None:
    """Add the blocks of a file that had other blocks at a snapshot."""
    slot = host.slot(inode_id)
    if slot < 0:
        return
    is_current = bool(host.in_tree(range(slot, slot + 1))[0])
    sizes: dict[int, int] = {}
    users: dict[int, int] = {}
    current: dict[int, int] = {}
    for batch in sections.blocks_of(host, range(slot, slot + 1), ("block_id", "bytes")):
        current |= zip(batch["block_id"].to_pylist(), batch["bytes"].to_pylist(), strict=True)
    everywhere = 0
    for view, blocks in views.block_lists(inode_id):
        everywhere |= view
        for block, size in (current if blocks is None else blocks).items():
            sizes[block] = size
            users[block] = users.get(block, 0) | view
    if not is_current:
        kept.add(everywhere, 1, 0, 0)
    alone = [block for block, view in users.items() if view and not (is_current and block in current)]
    length = known_size(np.array([sizes[block] for block in alone], np.int64))
    for block, size, raw in zip(alone, length.tolist(), _raw(host, slot, length).tolist(), strict=True):
        kept.add(users[block], 0, size, raw)


def _raw(host: HostImage, slot: int, length: Numbers) -> Numbers:
    """Return the space of blocks of the file in a slot with its present replication or erasure coding."""
    read = read_inode_columns(
        host.index.inode_buffer, host.arrays.offsets.at(np.array([slot])), host.image.place("INODE")
    )
    policies = policies_of(ImageRecords(host.image).erasure_coding())
    replication, coding = (np.full_like(length, int(each[0])) for each in (read.replication, read.ec_policy))
    return space_consumed(policies, length, replication, coding)
