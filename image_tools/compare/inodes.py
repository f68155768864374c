"""Comparison of the inodes of two images; records are decoded only if their bytes or strings differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from image_format.kernels.compare import same_records
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind
from image_tools.compare.difference import ChangeKind, Difference, ItemKind, changed_attributes
from image_tools.compare.record_attributes import inode_meaning
from image_tools.compare.side import ComparedImage

_STEP = 1 << 16
_Ids = npt.NDArray[np.int64]


def strings_agree(a: ComparedImage, b: ComparedImage) -> bool:
    """Return whether equal serials mean equal names in both images: for each kind, one table contains the other."""
    return all(
        a.strings[kind].items() <= b.strings[kind].items() or b.strings[kind].items() <= a.strings[kind].items()
        for kind in a.strings
    )


def compare_inodes(
    a: ComparedImage, b: ComparedImage, progress: Callable[[int], None] | None = None
) -> Iterator[Difference]:
    """Yield added, removed, renamed and changed inodes by id; `subject` is empty.

    A renamed inode has another parent or name; its descendants are unchanged. An inode that moved from the tree into a
    snapshot counts as removed.

    Raises:
        RecordError: a record is damaged.
    """
    gone = np.setdiff1d(a.tree.ids, b.tree.ids, assume_unique=True)
    new = np.setdiff1d(b.tree.ids, a.tree.ids, assume_unique=True)
    for inode_id in gone.tolist():
        yield Difference(ItemKind.INODE, ChangeKind.REMOVED, "", old=_type(a, inode_id), inode_id=inode_id)
    for inode_id in new.tolist():
        yield Difference(ItemKind.INODE, ChangeKind.ADDED, "", new=_type(b, inode_id), inode_id=inode_id)
    _, in_a, in_b = np.intersect1d(a.tree.ids, b.tree.ids, assume_unique=True, return_indices=True)
    same = _RecordMatcher(a, b)
    for start in range(0, in_a.size, _STEP):
        ours, theirs = in_a[start : start + _STEP], in_b[start : start + _STEP]
        alike = same(ours, theirs)
        moved = a.tree.parents[ours] != b.tree.parents[theirs]
        for k in np.flatnonzero(~alike | moved).tolist():
            yield from _compare(a, b, int(ours[k]), int(theirs[k]), alike=bool(alike[k]))
        if progress is not None:
            progress(start + ours.size)


def compare_stray_entries(a: ComparedImage, b: ComparedImage) -> Iterator[Difference]:
    """Yield the differences between ineffective entries, whose inode is missing or belongs to another directory."""
    ours = {(int(parent), int(child)) for parent, child in a.tree.strays}
    theirs = {(int(parent), int(child)) for parent, child in b.tree.strays}
    for kind, entries in ((ChangeKind.REMOVED, ours - theirs), (ChangeKind.ADDED, theirs - ours)):
        for parent, child in sorted(entries):
            yield Difference(ItemKind.DIRECTORY_ENTRY, kind, "", inode_id=parent, detail=f"child {child}")


def _type(side: ComparedImage, inode_id: int) -> str:
    return pb.INode.Type.Name(side.tree.inode(side.tree.position(inode_id)).type)


def _compare(a: ComparedImage, b: ComparedImage, ours: int, theirs: int, *, alike: bool) -> Iterator[Difference]:
    inode_id = int(a.tree.ids[ours])
    old_parent, new_parent = int(a.tree.parents[ours]), int(b.tree.parents[theirs])
    old: dict[str, Any] = {}
    new: dict[str, Any] = {}
    if not alike:
        old, new = inode_meaning(a.tree.inode(ours), a.names), inode_meaning(b.tree.inode(theirs), b.names)
    if (old_parent, old.pop("name", "")) != (new_parent, new.pop("name", "")):
        yield _moved(a, b, inode_id, old_parent, new_parent)
    yield from changed_attributes(ItemKind.INODE, "", old, new, inode_id=inode_id)


def _moved(a: ComparedImage, b: ComparedImage, inode_id: int, old_parent: int, new_parent: int) -> Difference:
    """Return the difference in parent or name; either parent may exist only in snapshots."""
    was_there = a.tree.directory_path(old_parent) is not None
    is_there = b.tree.directory_path(new_parent) is not None
    if was_there and is_there:
        return Difference(ItemKind.INODE, ChangeKind.RENAMED, "", inode_id=inode_id)
    held = "held by snapshots"
    if was_there:
        return Difference(
            ItemKind.INODE, ChangeKind.REMOVED, "", old=_type(a, inode_id), inode_id=inode_id, detail=held
        )
    if is_there:
        return Difference(ItemKind.INODE, ChangeKind.ADDED, "", new=_type(b, inode_id), inode_id=inode_id, detail=held)
    return Difference(ItemKind.INODE, ChangeKind.RENAMED, "", inode_id=inode_id, detail=held)


class _RecordMatcher:
    """Test of two records for equal meaning; false negatives are possible."""

    def __init__(self, a: ComparedImage, b: ComparedImage) -> None:
        self._a, self._b = a, b
        self._renumbered = not strings_agree(a, b)
        self._a_bounds, self._b_bounds = (np.column_stack(side.tree.record_bounds()) for side in (a, b))
        self._a_users, self._b_users = _numbered(a, b, StringKind.USER)
        self._a_groups, self._b_groups = _numbered(a, b, StringKind.GROUP)

    def __call__(self, ours: _Ids, theirs: _Ids) -> npt.NDArray[np.bool_]:
        same = np.empty(ours.size, np.bool_)
        same_records(
            self._a.tree.inode_buffer,
            self._a_bounds[ours],
            self._a_users,
            self._a_groups,
            self._b.tree.inode_buffer,
            self._b_bounds[theirs],
            self._b_users,
            self._b_groups,
            self._renumbered,
            same,
        )
        return same


def _numbered(a: ComparedImage, b: ComparedImage, kind: StringKind) -> tuple[_Ids, _Ids]:
    """Return, for each image, an array of numbers by serial; equal names have equal numbers, missing names have -1."""
    numbers: dict[str, int] = {}
    arrays = []
    for side in (a, b):
        strings = side.strings[kind]
        array = np.full(max(strings, default=0) + 1, -1, np.int64)
        array[0] = 0
        for serial, name in strings.items():
            array[serial] = numbers.setdefault(name, len(numbers) + 1)
        arrays.append(array)
    return arrays[0], arrays[1]
