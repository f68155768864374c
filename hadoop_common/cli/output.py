"""Options, JSON output and terminal helpers shared by commands."""

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
"""For commands that write images and edits: both contain delegation tokens that let a reader act as their owners."""


def json_option(function: F) -> F:
    """Add --json: one JSON object on standard output instead of text."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(function)


def conf_option(*, required: bool) -> Callable[[F], F]:
    """Add --conf DIR, the directory with core-site.xml and hdfs-site.xml."""
    return click.option(
        "--conf",
        "conf_dir",
        type=EXISTING_FOLDER,
        required=required,
        help="Directory with Hadoop's own core-site.xml and hdfs-site.xml.",
    )


def load_configuration(conf_dir: Path) -> Configuration:
    """Load Hadoop's configuration with this process's environment, and use its TLS settings for all connections."""
    # most commands read no configuration, and loading certificates is slow
    from hadoop_common.tls.process import use_client
    from hadoop_common.tls.settings import HttpPolicy, tls_config

    # a service manager may not set USER, and Hadoop's default directories contain the user name
    user = {"USER": pwd.getpwuid(os.geteuid()).pw_name}
    found = Configuration.load(conf_dir, environment=user | dict(os.environ))
    # faults in the TLS settings are reported by the reader of the complete configuration
    use_client(tls_config(found, HttpPolicy.HTTP_ONLY, FaultCollector()))
    return found


def echo(line: str, *, err: bool = False) -> None:
    """Print one line with unprintable characters escaped."""
    click.echo(escaped(line), err=err)


def echo_json(value: Any) -> None:
    """Print the JSON object of this command."""
    printed.set(True)
    click.echo(json.dumps(value, sort_keys=True, default=str))


def terminal_width() -> int | None:
    """Return the width of the terminal, None if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def coloured(text: str, colour: str) -> str:
    """Colour a text unless NO_COLOR is set (no-color.org); `click.echo` removes the colour in a pipe."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)
