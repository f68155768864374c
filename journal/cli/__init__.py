"""`checkpointer edits`: inspect edit log segments, create them from text, and recover damaged segments."""

from __future__ import annotations

import click

from hadoop_common.cli.lazy_group import LazyGroup


@click.group(
    "edits",
    cls=LazyGroup,
    modules="journal.cli.{}_command",
    summaries={
        "info": "Show layout, transaction ids and the count of each operation.",
        "dump": "Print every operation as XML or JSON.",
        "load": "Create a segment from XML or JSON.",
        "convert": "Copy transactions from one journal to another, such as file: to json:.",
        "recover": "Write the intact part of a damaged segment to a new file.",
    },
)
def command() -> None:
    """Inspect edit log segments, create them from text, and recover damaged segments."""
