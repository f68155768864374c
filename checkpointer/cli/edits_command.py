"""`checkpointer edits`: look at edit log segments."""

from __future__ import annotations

import click

from checkpointer.cli.lazy_group import LazyGroup


@click.group(
    "edits",
    cls=LazyGroup,
    modules="checkpointer.cli.edits_{}_command",
    summaries={
        "info": "Layout, transaction ids and the count of each operation.",
        "dump": "Every operation, as XML or JSON.",
    },
)
def command() -> None:
    """Look at edit log segments."""
