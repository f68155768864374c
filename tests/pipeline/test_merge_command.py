"""`checkpointer merge --engine spark` as a process, killed and run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from checkpointer.cli.dry_run_report import ignored_text
from hadoop_common.child_module import child_module
from tests.cli_runner import run_cli
from tests.recorded_cases import RECORDED, Case

CASE = Case(RECORDED / "hadoop-3.4.1" / "renames")
_SECONDS = 600.0
pytestmark = pytest.mark.recorded


def started(folder: Path, scratch: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "checkpointer", "merge", str(folder), "--engine", "spark", "--json"]
    environment = {**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    return subprocess.Popen(
        [*command, "--master", "local[1]"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.deep
def test_a_merge_can_be_repeated_after_a_kill(tmp_path: Path) -> None:
    folder = CASE.copy_to(tmp_path / "nn").parent
    (scratch := tmp_path / "scratch").mkdir()
    before = sorted(path.name for path in (folder / "current").iterdir())
    victim = started(folder, scratch)
    deadline = time.monotonic() + _SECONDS
    while not (folder / "checkpoint-parts").is_dir():
        assert victim.poll() is None, victim.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    below = psutil.Process(victim.pid).children(recursive=True)
    victim.kill()
    victim.communicate()
    _, alive = psutil.wait_procs(below, _SECONDS)
    assert alive == []
    assert sorted(path.name for path in (folder / "current").iterdir()) == before
    again = started(folder, scratch)
    out, err = again.communicate(timeout=_SECONDS)
    assert again.returncode == 0
    answer = json.loads(out)
    # a worker of PySpark may be killed while it prints a traceback about the end of its JVM
    assert err.decode().endswith(f"note: {ignored_text(answer['ignored'])}\n")
    assert answer["engine"] == "spark"
    assert CASE.differences(Path(answer["image"])) == []
    assert not (folder / "checkpoint-parts").exists()


@pytest.mark.deep
def test_workers_import_nothing_from_the_working_directory(tmp_path: Path) -> None:
    folder = CASE.copy_to(tmp_path / "nn").parent
    for name in ("pipeline", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    command = child_module("checkpointer", "merge", str(folder), "--engine", "spark", "--master", "local[1]")
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    assert not (tmp_path / "imported").exists()


def test_missing_pyspark_is_a_one_line_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CASE.copy_to(tmp_path / "nn").parent
    monkeypatch.setattr("pipeline.libraries.find_spec", lambda name: None)
    code, out, err = run_cli("merge", folder, "--engine", "spark")
    assert (code, out) == (2, "")
    assert "PySpark is not installed" in err
    assert "Traceback" not in err
