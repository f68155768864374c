"""The tool that runs tests and demos on a busy machine."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.tools import loaded
from tests.tools.loaded import Ended, Run, busy, execute, plan, run_all, table


def test_a_plan_distributes_runs_and_fresh_clones_over_the_loads() -> None:
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


def test_a_hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    script = "import subprocess, sys; print(subprocess.Popen(['sleep', '1000']).wait())"
    hanging = execute([sys.executable, "-c", script], tmp_path, dict(os.environ), tmp_path / "log", limit=0.5)
    assert asyncio.run(hanging) == -9
    failing = execute(["sh", "-c", "echo told; exit 3"], tmp_path, dict(os.environ), tmp_path / "log")
    assert asyncio.run(failing) == 3
    assert (tmp_path / "log").read_text() == "told\n"


def test_logs_of_failures_are_kept_and_failures_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "Makefile").write_text("good:\n\t@echo well > $(TMPDIR)/scratch\nbad:\n\t@echo it rains; exit 1\n")
    monkeypatch.setattr(loaded, "_ROOT", root)
    assert run_all([Run("good", 1), Run("bad", 0)], tmp_path / "logs") == 1
    (kept,) = (tmp_path / "logs").iterdir()
    assert "it rains" in (kept / "log").read_text()
    reported = capsys.readouterr().out
    assert "FAILED" in reported
    assert reported.endswith(f"1 of 2 failed; their logs are in {tmp_path / 'logs'}\n")
    lines = table([Ended(Run("good", 4), 2.0, 0, None), Ended(Run("good", 4), 4.0, 2, kept)])
    assert lines[1].split()[:6] == ["good", "4", "here", "1", "of", "2"]
    assert lines[1].split()[6:] == ["2", "3", "4"]


def test_simultaneous_runs_use_copies_of_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    (root / ".venv").mkdir(parents=True)
    (root / "build").mkdir()
    # each run creates a file in its folder and waits for the other run
    recipe = "touch here $(MEETING)/$@; until test -e $(MEETING)/{}; do :; done; test -d .venv -a ! -e build"
    recipes = [f"{name}:\n\t{recipe.format(other)}\n" for name, other in (("one", "two"), ("two", "one"))]
    (root / "Makefile").write_text("".join(recipes))
    monkeypatch.setattr(loaded, "_ROOT", root)
    monkeypatch.setenv("MEETING", str(tmp_path))
    assert run_all([Run("one", 0), Run("two", 0)], tmp_path / "logs", at_once=2) == 0
    assert not list((tmp_path / "logs").iterdir())
    assert not (root / "here").exists()
    assert capsys.readouterr().out.endswith("0 of 2 failed\n")
