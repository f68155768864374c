"""Counts the data that each snapshot of an image retains, in one task because a file may be visible in any snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from image_format.erasure_policies import policies_of, raw_bytes
from image_format.errors import InconsistentSnapshotsError
from image_format.inode_columns import InodeColumns, read_inode_columns
from image_format.kernels.inode import DIRECTORY, FILE
from image_tools.dump.records import ImageRecords
from pipeline.host_image import HostImage
from pipeline.reports.counts.classes import known_size
from pipeline.reports.counts.grouping import Numbers, add_up, numbers
from pipeline.reports.counts.snapshots import ALWAYS, KeptSpace, SnapshotCosts, View, needed, replica_views
from pipeline.reports.rows import records
from pipeline.reports.snapshot_views import RecordedBlocks, SnapshotViews
from pipeline.source_files import SourceFile
from pipeline.sources.fsimage import open_in_task
from pipeline.sources.image_tables import sections
from pipeline.sources.table_reader import TablePart
from pipeline.tables.snapshots import SNAPSHOTS

_SLOTS = 1 << 16
_BLOCK_COLUMNS = ("inode_id", "bytes", "raw_bytes")
_LISTED = ("snapshot_id", "name", "root_id", "root_path", "creation_time")


@dataclass(frozen=True, slots=True)
class SnapshotsTask:
    """Task that counts the cost of all snapshots of an image in the memory of its Python process.

    If the snapshots contradict the inodes, `run` returns an error message.
    """

    name: str
    size: int
    file: SourceFile

    def run(self) -> SnapshotCosts | str:
        try:
            return snapshot_costs(open_in_task(self.file))
        except InconsistentSnapshotsError as error:
            return str(error)


def snapshot_costs(host: HostImage) -> SnapshotCosts:
    """Return the cost of the snapshots of an image.

    Raises:
        InconsistentSnapshotsError: the snapshots contradict the inodes.
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
    """Return the data that only snapshots keep: files outside of the current tree, and older blocks and further
    replicas of all files.
    """
    kept = KeptSpace()
    parts = [np.empty((3, 0), np.int64)]
    for start in range(0, host.count, _SLOTS):
        slots = range(start, min(start + _SLOTS, host.count))
        outside = np.flatnonzero(~host.in_tree(slots)) + start
        if outside.size:
            read = _columns(host, outside)
            kept.directories += int((read.kind == DIRECTORY).sum())
            parts.append(_block_sums(host, outside, np.sort(read.id[read.kind == FILE])))
    files = np.concatenate(parts, axis=1)
    _add_files(host, views, kept, *files[:, ~np.isin(files[0], views.files)])
    _add_special_files(host, views, kept)
    return kept


def _columns(host: HostImage, slots: Numbers) -> InodeColumns:
    return read_inode_columns(host.index.inode_buffer, host.arrays.offsets.at(slots), host.image.place("INODE"))


def _block_sums(host: HostImage, outside: Numbers, ids: Numbers) -> Numbers:
    """Return `ids`, and for each id the bytes of the blocks without and with replicas; blocks of unknown size count as
    0.

    Args:
        outside: slots of inodes that exist only in snapshots.
        ids: ids of the files among these inodes, ascending.
    """
    sums = np.zeros((2, ids.size), np.int64)
    for batch in sections.blocks_of(host, range(int(outside[0]), int(outside[-1]) + 1), _BLOCK_COLUMNS):
        inodes, length, raw = (numbers(batch[name]) for name in _BLOCK_COLUMNS)
        rows = np.isin(inodes, ids)
        groups = np.searchsorted(ids, inodes[rows])
        sums += [add_up(each[rows], groups, ids.size) for each in (known_size(length), raw)]
    return np.stack([ids, *sums])


def _add_files(
    host: HostImage, views: SnapshotViews, kept: KeptSpace, inodes: Numbers, length: Numbers, raw: Numbers
) -> None:
    """Add files whose blocks and replicas are the same in all snapshots."""
    parents = host.parent_rows[host.index.slots_of(inodes)].astype(np.int64)
    above = np.where(parents >= 0, host.directories.ids[np.maximum(parents, 0)], -1)
    plain = (parents >= 0) & views.is_plain(inodes, above)
    directories, groups = np.unique(above[plain], return_inverse=True)
    sums = [add_up(each[plain], groups, directories.size) for each in (np.ones_like(length), length, raw)]
    for view, *values in zip(views.directories(directories), *(each.tolist() for each in sums), strict=True):
        kept.add((view,), *values)
    others = views.inodes(inodes[~plain])
    for view, size, space in zip(others, length[~plain].tolist(), raw[~plain].tolist(), strict=True):
        kept.add((view,), 1, size, space)


def _add_special_files(host: HostImage, views: SnapshotViews, kept: KeptSpace) -> None:
    """Add files whose blocks or replication factor differ in a snapshot."""
    slots = host.index.slots_of(views.files)
    files, slots = views.files[slots >= 0], slots[slots >= 0]
    read, policies = _columns(host, slots), policies_of(ImageRecords(host.image).erasure_coding())
    in_tree = host.in_tree(slots)
    for at, view in enumerate(views.inodes(files)):
        slot, is_current = int(slots[at]), bool(in_tree[at])
        if not is_current:
            kept.add((view,), 1, 0, 0)
        diffs = views.diffs_of_file(int(files[at]), view)
        policy = policies.get(int(read.ec_policy[at]))
        factors = replica_views(diffs.replication, int(read.replication[at]), is_current=is_current)
        for users, sizes in _block_users(host, slot, diffs, is_current=is_current).items():
            length = int(sizes.sum())
            spaces: list[tuple[tuple[View, ...], int, int]] = [((users,), length, 0)]
            if policy is None:
                spaces += [(needed(users, holders), 0, replicas * length) for replicas, holders in factors]
            else:
                spaces += [((users,), 0, int(raw_bytes(sizes, policy).sum()))]
            for needs, size, space in spaces:
                if needs != (ALWAYS,):
                    kept.add(needs, 0, size, space)


def _block_users(host: HostImage, slot: int, diffs: RecordedBlocks, *, is_current: bool) -> dict[View, Numbers]:
    """Return the sizes of a file's blocks by the snapshots that contain them; the key of current blocks is `ALWAYS`."""
    current: dict[int, int] = {}
    for batch in sections.blocks_of(host, range(slot, slot + 1), ("block_id", "bytes")):
        current |= zip(batch["block_id"].to_pylist(), batch["bytes"].to_pylist(), strict=True)
    sizes = dict(current)
    users: dict[int, View] = dict.fromkeys(current, ALWAYS) if is_current else {}
    for view, blocks, length in diffs.blocks:
        start = 0
        for block, size in (current if blocks is None else blocks).items():
            if length is not None and start >= length:
                break
            start += size
            sizes[block] = size
            users[block] = users.get(block, 0) | view
    found: dict[View, list[int]] = {}
    for block, view in users.items():
        if view:
            found.setdefault(view, []).append(sizes[block])
    return {view: known_size(np.array(each, np.int64)) for view, each in found.items()}
