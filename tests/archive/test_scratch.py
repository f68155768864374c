"""Temporary folders are removed at a signal, or by the next command after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from archive.adding import add_directory
from archive.archive import open_archive
from archive.scratch import scratch_folder
from tests.archive.open_segment import FIRST, op_of
from tests.archive.storage import segment, storage

_ENDING = """
import os, signal, sys
from pathlib import Path
from archive.scratch import scratch_folder
number = int(sys.argv[2])
if number != signal.SIGKILL:
    # nohup, if it runs the tests, ignores SIGHUP
    signal.signal(number, signal.SIG_DFL)
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "image").write_bytes(b"keys of tokens")
    os.kill(os.getpid(), number)
"""


def end_by(number: signal.Signals, folder: Path) -> int:
    """Return the exit code of a process that a signal ends while it uses a temporary folder."""
    return subprocess.run([sys.executable, "-c", _ENDING, folder, str(number.value)], check=False).returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_removes_the_scratch_folder(number: signal.Signals, tmp_path: Path) -> None:
    assert end_by(number, tmp_path) == 128 + number
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_handler_is_restored(number: signal.Signals, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    with scratch_folder(tmp_path):
        pass
    assert signal.getsignal(number) is before


def test_leftover_of_a_kill_is_removed_but_not_a_folder_in_use(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as used:
        end_by(signal.SIGKILL, tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
        with scratch_folder(tmp_path) as own:
            assert {*tmp_path.iterdir()} == {used, own}
    assert list(tmp_path.iterdir()) == []


def test_addition_without_a_fetch_creates_no_folder(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    with (
        open_archive(str(tmp_path / "archive")) as archive,
        mock.patch("archive.scratch.mkdtemp", side_effect=AssertionError("a folder is made")),
    ):
        add_directory(archive, nn)
        last = segment(nn, FIRST - 1, op_of(1))
        assert add_directory(archive, nn).last_txid == last
