"""Replay reads older diffs of a directory only when it needs them."""

from __future__ import annotations

import pytest

from engine.namespace.diffs import DirectoryDiff, DirectoryDiffs, OlderDiffs
from image_format.errors import RecordError


class Unread:
    """Two diffs with the created name `old`; counts how often they are read."""

    def __init__(self, *, damaged: bool = False) -> None:
        self.reads = 0
        self._damaged = damaged
        self.diffs = DirectoryDiffs([DirectoryDiff(7, 0)], OlderDiffs(2, memoryview(b"\x0a\x03old"), self._read))

    def _read(self) -> list[DirectoryDiff]:
        self.reads += 1
        if self._damaged:
            raise RecordError("damaged")
        older = DirectoryDiff(4, 0)
        older.create(b"old")
        return [DirectoryDiff(1, 0), older]


def test_older_diffs_are_read_once() -> None:
    unread = Unread()
    assert unread.diffs.any
    assert unread.diffs.last_id == 7
    assert unread.reads == 0
    assert [diff.snapshot_id for diff in unread.diffs.items] == [1, 4, 7]
    assert [diff.snapshot_id for diff in unread.diffs.items] == [1, 4, 7]
    assert unread.reads == 1


def test_unreadable_older_diffs_are_not_dropped() -> None:
    unread = Unread(damaged=True)
    for _ in range(2):
        with pytest.raises(RecordError, match="damaged"):
            _ = unread.diffs.items
    assert unread.reads == 2
    assert [diff.snapshot_id for diff in unread.diffs.known] == [7]
    assert unread.diffs.older is not None
    assert unread.diffs.older.count == 2


def test_older_diffs_are_read_only_for_names_they_may_contain() -> None:
    unread = Unread()
    assert [diff.snapshot_id for diff in unread.diffs.newest_first(b"other")] == [7]
    assert unread.reads == 0
    assert [diff.snapshot_id for diff in unread.diffs.newest_first(b"old")] == [7, 4, 1]


def test_older_diffs_are_read_once_for_many_names() -> None:
    unread = Unread()
    for number in range(1000):
        found = [diff.snapshot_id for diff in unread.diffs.newest_first(b"name %d" % number)]
        assert found[0] == 7
    assert unread.reads == 1
