"""The benchmark of the edit log measures logs that really contain the written operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import edit_log
from bench.edit_log import BenchError, measure
from journal.file_journal import FileJournal
from namenode_stub.demo_zookeeper import MISSING


def test_local_journals_contain_the_counted_operations(tmp_path: Path) -> None:
    _check(tmp_path, "file", "set of two", "json")


@pytest.mark.deep
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_network_journals_contain_the_counted_operations(tmp_path: Path) -> None:
    _check(tmp_path, "quorum", "bookkeeper")


def _check(tmp_path: Path, *ways: str) -> None:
    runs = measure(tmp_path, 3, 0.05, 1, ways)
    assert list(runs) == ["one fsync each", *ways]
    for (run,) in runs.values():
        assert run.transactions >= run.syncs > 0
    assert list(tmp_path.iterdir()) == []
    summary = edit_log._summary(runs)
    assert summary["one fsync each"]["ratio"] == summary["one fsync each"]["transactionsPerSync"] == 1


def test_missing_transactions_fail_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileJournal, "segments", lambda *_: [])
    with pytest.raises(BenchError, match="has 0 of"):
        measure(tmp_path, 1, 0.01, 1, ("file",))


def test_failing_caller_fails_the_benchmark() -> None:
    def failing(op: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        edit_log._call(failing, 2, 10.0)
