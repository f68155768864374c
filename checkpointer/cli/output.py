"""What commands share: options, JSON output, how numbers are written."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich import filesize

from checkpointer.cli.existing_path import EXISTING_FOLDER
from hadoop_common.configuration import Configuration

__all__ = [
    "byte_count",
    "conf_option",
    "duration",
    "echo_json",
    "json_option",
    "load_configuration",
]

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


def echo_json(value: Any) -> None:
    click.echo(json.dumps(value, sort_keys=True, default=str))


def byte_count(size: float) -> str:
    """`112.5 MB`, in powers of 1000."""
    return filesize.decimal(int(size))


def duration(seconds: float) -> str:
    """`4 s`, `3 min 40 s` or `2 h 5 min`."""
    whole = max(0, round(seconds))
    minutes, hours = whole // 60, whole // 3600
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
