"""`checkpointer edits`: look at edit log segments, make them from text, save what can be saved of them."""

from __future__ import annotations

import click

from hadoop_common.cli.lazy_group import LazyGroup


@click.group(
    "edits",
    cls=LazyGroup,
    modules="journal.cli.{}_command",
    summaries={
        "info": "Layout, transaction ids and the count of each operation.",
        "dump": "Every operation, as XML or JSON.",
        "load": "Make a segment from XML or JSON.",
        "convert": "Copy transactions from one journal to another, such as file: to json:.",
        "recover": "Cut the damaged tail of a segment off, into a new file.",
    },
)
def command() -> None:
    """Look at edit log segments, make them from text, and save what can be saved of damaged ones."""
