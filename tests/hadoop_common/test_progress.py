"""Progress of commands: correct percentages, one line per phase, plain lines in a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from hadoop_common.cli.progress import ProgressObserver, progress_text
from hadoop_common.names import parse_image
from image_format.reader import ImageFile
from tests.recorded_cases import RECORDED, Case

CASE = Case(RECORDED / "hadoop-2.7.3" / "medium-20k")


@pytest.mark.parametrize(
    ("name", "done", "total", "seconds", "expected"),
    [
        ("save", 0, 2000, 0.0, "0 %, 0 bytes of 2.0 kB"),
        ("save", 500, 2000, 2.0, "25 %, 500 bytes of 2.0 kB, 250 bytes/s, 6 s left"),
        ("save", 3000, 2000, 3.0, "100 %, 3.0 kB of 3.0 kB, 1.0 kB/s, 3 s"),
        ("replay", 1_500_000, 3_000_000, 10.0, "50 %, 1.5 M of 3.0 M txns, 150.0 k/s, 10 s left"),
        ("reachability", 0, None, 75.0, "1 min 15 s"),
        ("compile", 57, None, 75.0, "57 kernels, 1 min 15 s"),
    ],
)
def test_progress_texts(name: str, done: int, total: int | None, seconds: float, expected: str) -> None:
    assert progress_text(name, done, total, seconds) == expected


def test_longest_line_fits_80_columns() -> None:
    longest = progress_text("replay", 123_456_789, 456_789_012, 1000.0)
    assert longest == "27 %, 123.5 M of 456.8 M txns, 123.5 k/s, 45 min 0 s left"
    assert len(f"{'replay':<8} {'=' * 13} {longest}") <= 80


def test_one_line_every_ten_seconds_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hadoop_common.cli.progress._EVERY", 10.0)
    now = [0.0]
    with ProgressObserver(show=True, clock=lambda: now[0]) as observer:
        observer.phase("save", 1000)
        for second in range(1, 26):
            now[0] = float(second)
            observer.advance(40 * second)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "save: 40 %, 400 bytes of 1.0 kB, 40 bytes/s, 15 s left",
        "save: 80 %, 800 bytes of 1.0 kB, 40 bytes/s, 5 s left",
    ]


def test_no_progress_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter(range(0, 1000, 100))
    with ProgressObserver(show=False, clock=lambda: float(next(now))) as observer:
        observer.phase("save", 1000)
        observer.advance(1000)
    assert capsys.readouterr().err == ""


class Watcher(ProgressObserver):
    """Recorder of its calls."""

    def __init__(self) -> None:
        super().__init__(show=False)
        self.reported: list[tuple[str, int | None, list[int]]] = []

    def phase(self, name: str, total: int | None) -> None:
        self.reported.append((name, total, []))

    def advance(self, done: int) -> None:
        self.reported[-1][2].append(done)


@pytest.mark.recorded
@pytest.mark.parametrize("case", ["medium-20k", "compress-gzip"])
def test_each_phase_approximately_reaches_its_total(tmp_path: Path, case: str) -> None:
    """The percentages are correct for a compressed image, whose file is smaller than the bytes read and written."""
    directory = Case(RECORDED / "hadoop-2.7.3" / case).copy_to(tmp_path).parent
    plan = plan_directory(directory)
    watcher = Watcher()
    merge_directory(plan, observer=watcher)
    load, replay, save = watcher.reported
    size = plan.image.stat().st_size
    assert load == ("load", size, sorted(load[2]))
    assert load[2][-1] == size
    assert (replay[:2], replay[2][-1]) == (("replay", plan.last_txid - plan.image_txid), replay[1])
    with ImageFile.open(max(directory.glob("current/fsimage_" + "?" * 19), key=image_txid)) as made:
        made.decompress(section.name for section in made.sections)
        unpacked = made.unpacked_size
    assert save[0] == "save"
    assert save[1] == pytest.approx(unpacked, rel=0.5)


def image_txid(path: Path) -> int:
    named = parse_image(path.name)
    return -1 if named is None else named.txid


def on_a_terminal(command: list[str], read: Callable[[int], bytes], environment: dict[str, str]) -> str:
    """Return what a command writes to a terminal of 80 columns."""
    above, below = pty.openpty()
    with subprocess.Popen(
        command, stdin=below, stdout=below, stderr=below, env={**os.environ, "COLUMNS": "80", **environment}
    ) as running:
        os.close(below)
        parts = []
        while piece := read(above):
            parts.append(piece)
        assert running.wait() == 0
    os.close(above)
    return b"".join(parts).decode()


def read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        # this is how Linux reports a closed peer
        return b""


@pytest.mark.recorded
def test_merge_on_a_terminal_leaves_one_line_per_phase(tmp_path: Path) -> None:
    CASE.copy_to(tmp_path)
    command = [sys.executable, "-m", "checkpointer", "merge", str(tmp_path)]
    shown = on_a_terminal(command, read_terminal, {"NO_COLOR": "1", "TERM": "xterm"})
    # each carriage return begins a new version of the line
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines()
    for phase in ("load", "replay", "save"):
        last = [line for line in lines if line.startswith(f"{phase:<8}")][-1]
        assert "100 %" in last
        assert len(last) <= 80
    # colour codes begin with 3, 4 or 9; bold and dim are allowed
    assert not re.search(r"\x1b\[(?:\d;)*[349]\d", shown)


def test_the_current_phase_is_visible_after_more_phases_than_a_terminal_has_lines() -> None:
    code = """
from hadoop_common.cli import progress
bars = progress._bars()
progress._bars = lambda: bars
with progress.ProgressObserver(show=True) as observer:
    for number in range(60):
        observer.phase(f"phase{number}", 10)
        observer.advance(5)
        bars.refresh()
"""
    shown = on_a_terminal(
        [sys.executable, "-c", code], read_terminal, {"LINES": "24", "NO_COLOR": "1", "TERM": "xterm"}
    )
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines()
    for number in range(60):
        versions = [line for line in lines if line.startswith(f"phase{number} ")]
        assert all(any(percent in each for each in versions) for percent in ("50 %", "100 %")), number


def test_phase_without_a_count_shows_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this test, each tick prints a line, because the clock advances ten seconds at each reading."""
    monkeypatch.setattr("hadoop_common.cli.progress._TICK", 0.001)
    monkeypatch.setattr("hadoop_common.cli.progress._EVERY", 10.0)
    now, reported = iter(range(0, 1_000_000, 10)), threading.Event()
    lines: list[str] = []

    def echo(line: str, *, err: bool) -> None:
        assert err
        lines.append(line)
        if len(lines) > 2:
            reported.set()

    monkeypatch.setattr("hadoop_common.cli.progress.click.echo", echo)
    with ProgressObserver(show=True, clock=lambda: float(next(now))) as observer, observer.ticking():
        observer.phase("owners", None)
        assert reported.wait(600)
    assert len(lines) >= 3
    assert all(re.fullmatch(r"owners: .*[1-9].* s", line) for line in lines), lines
