"""The tool that runs tests and demos next to busy processes."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.tools import loaded
from tests.tools.loaded import Ended, Run, busy, execute, plan, run_all, table


def test_a_plan_spreads_runs_and_fresh_clones_over_the_loads() -> None:
    runs = plan(["demo", "demo-ha"], 20, 5, [0, 4, 8])
    assert Counter(run.name for run in runs) == {"demo": 20, "demo-ha": 20}
    of_one = [run for run in runs if run.name == "demo"]
    assert Counter(run.load for run in of_one if run.fresh) == {0: 2, 4: 2, 8: 1}
    assert {run.load for run in of_one if not run.fresh} == {0, 4, 8}
    assert plan(["test"], 2, 0, [4]) == [Run("test", 4), Run("test", 4)]
    assert [run.fresh for run in plan(["demo"], 2, 2, [8])] == [True, True]


def test_busy_processes_end_with_the_block() -> None:
    with busy(2) as processes:
        assert len(processes) == 2
        assert all(Path(f"/proc/{process}").exists() for process in processes)
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    script = "import subprocess, sys; print(subprocess.Popen(['sleep', '1000']).wait())"
    assert execute([sys.executable, "-c", script], tmp_path, dict(os.environ), tmp_path / "log", limit=0.5) == -9
    assert execute(["sh", "-c", "echo told; exit 3"], tmp_path, dict(os.environ), tmp_path / "log") == 3
    assert (tmp_path / "log").read_text() == "told\n"


def test_logs_of_failures_are_kept_and_the_table_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "Makefile").write_text("good:\n\t@echo well > $(TMPDIR)/scratch\nbad:\n\t@echo it rains; exit 1\n")
    monkeypatch.setattr(loaded, "_ROOT", root)
    assert run_all([Run("good", 1), Run("bad", 0)], tmp_path / "logs") == 1
    (kept,) = (tmp_path / "logs").iterdir()
    assert "it rains" in (kept / "log").read_text()
    told = capsys.readouterr().out
    assert "FAILED" in told
    assert told.endswith(f"1 of 2 failed; their logs are in {tmp_path / 'logs'}\n")
    lines = table([Ended(Run("good", 4), 2.0, 0, None), Ended(Run("good", 4), 4.0, 2, kept)])
    assert lines[1].split()[:6] == ["good", "4", "here", "1", "of", "2"]
    assert lines[1].split()[6:] == ["2", "3", "4"]
