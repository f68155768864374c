"""`checkpointer image`: examine an fsimage without loading its namespace."""

from __future__ import annotations

import click

from hadoop_common.cli.lazy_group import LazyGroup


@click.group(
    "image",
    cls=LazyGroup,
    modules="image_tools.cli.{}_command",
    elsewhere={"serve": "checkpointer.cli.image_serve_command"},
    summaries={
        "info": "Layout, transaction id, codec and sections.",
        "dump": "Every record as XML, delimited rows or JSON lines.",
        "diff": "Differences between two images.",
        "verify": "Check digest, frame and every record.",
        "serve": "Read-only WebHDFS, for `hdfs dfs` and scripts.",
        "load": "Build an image from its XML.",
        "convert": "Convert to another layout version, codec or sub-sections.",
    },
)
def command() -> None:
    """Examine fsimage files."""
