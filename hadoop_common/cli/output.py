"""Options, JSON output and terminal helpers shared by commands."""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import click

from hadoop_common.configuration import Configuration, FaultCollector
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import FileFaultError, as_hdfs_error
from hadoop_common.printable import escaped
from hadoop_common.process_user import process_user
from hadoop_common.text_layout import table_lines


class _ExistingPath(click.Path):
    """Click's path type, which reports a failing disk instead of a usage error."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(exists=True, file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        try:
            mode = os.stat(value).st_mode  # noqa: PTH116 - the value is not yet a path
        except (FileNotFoundError, NotADirectoryError):
            self.fail(f"{self.name.capitalize()} {os.fspath(value)!r} does not exist.", param, ctx)
        except OSError as fault:
            raise FileFaultError(fault, value, "cannot be read") from fault
        if not (self.dir_okay if stat.S_ISDIR(mode) else self.file_okay):
            is_a = "directory" if stat.S_ISDIR(mode) else "file"
            self.fail(f"{self.name.capitalize()} {os.fspath(value)!r} is a {is_a}.", param, ctx)
        return Path(value)


class FiniteRange(click.FloatRange):
    """Click's range of numbers, without infinity and NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


EXISTING = _ExistingPath()
EXISTING_FILE = _ExistingPath(dir_okay=False)
EXISTING_FOLDER = _ExistingPath(file_okay=False)


printed: ContextVar[bool] = ContextVar("printed", default=False)
"""Whether this command has printed its JSON object."""


@contextmanager
def one_object() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that prints a failure of the enclosed command as JSON.

    The function prints nothing without `--json`, or if the command has already printed its object.
    """
    token = printed.set(False)

    def fail(failure: dict[str, Any]) -> None:
        if "--json" in sys.argv[1:] and not printed.get():
            # standard output may be the cause of the failure; the exit code and standard error report it
            with suppress(OSError):
                click.echo(json.dumps(failure, sort_keys=True))

    try:
        yield fail
    finally:
        printed.reset(token)


def as_failure(error: HdfsError) -> dict[str, Any]:
    """Return the JSON of an error; txid and file are null if the error does not name them."""
    file = getattr(error, "file", "") or getattr(error, "filename", "")
    txid = getattr(error, "txid", None)
    return failure(error.message, error.exit_code, next_step=error.hint, file=str(file) if file else None, txid=txid)


def failure(
    message: str, code: int, *, next_step: str, file: str | None = None, txid: int | None = None
) -> dict[str, Any]:
    """Return the JSON object that describes a failure."""
    return {"error": message, "code": code, "txid": txid, "file": file, "next": next_step}


NEXT = "next: "


def next_line(hint: str) -> str:
    """Return the line with the next step that follows an error."""
    return f"  {NEXT}{hint}"


def shown_error(program: str, fault: Exception) -> HdfsError:
    """Print the message and the next step of a known error, and return the error; re-raise any other fault."""
    known = as_hdfs_error(fault)
    if known is None:
        raise fault
    click.echo(escaped(f"{program}: {known.message}", keep="\n"), err=True)
    if known.hint:
        click.echo(escaped(next_line(known.hint)), err=True)
    return known


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

PRIVATE_UMASK = 0o077
"""Umask for commands that write images and edits, because readers could impersonate the owners of delegation tokens."""


def json_option(function: F) -> F:
    """Add --json, which prints one JSON object on standard output instead of text."""
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


def listening_options(port: int) -> Callable[[F], F]:
    """Add --host and --port, the address of a command's server; `port` is the default port."""
    host_option = click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
    port_option = click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=port,
        show_default=True,
        help="Port to listen on; 0 selects a free port.",
    )
    return lambda command: host_option(port_option(command))


def load_configuration(conf_dir: Path, *, warns: bool = True) -> Configuration:
    """Load Hadoop's configuration as `read_configuration` does, and use its TLS settings for all connections."""
    # most commands do not read a configuration, and loading certificates is slow
    from hadoop_common.tls.reloading import use_client
    from hadoop_common.tls.settings import HttpPolicy, tls_config

    found = read_configuration(conf_dir, warns=warns)
    # the reader of the complete configuration reports faults in the TLS settings
    use_client(tls_config(found, HttpPolicy.HTTP_ONLY, FaultCollector()))
    return found


def read_configuration(conf_dir: Path, *, warns: bool = True) -> Configuration:
    """Load Hadoop's configuration with this process's environment.

    Warnings about values go to standard error; if `warns` is false, the caller must report all `warnings`.

    Raises:
        ConfigurationError: no file exists, or a file cannot be read.
    """
    # Java's user.name, which Hadoop's default directories contain, does not depend on USER
    found = Configuration.load(conf_dir, environment={**os.environ, "USER": process_user()})
    if warns:
        found.on_warning = lambda text: echo(f"warning: {text}", err=True)
    return found


def refuse_input(output: Path, source: Path, name: str) -> None:
    """Refuse an output that is the input, even under another path or with --force.

    Raises:
        click.BadParameter: the output is the input file; `name` is the name of the option or argument.
    """
    if output.exists() and output.samefile(source):
        raise click.BadParameter(f"{output} is the input file", param_hint=name)


def parsed_by(parse: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """Return a callback that parses an option's string; None stays None, and a ValueError becomes a usage error."""

    def parsed(context: click.Context, parameter: click.Parameter, text: str | None) -> T | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r} {error}", context, parameter) from error

    return parsed


def echo(line: str, *, err: bool = False) -> None:
    """Print one line with unprintable characters escaped."""
    click.echo(escaped(line), err=err)


def echo_json(value: Any) -> None:
    """Print the JSON object of this command."""
    printed.set(True)
    click.echo(json.dumps(value, sort_keys=True, default=str))


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose last column is text."""
    right = [True] * (len(titles) - 1) + [False]
    for line in table_lines(titles, rows, right=right, width=terminal_width()):
        echo(line)
    echo("")


def terminal_width() -> int | None:
    """Return the width of the terminal, or None if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def coloured(text: str, colour: str) -> str:
    """Colour a string unless NO_COLOR is set (no-color.org); `click.echo` removes the colour in a pipe."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)
