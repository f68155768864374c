"""What commands share: options, JSON output, the terminal."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hadoop_common.cli.existing_path import EXISTING_FOLDER
from hadoop_common.cli.json_failure import printed
from hadoop_common.configuration import Configuration, FaultCollector
from hadoop_common.printable import escaped

F = TypeVar("F", bound=Callable[..., Any])

PRIVATE_UMASK = 0o077
"""For what makes images and edits: who can read one acts as anybody whose delegation token is in it."""


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
    """Hadoop's configuration, by which this process connects over TLS from now on; here the environment is read."""
    # most commands read no configuration, and certificates take a while to load
    from hadoop_common.tls.process import use_client
    from hadoop_common.tls.settings import HttpPolicy, tls_config

    # A service manager may set no USER, and Hadoop's default directories hold the user's name.
    user = {"USER": pwd.getpwuid(os.geteuid()).pw_name}
    found = Configuration.load(conf_dir, environment=user | dict(os.environ))
    # what is wrong with it is told by who reads all of the configuration
    use_client(tls_config(found, HttpPolicy.HTTP_ONLY, FaultCollector()))
    return found


def echo(line: str, *, err: bool = False) -> None:
    """Print one line, whatever names of files or other texts of strangers are in it."""
    click.echo(escaped(line), err=err)


def echo_json(value: Any) -> None:
    """Print the one JSON object of this command."""
    printed.set(True)
    click.echo(json.dumps(value, sort_keys=True, default=str))


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def coloured(text: str, colour: str) -> str:
    """For a terminal, unless NO_COLOR is set (no-color.org); `click.echo` removes it in a pipe."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)
