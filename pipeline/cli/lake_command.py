"""The command group `checkpointer lake`."""

from __future__ import annotations

import click

from hadoop_common.cli.lazy_group import LazyGroup

_COMMANDS = {
    "append": "Append an image and edits to LAKE.",
    "list": "List the images and the transactions of LAKE.",
    "optimize": "Join small files of LAKE, and delete files that no table refers to any more.",
    "report": "Report growth over the newest images of LAKE, and operations by day and user.",
}


@click.group("lake", cls=LazyGroup, modules="pipeline.cli.lake_{}_command", summaries=_COMMANDS)
def command() -> None:
    """Keep images and edits as Delta tables, for any engine that reads Delta Lake or Parquet.

    LAKE/inodes and the other tables of images have a partition for each cluster and txid. LAKE/edits has a partition
    for each cluster and day (UTC). LAKE/images has a row for each image.
    """
