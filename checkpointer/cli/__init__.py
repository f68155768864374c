"""The `checkpointer` command. Each subcommand has a separate module, which the group loads when the subcommand runs."""

from __future__ import annotations

import atexit
import gc
import io
import sys

import click

from hadoop_common.cli.lazy_group import LazyGroup
from hadoop_common.cli.output import as_failure, failure, one_object, shown_error
from hadoop_common.exit_codes import ExitCode
from hadoop_common.process_tuning import collect_garbage_rarely
from hadoop_common.product import PACKAGE

_COMMANDS = {
    "run": "Run as a daemon: make checkpoints when they are due, upload, serve HTTP.",
    "journalnode": "Run a JournalNode, or format its journals with its peers' namespace.",
    "zkfc": "Elect the active NameNode with ZooKeeper, as hdfs zkfc does.",
    "checkpoint": "Ask the running daemon for a checkpoint and wait for the result.",
    "status": "Show the state of the running daemon on one screen.",
    "find": "Search an image by name, owner, size, time and policy.",
    "du": "Show the sizes of directories in an image.",
    "ls": "List directories of an image.",
    "top": "Show the largest files, directories, owners or groups of an image.",
    "history": "Show the checkpoints, failures and events of the last days.",
    "console": "Serve a read-only page about several clusters.",
    "acknowledge": "Acknowledge the present alarms of a kind, with a reason.",
    "silence": "Silence a kind of alarm of the running daemon for a while.",
    "check": "Check NameNodes, storage and daemon, as a Nagios plugin or with JSON.",
    "config": "List every key with its status and value, and all faults.",
    "fetch-image": "Fetch the newest image of the active NameNode as a backup.",
    "merge": "Merge a stopped NameNode's storage directory.",
    "image": "Examine fsimage files: info, dump, diff, verify, serve, convert.",
    "edits": "Examine edit log segments: info, dump, load, convert, recover.",
    "archive": "Archive every transaction, and restore any moment.",
    "undelete": "Undo a deletion in a stopped NameNode's storage directory.",
    "bookie": "Run a bookie for development and tests, not for production.",
    "compile": "Compile the kernels now, so that checkpoints do not wait for the compiler.",
}

_USAGE = "See the command's --help."

_EPILOG = "\n".join(("\b", "Exit codes:", *(f"  {code.value}  {code.meaning}" for code in ExitCode)))


@click.group(
    cls=LazyGroup,
    modules="checkpointer.cli.{}_command",
    summaries=_COMMANDS,
    elsewhere={
        "archive": "archive.cli",
        "undelete": "archive.cli.undelete_command",
        "edits": "journal.cli",
        "bookie": "journal.bookie.cli",
        "zkfc": "failover.cli",
    },
    plugins="checkpointer.commands",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name=PACKAGE, prog_name="checkpointer")
def cli() -> None:
    """Merge HDFS edits into the fsimage: as a daemon next to a NameNode, or offline."""


def main() -> None:
    """Run the command. For a known error, print its message and next step, or a JSON object with --json."""
    collect_garbage_rarely()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # the encoding of the locale may lack characters of names and of our own messages
        sys.stdout.reconfigure(errors="backslashreplace")
    # otherwise, garbage collection at the interpreter's exit would visit all imported modules
    atexit.register(gc.freeze)
    with one_object() as fail:
        try:
            cli.main(standalone_mode=False)
        except click.exceptions.Abort:
            click.echo("interrupted", err=True)
            sys.exit(130)
        except click.ClickException as error:
            error.show()
            fail(failure(error.format_message(), error.exit_code, next_step=_USAGE))
            sys.exit(error.exit_code)
        except click.exceptions.Exit as leave:
            sys.exit(leave.exit_code)
        except Exception as fault:
            known = shown_error("checkpointer", fault)
            fail(as_failure(known))
            sys.exit(known.exit_code)
