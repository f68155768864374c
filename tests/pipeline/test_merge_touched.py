"""Paths that edits touch, and their paths before earlier renames."""

from __future__ import annotations

import pytest

from pipeline.merge.touched import Rename, RenameLog, touched_paths
from tests.engine.op_makers import delete, mkdir


@pytest.mark.parametrize(
    ("path", "txid", "expected"),
    [
        ("/b/f", 9, ["/b/f", "/a/f"]),
        ("/b/f", 5, ["/b/f"]),
        ("/b", 9, ["/b", "/a"]),
        ("/bc/f", 9, ["/bc/f"]),
        ("/c/b/f", 12, ["/c/b/f", "/b/f", "/a/f"]),
        ("/c/b/f", 10, ["/c/b/f"]),
        ("/", 20, ["/"]),
    ],
)
def test_a_path_is_followed_back_through_renames(path: str, txid: int, expected: list[str]) -> None:
    log = RenameLog([Rename(10, "/b", "/c/b"), Rename(5, "/a", "/b")])
    assert list(log.origins(path, txid)) == expected


def test_names_that_change_places_forever_end() -> None:
    renames = [Rename(txid, *(("/a", "/b") if txid % 2 else ("/b", "/a"))) for txid in range(100)]
    assert len(list(RenameLog(renames).origins("/a", 1000))) == 17


def test_a_path_is_touched_once_between_renames() -> None:
    found = touched_paths([mkdir("/a", 90000), mkdir("/a", 90001), delete("/a"), delete("/b")])
    assert [(each.path, each.below) for each in found] == [("/a", False), ("/a", True), ("/b", True)]
