"""Differences from Hadoop's recorded images that the comparison accepts or rejects (tests/tools/imgcmp.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.recorded_cases import imgcmp

NO_ACK = (1 << 63) - 1


def diff(size: int, *lengths: int, snapshot: int = 3, first: int = 1) -> dict[str, Any]:
    """Return a file diff as imgcmp reads it."""
    blocks = tuple(((1, (first + n,)), (2, (1001,)), (3, (length,))) for n, length in enumerate(lengths))
    return {"snap": snapshot, "size": size, "blocks": blocks}


@pytest.mark.parametrize(
    ("hadoops", "ours"),
    [
        (diff(1401, 1024, NO_ACK), diff(1401, 1024, 377)),
        (diff(1401, NO_ACK, NO_ACK), diff(1401, 1024, 377)),
        # the last block grew after the snapshot
        (diff(1401, 1024, NO_ACK), diff(1401, 1024, 900)),
        # a block list that was moved to an older snapshot; Hadoop counted NO_ACK as a length
        (diff(1401, NO_ACK), diff(1401, 1024, 377)),
        (diff(1401, 1024, NO_ACK, NO_ACK), diff(1401, 1024, 377)),
        # a block list of the base image, which Hadoop truncates when it loads the image
        (diff(1401, NO_ACK), diff(1401, NO_ACK, 377)),
    ],
)
def test_true_length_of_a_block_marked_as_deleted_is_accepted(hadoops: dict[str, Any], ours: dict[str, Any]) -> None:
    assert imgcmp.with_true_lengths([hadoops], [ours]) == [ours]


@pytest.mark.parametrize(
    ("hadoops", "ours"),
    [
        (diff(1401, 1024, 377), diff(1401, 1024, NO_ACK)),
        (diff(1401, 1024, 377), diff(1401, 1024, 378)),
        # lengths that cannot be true: they sum to too few bytes, or the file's length does not need the last block
        (diff(1401, 1024, NO_ACK), diff(1401, 1024, 376)),
        (diff(1401, 1024, NO_ACK), diff(1401, 1401, 1)),
        (diff(1024, 1024, NO_ACK), diff(1024, 1024, 377)),
        (diff(1401, NO_ACK, NO_ACK), diff(1401, 1024, NO_ACK)),
        # differences in length, block, size, snapshot or number of blocks are not permitted
        (diff(1401, 1000, NO_ACK), diff(1401, 1024, 377)),
        (diff(1401, 1024, NO_ACK, first=2), diff(1401, 1024, 377)),
        (diff(1400, 1024, NO_ACK), diff(1401, 1024, 377)),
        (diff(1401, 1024, NO_ACK, snapshot=4), diff(1401, 1024, 377)),
        (diff(1401, 1024), diff(1401, 1024, 377)),
    ],
)
def test_any_other_block_difference_is_rejected(hadoops: dict[str, Any], ours: dict[str, Any]) -> None:
    assert imgcmp.with_true_lengths([hadoops], [ours]) == [hadoops]


def test_true_length_is_rejected_if_the_number_of_diffs_differs() -> None:
    hadoops, ours = [diff(1401, 1024, NO_ACK)], [diff(1401, 1024, 377)]
    assert imgcmp.with_true_lengths(hadoops, [*ours, diff(5, 5)]) == hadoops


def image(**changes: Any) -> SimpleNamespace:
    """Return the parts of an image that `compare` reads: a directory, and a symlink that the directory lists by a
    reference.
    """
    inodes = {1: {"type": 2, "id": 1, "name": b""}, 2: {"type": 3, "id": 2, "name": b"link"}}
    reference = (2, None, 7, None)
    plain = {"ns": {}, "layout": -63, "inodes": inodes, "refs": [reference], "dirs": {1: ((), (reference,))}}
    empty = {"snaps": {}, "diffs": {}, "uc": {}, "snap_head": None, "secret": [], "cache": [], "ec": []}
    found = SimpleNamespace(**{**plain, **empty, "shape": [], "dangling": [], "order_errors": [], **changes})
    found.inode_head = (9, len(found.inodes))
    return found


def without(inode_id: int, **changes: Any) -> SimpleNamespace:
    whole = image(**changes)
    return image(**changes, inodes={key: inode for key, inode in whole.inodes.items() if key != inode_id})


def test_symlink_record_lost_by_hadoop_is_accepted() -> None:
    assert imgcmp.compare(without(2), image()) == []
    # a child is reachable in the same way
    child = {"dirs": {1: ((2,), ())}, "refs": []}
    assert imgcmp.compare(without(2, **child), image(**child)) == []


def test_created_name_of_a_lost_symlink_is_accepted() -> None:
    def diffs(*created: bytes) -> dict[str, Any]:
        return {"diffs": {(2, 1): [{"snap": 7, "created": created}]}}

    ours = image(**diffs(b"a", b"link"))
    assert imgcmp.compare(without(2, **diffs(b"a"), dangling=[(1, 7, [b"link"])]), ours) == []
    # a missing dangling entry, or an entry in another snapshot or directory, is a difference
    assert len(imgcmp.compare(without(2, **diffs(b"a")), ours)) == 1
    for place in ((1, 8), (3, 7)):
        assert len(imgcmp.compare(without(2, **diffs(b"a"), dangling=[(*place, [b"link"])]), ours)) == 1


def test_any_other_missing_record_is_a_difference() -> None:
    # no directory and no reference leads to the record
    nowhere = {"dirs": {}, "refs": []}
    assert len(imgcmp.compare(without(2, **nowhere), image(**nowhere))) == 2
    # our image lacks the record
    assert len(imgcmp.compare(image(), without(2))) == 2
    # the missing record is not a symlink
    file = {"inodes": {**image().inodes, 2: {"type": 1, "id": 2, "name": b"file"}}}
    assert len(imgcmp.compare(without(2), image(**file))) == 2
