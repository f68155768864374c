"""The main program: a system error becomes one sentence with one hint, and a bug is not hidden."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import checkpointer.cli as cli
from hadoop_common.exit_codes import ExitCode
from hadoop_common.names import segment_name
from tests.archive.storage import segment, storage
from tests.cli_runner import run_cli
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir


def raising(error: Exception) -> Any:
    def main(**_: object) -> None:
        raise error

    return main


def test_system_error_becomes_one_sentence_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.cli, "main", raising(OSError(errno.ENOSPC, "No space left on device", "/data/x")))
    reported = run_cli("merge")
    assert reported.code == ExitCode.STORAGE
    assert reported.err == (
        "checkpointer: /data/x cannot be used: No space left on device\n"
        "  next: Free space on its disk, then try again.\n"
    )


@pytest.mark.parametrize("words", [("--version",), ("archive", "list", "--archive", "/nowhere", "--json")])
def test_full_standard_output_is_one_error(words: tuple[str, ...]) -> None:
    """With --json, the object of the failure cannot be printed either."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "checkpointer", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == ExitCode.STORAGE
    assert done.stderr.count("\n") == 2
    assert "  next: " in done.stderr


def test_output_in_a_locale_that_lacks_a_character(tmp_path: Path) -> None:
    """Documents are UTF-8 in every locale; other text shows the character as an escape."""
    directory = storage(tmp_path)
    last = segment(directory, BASE_TXID, mkdir("/é日本", 16386))
    edits = directory / "current" / segment_name(BASE_TXID + 1, last)
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}

    def printed(*words: str | Path) -> bytes:
        command = [sys.executable, "-m", "checkpointer", *map(str, words)]
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout

    assert "<PATH>/é日本</PATH>" in printed("edits", "dump", edits).decode()
    assert run_cli("merge", directory).code == 0
    assert printed("ls", "--image", directory, "/").endswith(b" /\xe9\\u65e5\\u672c\n")
    assert '"/é日本"' in printed("ls", "--image", directory, "/", "--json").decode()


@pytest.mark.parametrize("error", [KeyError("x"), OSError(errno.EBADF, "Bad file descriptor"), AssertionError()])
def test_bugs_are_not_hidden(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.cli, "main", raising(error))
    with pytest.raises(type(error)):
        run_cli("merge")


def test_io_error_is_not_reported_as_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = os.stat

    def broken(path: Any, *more: Any, **named: Any) -> os.stat_result:
        if str(path) == str(tmp_path):
            raise OSError(errno.EIO, "Input/output error", path)
        return stat(path, *more, **named)

    monkeypatch.setattr(os, "stat", broken)
    reported = run_cli("merge", tmp_path)
    assert reported.code == ExitCode.STORAGE
    assert f"{tmp_path} cannot be read: Input/output error" in reported.err


def test_missing_arguments_are_usage_errors(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for arguments, problem in (
        (("merge", tmp_path / "no"), f"Directory '{tmp_path}/no' does not exist."),
        (("merge", file / "below"), f"Directory '{file}/below' does not exist."),
        (("merge", file), f"Directory '{file}' is a file."),
        (("image", "info", tmp_path), f"File '{tmp_path}' is a directory."),
        (("image", "info", tmp_path / "no"), f"File '{tmp_path}/no' does not exist."),
    ):
        reported = run_cli(*arguments)
        assert reported.code == ExitCode.USAGE
        assert problem in reported.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mergee",), "No such command 'mergee'. Did you mean 'merge'?"),
        (("image", "verfiy"), "No such command 'verfiy'. Did you mean 'verify'?"),
        (("zkfc", "stats"), "No such command 'stats'. Did you mean 'status'?"),
        (("xyzzy",), "No such command 'xyzzy'.\n"),
    ],
)
def test_misspelt_command_gets_a_suggestion(words: tuple[str, ...], message: str) -> None:
    reported = run_cli(*words)
    assert reported.code == ExitCode.USAGE
    assert message in reported.err
