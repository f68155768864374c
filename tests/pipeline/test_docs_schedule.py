"""The recipes of docs/pipeline.md for systemd, cron and Airflow: commands that exist, in units that systemd accepts."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from checkpointer.cli import cli

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
PROGRAM = "/opt/hdfs-checkpointer/bin/checkpointer"


def blocks(language: str) -> list[str]:
    section = PAGE[PAGE.index("## On a schedule") :]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def airflow_commands() -> list[str]:
    """Return the f-strings of the DAG with their values; Airflow's own placeholders stay."""
    (dag,) = blocks("python")
    names = {"CHECKPOINTER": PROGRAM, "IMAGES": "/backup/fsimage"}
    found = [
        node.value for node in ast.walk(ast.parse(dag)) if isinstance(node, ast.keyword) and node.arg == "bash_command"
    ]
    return [eval(compile(ast.Expression(value), "dag", "eval"), names) for value in found]


def commands() -> list[str]:
    timed = [line.partition("=")[2] for text in blocks("ini") for line in text.splitlines() if "ExecStart" in line]
    (cron,) = blocks("cron")
    schedule, user, command = re.fullmatch(r"((?:[\d*]+ ){5})(\w+) (.*)\n", cron).groups()  # type: ignore[union-attr]
    assert (schedule, user) == ("15 5 * * * ", "hdfs")
    return [*timed, command.partition("/lock ")[2], *airflow_commands()]


def test_commands_of_the_recipes_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    found = commands()
    assert len(found) == 6
    # the existence of a folder is checked on the machine where the units run
    monkeypatch.setattr("hadoop_common.cli.output._ExistingPath.convert", lambda self, value, *_: Path(value))
    for line in found:
        program, *words = shlex.split(line.replace("{{ ds }}", "2026-01-01"))
        assert program == PROGRAM
        command: click.Command = cli
        context = click.Context(cli, info_name="checkpointer")
        while isinstance(command, click.Group):
            name, command, words = command.resolve_command(context, words)  # type: ignore[assignment]
            if isinstance(command, click.Group):
                context = click.Context(command, info_name=name, parent=context)
        command.make_context(name, list(words), parent=context)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_timer(tmp_path: Path) -> None:
    for text in blocks("ini"):
        path = tmp_path / Path(text.splitlines()[0].removeprefix("# ")).name
        here = text.replace(PROGRAM, str(Path(sys.executable).parent / "checkpointer"))
        path.write_text(here.replace("User=hdfs", "User=root").replace("Group=hadoop", "Group=root"))
    command = ["systemd-analyze", "verify", "--recursive-errors=no", tmp_path / "hdfs-report.timer"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
