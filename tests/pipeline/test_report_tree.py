"""Sums of directory trees, and the use of quotas."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pipeline.reports.counts.namespace import MEASURES
from tests.pipeline.report_frames import MIB, ROOT, counted, directory, file, keyed


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parameters(1)
def test_roll_up_is_the_sum_of_all_below(seed: int) -> None:
    chance = random.Random(seed)
    rows = [directory(ROOT, None, "/")]
    folders = [rows[0]]
    for number in range(1, 60):
        above = chance.choice(folders)
        folder = directory(
            ROOT + number, above["id"], f"{above['path'].rstrip('/')}/d{number}", owner=chance.choice("ab")
        )
        rows.append(folder)
        folders.append(folder)
    for number in range(100, 400):
        above = chance.choice(folders)
        path = f"{above['path'].rstrip('/')}/f{number}"
        rows.append(file(ROOT + number, above["id"], path, chance.randrange(300 * MIB), owner=chance.choice("abc")))

    deepest = max(folder["path"].count("/") for folder in folders)
    for depth in (0, 2, deepest + 1):
        expected: dict[str, Counter[str]] = {
            folder["path"]: Counter() for folder in folders if _depth(folder["path"]) <= depth
        }
        for row in rows[1:]:
            for path, below in expected.items():
                if row["path"].startswith(path.rstrip("/") + "/"):
                    below["files"] += row["type"] == "FILE"
                    below["directories"] += row["type"] == "DIRECTORY"
                    below["length"] += row.get("length", 0)
                    below["raw"] += row.get("length", 0) * 3
                    below["blocks"] += row.get("block_count", 0)
        found = keyed(counted(rows).rolled(depth).to_pylist(), "path")
        assert {path: {name: row[name] for name in MEASURES} for path, row in found.items()} == {
            path: {name: below[name] for name in MEASURES} for path, below in expected.items() if below
        }
        assert all(row["depth"] == _depth(path) for path, row in found.items())


def _depth(path: str) -> int:
    return 0 if path == "/" else path.count("/")


def test_quotas_count_themselves_and_all_below() -> None:
    image = counted(
        [
            directory(ROOT, None, "/", ns_quota=(1 << 63) - 1),
            directory(2, ROOT, "/a", ns_quota=10),
            directory(3, 2, "/a/b", ds_quota=9 * MIB),
            directory(4, 3, "/a/b/c"),
            directory(5, ROOT, "/empty", ns_quota=1),
            directory(8, ROOT, "/a2"),
            file(6, 4, "/a/b/c/f", MIB),
            file(7, 8, "/a2/f", MIB),
        ]
    )
    assert keyed(image.quotas().to_pylist(), "path") == {
        "/a": {"path": "/a", "ns_quota": 10, "names": 4, "ds_quota": None, "raw": 3 * MIB},
        "/a/b": {"path": "/a/b", "ns_quota": None, "names": 3, "ds_quota": 9 * MIB, "raw": 3 * MIB},
        "/empty": {"path": "/empty", "ns_quota": 1, "names": 1, "ds_quota": None, "raw": 0},
    }
