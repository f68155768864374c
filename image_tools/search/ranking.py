"""The largest files, directories, owners and groups of a scan, in one pass with bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.permission import GROUP_SHIFT, SERIAL_MASK, USER_SHIFT
from image_tools.dump.values import java_text
from image_tools.search.criteria import Criteria
from image_tools.search.scan import FoundInodes, NamespaceScan

_Numbers = npt.NDArray[np.int64]
_FILES = Criteria(kind="file")


class RankedRow(NamedTuple):
    """A path, owner or group, with its bytes and number of files."""

    name: str
    length: int
    files: int


def rank(scan: NamespaceScan, tops: Sequence[str], what: str, by: str, number: int) -> list[RankedRow]:
    """Return the largest files, directories, owners or groups, as `what` selects, at and below `tops`.

    Args:
        by: "length" or "files".

    Raises:
        NoSuchPathError: a path does not exist.
        RecordError: a record is damaged.
    """
    found = scan.find(tops, _FILES)
    if what == "files":
        best: list[tuple[int, str]] = []
        for batch in found:
            best = sorted([*best, *_largest(scan, batch, number)], reverse=True)[:number]
        return [RankedRow(path, length, 1) for length, path in best]
    sums: dict[int, list[int]] = {}
    for batch in found:
        keys, which = np.unique(_keys(scan, batch, what), return_inverse=True)
        lengths = np.zeros(keys.size, np.int64)
        np.add.at(lengths, which, batch.columns.length)
        counts = np.bincount(which, minlength=keys.size)
        for key, length, count in zip(keys.tolist(), lengths.tolist(), counts.tolist(), strict=True):
            total = sums.setdefault(key, [0, 0])
            total[0] += length
            total[1] += count
    order = sorted(sums, key=lambda key: sums[key][by == "files"], reverse=True)[:number]
    return [RankedRow(_name(scan, key, what), *sums[key]) for key in order]


def _largest(scan: NamespaceScan, batch: FoundInodes, number: int) -> list[tuple[int, str]]:
    lengths = batch.columns.length
    order = np.argsort(lengths, kind="stable")[-number:].tolist()
    return [(int(lengths[at]), java_text(scan.path(int(batch.slots[at]), batch.columns, at))) for at in order]


def _keys(scan: NamespaceScan, batch: FoundInodes, what: str) -> _Numbers:
    """Return the directory of each file, or the serial of its owner or group."""
    if what == "directories":
        return scan.rows_of(batch.slots)
    shift = USER_SHIFT if what == "owners" else GROUP_SHIFT
    return batch.columns.permission >> shift & SERIAL_MASK


def _name(scan: NamespaceScan, key: int, what: str) -> str:
    if what == "directories":
        return java_text(scan.directory(key))
    owner = scan.names.owner(key << (USER_SHIFT if what == "owners" else GROUP_SHIFT))
    return java_text((owner.user if what == "owners" else owner.group) or "")
