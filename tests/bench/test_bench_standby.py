"""The benchmark of a standby measures only checkpoints that the standby really made."""

from __future__ import annotations

import json

import pytest

from bench import standby


@pytest.mark.deep
def test_each_benchmark_round_makes_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ("--inodes", "3000", "--rounds", "2", "--transactions", "3000", "--behind", "1000")
    monkeypatch.setattr("sys.argv", ["bench.standby", *sizes, "--json"])
    standby.main()
    reported = json.loads(capsys.readouterr().out)
    assert reported["floor"] > 0
    assert len(reported["rounds"]) == 2
    for each in reported["rounds"]:
        assert each["rebase"] > 0
        assert list(each["committed"]) == ["loopback", "1 Gbit/s"]
        assert min(each["committed"].values()) > each["checkpoint"] > 0
