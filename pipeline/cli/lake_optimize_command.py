"""`checkpointer lake optimize`."""

from __future__ import annotations

import click

from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.quantities import counted
from pipeline.libraries import LAKE, require_libraries


@click.command("optimize")
@click.option(
    "--hours",
    type=click.IntRange(min=0),
    help="Delete files that only versions older than this use (default: 168). Readers of older versions then fail."
    " Below 168, files of killed appends are kept, because a running append may commit them.",
)
@json_option
@click.argument("lake")
def command(hours: int | None, as_json: bool, lake: str) -> None:
    """Join small files of LAKE, and delete files that no table refers to any more.

    `lake append` joins the files of each day once the day is over, and deletes files when it removes images. This
    command does both for all tables, and removes the files of killed appends.

    \b
    Example: checkpointer lake optimize hdfs://nn/warehouse/hdfs
    Exit codes: 0 done, 2 usage error, 6 lake unusable
    """
    require_libraries(LAKE)
    from pipeline.lake import join_all, require_lake, vacuum

    require_lake(lake)
    join_all(lake)
    deleted = vacuum(lake, hours)
    if as_json:
        echo_json({"lake": lake, "deletedFiles": deleted})
    else:
        echo(f"{counted(deleted, 'file')} deleted")
