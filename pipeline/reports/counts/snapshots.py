"""Space that only snapshots keep, by the set of these snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pipeline.reports.counts.grouping import MAX_LONG

KEPT = ("files", "length", "raw")
"""Files, and the bytes of blocks without and with replicas."""

View: TypeAlias = int
"""A set of snapshots; bit `i` is the snapshot at position `i`."""

ALWAYS: View = -1
"""All snapshots and the current tree."""


def needed(users: View, holders: View) -> tuple[View, ...]:
    """Return the views that keep replicas of a block while a snapshot of each view exists.

    Args:
        users: snapshots with the block.
        holders: snapshots with the replication factor.
    """
    if users & holders == users:
        return (users,)
    return (holders,) if users & holders == holders else (users, holders)


def replica_views(factors: Iterable[tuple[View, int | None]], own: int, *, is_current: bool) -> list[tuple[int, View]]:
    """Return pairs for a file, from the lowest factor to the highest: a number of replicas, and the snapshots that need
    these replicas.

    A NameNode keeps the highest factor in the diffs, and at least the factor of a current file
    (INodeFile.getPreferredBlockReplication).

    Args:
        factors: (view, factor of the file in these snapshots; None if the factor is `own`).
    """
    known = [(view, own if factor is None else factor) for view, factor in factors if view]
    known += [(ALWAYS, own)] if is_current else []
    found, lower = [], 0
    for level in sorted({factor for _, factor in known}):
        holders = 0
        for view, factor in known:
            holders |= view if factor >= level else 0
        found.append((level - lower, holders))
        lower = level
    return found


@dataclass(slots=True)
class KeptSpace:
    """Space that only snapshots keep.

    Attributes:
        by_views: `KEPT` by tuples of views. The space is kept while a snapshot of each view in the tuple exists: a
            replica beyond the current factor needs a snapshot with the block and a snapshot with the factor.
        directories: number of directories that exist only in snapshots.
    """

    by_views: dict[tuple[View, ...], list[int]] = field(default_factory=dict)
    directories: int = 0

    def add(self, views: tuple[View, ...], files: int, length: int, raw: int) -> None:
        """Add files, or blocks of files, that need a snapshot of each view."""
        kept = self.by_views.setdefault(views, [0] * len(KEPT))
        for at, value in enumerate((files, length, raw)):
            kept[at] = min(kept[at] + value, MAX_LONG)

    def total(self) -> dict[str, int]:
        """Return `KEPT` and directories of all snapshots together."""
        return {**_sum(self.by_views.values()), "directories": self.directories}

    def by_snapshot(self, count: int) -> list[dict[str, int]]:
        """Return, for each snapshot, the `KEPT` that the deletion of this snapshot alone frees."""
        found: list[list[list[int]]] = [[] for _ in range(count)]
        for views, kept in self.by_views.items():
            for view in views:
                if view.bit_count() == 1:
                    found[view.bit_length() - 1].append(kept)
        return [_sum(each) for each in found]

    def by_root(self, roots: Sequence[int]) -> dict[int, dict[str, int]]:
        """Return `KEPT` by snapshottable directory; data kept by snapshots of several directories counts for each of
        them.

        Args:
            roots: snapshottable directory of each snapshot.
        """
        of_root = {root: sum(1 << at for at, each in enumerate(roots) if each == root) for root in roots}
        return {
            root: _sum(kept for views, kept in self.by_views.items() if any(view & own for view in views))
            for root, own in of_root.items()
        }


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
        directories: a row per snapshottable directory: path, snapshots, oldest, newest, changed, deleted_trees, `KEPT`.
    """

    total: Mapping[str, int]
    snapshots: Sequence[Mapping[str, Any]]
    directories: Sequence[Mapping[str, Any]]
