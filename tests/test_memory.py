"""How much memory a merge takes, measured from outside on an image of the size that the goal names."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.generate import generate_edits, generate_image
from bench.memory import run_measured

FILES = 1_000_000
TRANSACTIONS = 100_000
LIMIT = 600_000_000


def test_a_merge_of_a_million_files_stays_below_its_limit(tmp_path: Path) -> None:
    current = tmp_path / "current"
    current.mkdir()
    generate_image(current, FILES)
    generate_edits(current, FILES, TRANSACTIONS)
    found = run_measured([sys.executable, "-m", "bench.one_merge", str(current)])
    # Pages of the mapped image are not counted: the system takes them back when it needs them.
    assert 0 < found["anonymous"] < LIMIT
