"""`checkpointer journalnode`: a JournalNode of a quorum journal."""

from __future__ import annotations

import click

from hadoop_common.cli.lazy_group import LazyGroup


@click.group(
    "journalnode",
    cls=LazyGroup,
    modules="checkpointer.cli.journalnode_{}_command",
    summaries={
        "run": "Run as a daemon: take edits by RPC, serve segments by HTTP.",
        "format": "Begin journals as the other JournalNodes have them.",
    },
)
def command() -> None:
    """Run a JournalNode beside, or in place of, those of Hadoop; directories and configuration are Hadoop's own."""
