"""The bench of the edit log measures logs that hold what was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import edit_log
from bench.edit_log import BenchError, measure
from journal.file_journal import FileJournal


def test_every_way_writes_what_it_counts(tmp_path: Path) -> None:
    runs = measure(tmp_path, threads=3, seconds=0.05, rounds=1)
    assert list(runs) == ["one fsync each", "file", "set of two", "json"]
    for (run,) in runs.values():
        assert run.transactions >= run.syncs > 0
    assert list(tmp_path.iterdir()) == []
    summary = edit_log._summary(runs)
    assert summary["one fsync each"]["ratio"] == summary["one fsync each"]["transactionsPerSync"] == 1


def test_a_log_that_lost_something_ends_the_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileJournal, "count", lambda *_: 1)
    with pytest.raises(BenchError, match="holds 1 of"):
        measure(tmp_path, threads=1, seconds=0.01, rounds=1)


def test_a_caller_that_fails_ends_the_bench() -> None:
    def failing(op: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        edit_log._call(failing, 2, 10.0)
