"""`checkpointer journalnode`: run or format a JournalNode of a quorum journal."""

from __future__ import annotations

import click

from hadoop_common.cli.lazy_group import LazyGroup


@click.group(
    "journalnode",
    cls=LazyGroup,
    modules="checkpointer.cli.journalnode_{}_command",
    summaries={
        "run": "Run as a daemon: accept edits by RPC, serve segments by HTTP.",
        "format": "Format journals with the namespace of the other JournalNodes.",
    },
)
def command() -> None:
    """Run a JournalNode in place of a Hadoop JournalNode, or together with Hadoop's, with the same configuration."""
