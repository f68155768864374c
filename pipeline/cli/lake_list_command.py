"""`checkpointer lake list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hadoop_common.cli.output import echo, echo_json, json_option, print_table
from pipeline.libraries import LAKE, require_libraries

if TYPE_CHECKING:
    from pipeline.lake import LakeContents


@click.command("list")
@json_option
@click.argument("lake")
def command(as_json: bool, lake: str) -> None:
    """List the images and the transactions of LAKE.

    \b
    Example: checkpointer lake list hdfs://nn/warehouse/hdfs --json
    Exit codes: 0 done, 2 usage error, 6 lake unusable
    """
    require_libraries(LAKE)
    from pipeline.lake import lake_contents, require_lake

    require_lake(lake)
    contents = lake_contents(lake)
    if as_json:
        echo_json(contents.as_dict())
    else:
        _print(contents)


def _print(contents: LakeContents) -> None:
    images = [
        [str(image.txid), f"{image.time:%Y-%m-%d %H:%M}", f"{image.rows:,}", f"{image.bytes:,}", image.cluster]
        for image in contents.images
    ]
    edits = [
        [str(each.first), str(each.last), f"{each.last - each.first + 1:,}", cluster]
        for cluster, ranges in contents.edits.items()
        for each in ranges
    ]
    print_table(("image", "time", "inodes", "bytes", "cluster"), images)
    print_table(("first", "last", "transactions", "cluster"), edits)
    for cluster, ranges in contents.missing.items():
        for each in ranges:
            echo(f"missing: {each.first} .. {each.last} of {cluster}")
