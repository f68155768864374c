"""`python -m pipeline.lake append …`: the process that the daemon starts after a checkpoint; prints an error as one
line.
"""

from __future__ import annotations

import sys

import click

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode
from pipeline.cli.lake_command import command


def main() -> None:
    """Run the command and exit with its code."""
    try:
        command.main(prog_name="python -m pipeline.lake", standalone_mode=False)
    except click.ClickException as error:
        click.echo(error.format_message(), err=True)
        sys.exit(ExitCode.USAGE)
    except HdfsError as error:
        click.echo(f"{error.message} ({error.hint})" if error.hint else error.message, err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
