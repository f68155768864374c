"""Processes that our programs start import nothing from the working directory, which may belong to another user."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hadoop_common
from hadoop_common.child_module import child_module

ROOT = Path(hadoop_common.__file__).parents[1]
OURS = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists())


@pytest.mark.parametrize("shadowed", ["click", "checkpointer"])
def test_a_module_in_the_working_directory_is_not_imported(
    shadowed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    (tmp_path / f"{shadowed}.py").write_text("raise SystemExit(99)")
    done = subprocess.run(child_module("checkpointer", "--version"), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    unsafe = [sys.executable, "-m", "checkpointer", "--version"]
    assert subprocess.run(unsafe, cwd=tmp_path, capture_output=True, check=False).returncode == 99


def test_every_process_is_started_by_child_module() -> None:
    packages = [name for name in OURS if name not in ("bench", "install", "namenode_stub", "tests")]
    assert {"checkpointer", "engine", "pipeline"} <= set(packages)
    sources = {path: path.read_text() for name in packages for path in (ROOT / name).rglob("*.py")}
    starts = [path.name for path, text in sources.items() if re.search(r"sys\.executable,[^\]]*?\"-m\"", text)]
    assert starts == ["child_module.py"]
