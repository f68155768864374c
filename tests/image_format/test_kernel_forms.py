"""Python forms of kernels have the same results as compiled kernels, and a replay may switch between the two."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from engine.replay import compiled, replayer
from image_format.compiling.mode import VARIABLE, Mode
from journal.segment_format import SegmentCursor
from tests.cli_runner import fingerprint
from tests.depth import deep
from tests.recorded_cases import RECORDED, Case

ROOT = Path(__file__).parents[2]
QUICK = ("hadoop-3.4.1/erasure-coding-snapshots",)
SEGMENTS = ("hadoop-2.7.3/segments", "hadoop-3.4.1/segments", "hadoop-3.4.1/random-mixed-1")


def _cases() -> list[str]:
    found = [f"{path.parent.parent.name}/{path.parent.name}" for path in sorted(RECORDED.glob("hadoop-*/*/case.json"))]
    return [name for name in found if (RECORDED / name / "before").is_dir()] if deep() else list(QUICK)


def _work(folder: Path, how: Mode, cases: list[str]) -> dict[str, str]:
    folder.mkdir()
    ended = subprocess.run(
        [sys.executable, "-m", "tests.checkpointer.kernel_work", ".", *cases],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: how.value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return fingerprint(folder)


def test_results_are_equal_with_and_without_compiled_code(tmp_path: Path) -> None:
    cases = _cases()
    plain, fast = (_work(tmp_path / how.value, how, cases) for how in (Mode.PLAIN, Mode.COMPILED))
    assert {name for name in fast if fast[name] != plain.get(name)} == set()
    assert plain.keys() == fast.keys()


@pytest.mark.recorded
@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.parametrize("plain_segments", [1, 3])
def test_replay_can_switch_from_plain_to_compiled_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, plain_segments: int
) -> None:
    """The background compiler finishes between two segments."""
    images = []
    for folder in ("compiled", "both"):
        Case(RECORDED / name).copy_to(tmp_path / folder)
        images.append(merge_directory(plan_directory(tmp_path / folder)).saved.paths[0].read_bytes())
        asked = itertools.count()
        monkeypatch.setattr(compiled, "is_at_hand", lambda edits, asked=asked: next(asked) >= plain_segments)
    assert images[0] == images[1]


@pytest.mark.recorded
def test_long_replay_waits_for_compiled_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all segments, a process replays only a limited number of transactions with the plain functions."""
    begun = []
    begin = compiled.CompiledReplay.begin

    def counted(self: compiled.CompiledReplay, cursor: SegmentCursor) -> bool:
        begun.append(cursor.expected)
        return begin(self, cursor)

    monkeypatch.setattr(compiled.CompiledReplay, "begin", counted)
    monkeypatch.setattr(compiled, "is_at_hand", lambda edits: False)
    first = Case(RECORDED / SEGMENTS[0]).copy_to(tmp_path)
    sizes = [path.stat().st_size for path in sorted(first.glob("edits_*"))]
    monkeypatch.setattr(replayer, "_PLAIN_BYTES", replayer._Budget(sizes[0] + sizes[1]))
    merge_directory(plan_directory(tmp_path))
    assert len(begun) == len(sizes) - 2
