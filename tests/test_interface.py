"""The interface does not lose parts by accident: docs/interface.txt matches the program."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from checkpointer.cli import cli
from tests.tools.interface import (
    COMMAND,
    RECORDED,
    ROOT,
    RULE,
    Differences,
    compared,
    present,
    present_version,
    released_lines,
    removable,
)

LINES = RECORDED.read_text().splitlines()
ROW = "| `option checkpointer merge --old` | 1.4 | {} | `--new` |\n"


def test_the_interface_equals_the_recorded_one() -> None:
    differences = compared(LINES, present(), removable(RULE.read_text(), present_version()))
    assert differences == Differences([], []), f"\n{differences}"


def test_the_record_contains_everything_of_the_last_release() -> None:
    differences = compared(released_lines(ROOT), LINES, removable(RULE.read_text(), present_version()))
    assert differences.gone == [], f"\n{differences}"


def test_released_lines_come_from_the_last_tag(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    record = tmp_path / "docs" / RECORDED.name
    record.parent.mkdir()
    git("init", "-q")
    for lines in ("command a\ncommand b\n", "command a\n"):
        assert released_lines(tmp_path) == []
        record.write_text(lines)
        git("add", "docs")
        git("commit", "-q", "-m", "any")
        git("tag", f"v1.{len(lines)}")
    assert released_lines(tmp_path) == ["command a", "command b"]


def test_removed_lines_are_reported_with_the_next_step() -> None:
    text = str(compared(["command a", "command b"], ["command a", "command c"], ()))
    assert text.splitlines() == [
        "disappeared: command b",
        "next: restore them, or follow the deprecation rule of compatibility.md",
        "not recorded: command c",
        f"next: {COMMAND}",
    ]


def test_a_deprecated_line_is_removable_in_its_removal_version() -> None:
    page = ROW.format("2.0")
    assert removable(page, "1.9.3") == set()
    assert removable(page, "2.0.0") == removable(page, "2.1.0") == {"option checkpointer merge --old"}
    assert not any(compared(["option checkpointer merge --old"], [], removable(page, "2.0.0")))


@pytest.mark.parametrize("version", ["1.4", "1.5", "1.3", "2.1"])
def test_nothing_is_removable_before_the_next_major_version(version: str) -> None:
    with pytest.raises(ValueError, match=r"--old: deprecated in 1\.4, so it may be removed in 2\.0 at the earliest"):
        removable(ROW.format(version), "3.0.0")


def test_the_page_explains_every_kind_of_line() -> None:
    table = RULE.read_text().partition("| Kind |")[2].partition("\n\n")[0]
    explained = {name for row in table.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert explained == {line.split()[0] for line in LINES}


def test_every_python_function_is_documented() -> None:
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("pipeline*.md"))
    functions = {line.split()[1].rpartition(".")[2] for line in LINES if line.startswith("python ")}
    assert [name for name in functions if name not in pages] == []


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _helps(below, click.Context(below, parent=context, info_name=name))


def test_no_help_contains_formatting_marks() -> None:
    helps = dict(_helps(cli, click.Context(cli, info_name="checkpointer")))
    assert [path for path, text in helps.items() if "\b" in text or "\\b" in text] == []
