"""Space that only snapshots keep, by the set of snapshots that keep it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.reports.counts.classes import known_size
from pipeline.reports.counts.grouping import MAX_LONG, Numbers, grouped, numbers

BLOCK_COLUMNS = ("inode_id", "bytes", "raw_bytes")
KEPT = ("files", "length", "raw")
"""Files, and the bytes of blocks without and with replicas."""


def held_files(blocks: pa.RecordBatch, outside: Numbers) -> pa.Table:
    """Return the files of a batch of `blocks` that are only in snapshots: inode_id, length, raw.

    Blocks of unknown size count as 0 bytes.

    Args:
        blocks: `BLOCK_COLUMNS`.
        outside: ids of the inodes that are not in the current tree.
    """
    held = np.isin(numbers(blocks["inode_id"]), outside)
    rows = pa.table(
        {
            "inode_id": blocks["inode_id"],
            "length": known_size(numbers(blocks["bytes"])),
            "raw": numbers(blocks["raw_bytes"]),
        }
    )
    return grouped(rows.filter(pa.array(held)), ("inode_id",), KEPT[1:])


@dataclass(slots=True)
class KeptSpace:
    """What only snapshots keep.

    Attributes:
        by_view: `KEPT` by view, the set of snapshots that keep it; bit `i` is the snapshot at position `i`.
        directories: number of directories only in snapshots.
    """

    by_view: dict[int, list[int]] = field(default_factory=dict)
    directories: int = 0

    def add(self, view: int, files: int, length: int, raw: int) -> None:
        """Add files, or blocks of files, that exactly the snapshots of a view keep."""
        kept = self.by_view.setdefault(view, [0] * len(KEPT))
        for at, value in enumerate((files, length, raw)):
            kept[at] = min(kept[at] + value, MAX_LONG)

    def total(self) -> dict[str, int]:
        """Return `KEPT` and directories of all snapshots together."""
        return {**_sum(self.by_view.values()), "directories": self.directories}

    def by_snapshot(self, count: int) -> list[dict[str, int]]:
        """Return `KEPT` that each snapshot alone keeps, so that its deletion frees it."""
        return [_sum([self.by_view.get(1 << at, [0] * len(KEPT))]) for at in range(count)]

    def by_root(self, roots: Sequence[int]) -> dict[int, dict[str, int]]:
        """Return `KEPT` by snapshottable directory; what snapshots of several directories keep counts for each.

        Args:
            roots: snapshottable directory of each snapshot.
        """
        views = {root: sum(1 << at for at, each in enumerate(roots) if each == root) for root in roots}
        return {root: _sum(kept for view, kept in self.by_view.items() if view & own) for root, own in views.items()}


def _sum(found: Iterable[Sequence[int]]) -> dict[str, int]:
    sums = [0] * len(KEPT)
    for values in found:
        sums = [min(MAX_LONG, total + value) for total, value in zip(sums, values, strict=True)]
    return dict(zip(KEPT, sums, strict=True))


@dataclass(frozen=True, slots=True)
class SnapshotCosts:
    """The cost of the snapshots of an image.

    Attributes:
        total: see `KeptSpace.total`.
        snapshots: path, name, time, and `KEPT` that only this snapshot keeps.
        directories: by snapshottable directory: path, snapshots, oldest, newest, changed, deleted_trees, `KEPT`.
    """

    total: Mapping[str, int]
    snapshots: Sequence[Mapping[str, Any]]
    directories: Sequence[Mapping[str, Any]]
