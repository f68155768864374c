"""What commands share: options, JSON output, progress bars on a terminal."""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from checkpointer.cli.existing_path import EXISTING_FOLDER
from hadoop_common.configuration import Configuration
from hadoop_common.printable import escaped

__all__ = ["ProgressObserver", "conf_option", "echo", "echo_json", "json_option", "load_configuration"]

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    """--json: one JSON object on standard output instead of text."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(function)


def conf_option(*, required: bool) -> Callable[[F], F]:
    """--conf DIR: where core-site.xml and hdfs-site.xml lie."""
    return click.option(
        "--conf",
        "conf_dir",
        type=EXISTING_FOLDER,
        required=required,
        help="Directory with Hadoop's own core-site.xml and hdfs-site.xml.",
    )


def load_configuration(conf_dir: Path) -> Configuration:
    """Hadoop's configuration; the environment is read here and nowhere below."""
    # A service manager may set no USER, and Hadoop's default directories hold the user's name.
    user = {"USER": pwd.getpwuid(os.geteuid()).pw_name}
    return Configuration.load(conf_dir, environment=user | dict(os.environ))


def echo(line: str, *, err: bool = False) -> None:
    """Print one line, whatever names of files or other texts of strangers are in it."""
    click.echo(escaped(line), err=err)


def echo_json(value: Any) -> None:
    click.echo(json.dumps(value, sort_keys=True, default=str))


class ProgressObserver:
    """Shows the phases of a merge as bars on a terminal, nothing elsewhere."""

    def __init__(self, *, show: bool) -> None:
        console = Console(stderr=True)
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<7}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not (show and sys.stderr.isatty()),
        )
        self._task: Any = None

    def __enter__(self) -> ProgressObserver:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def phase(self, name: str, total: int | None) -> None:
        self._task = self._bars.add_task(name, total=total)

    def advance(self, done: int) -> None:
        self._bars.update(self._task, completed=done)

    def saved(self) -> None:
        """The bar of the save is full."""

    def cancelled(self) -> bool:
        return False
