"""The `checkpointer` command: one module a command, loaded when it is asked for."""

from __future__ import annotations

import importlib
import sys

import click

from hadoop_common.errors import HdfsError

__all__ = ["main"]

_COMMANDS = {
    "run": "Run as a daemon: checkpoint when one is due, upload, serve HTTP.",
    "checkpoint": "Ask the running daemon for a checkpoint and wait for the result.",
    "merge": "Merge a stopped NameNode's storage directory.",
    "image": "Look at fsimage files.",
    "edits": "Look at edit log segments.",
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
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f"checkpointer.cli.{cmd_name}_command").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


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
