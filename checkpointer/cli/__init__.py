"""The `checkpointer` command: one module a command, loaded when it is asked for."""

from __future__ import annotations

import importlib
import sys

import click

from hadoop_common.errors import HdfsError

__all__ = ["main"]

_COMMANDS = {
    "run": "run",
    "checkpoint": "checkpoint",
    "merge": "merge",
    "image": "image",
    "edits": "edits",
}

_EPILOG = """\b
Exit codes:
  0  done, or nothing to do     4  edits damaged or not fitting
  1  failed                     5  not supported by this version
  2  wrong usage or config      6  storage directory unusable
  3  image damaged              7  transfer failed
"""


class _LazyGroup(click.Group):
    """Imports a command's module only when it runs, so that `--help` and usage errors are quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(f"checkpointer.cli.{module}_command").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hdfs-checkpointer", prog_name="checkpointer")
def cli() -> None:
    """Merge HDFS edits into the fsimage: as a daemon beside a NameNode, or by hand."""


def main() -> None:
    """Entry point: every known error is one line that says what is wrong and one what to do next."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except HdfsError as error:
        click.echo(f"checkpointer: {error.message}", err=True)
        if error.hint:
            click.echo(f"  next: {error.hint}", err=True)
        sys.exit(error.exit_code)
