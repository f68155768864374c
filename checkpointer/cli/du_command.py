"""`checkpointer du`: sizes of directories in an image."""

from __future__ import annotations

from pathlib import Path

import click

from checkpointer.cli.namespace_source import NamespaceSource, opened_namespace, source_options
from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.text_layout import byte_count
from image_format.memory_limit import MemoryLimit
from image_tools.cli.memory_options import memory_options


@click.command("du")
@source_options
@click.argument("paths", metavar="PATH…", nargs=-1, required=True)
@click.option("-s", "--summary", is_flag=True, help="Print one line for each PATH instead of one for each child.")
@click.option("-h", "--human-readable", is_flag=True, help="Print sizes such as 1.5 GB.")
@memory_options("the index", configured=False)
@json_option
def command(
    source: NamespaceSource,
    paths: tuple[str, ...],
    summary: bool,
    human_readable: bool,
    memory: int | None,
    spill_dir: Path | None,
    as_json: bool,
) -> None:
    """Print the size and the numbers of files and directories of each child of a directory PATH.

    The columns are the bytes of all files, the bytes with replicas or parity, the numbers of files and directories, and
    the path. Unlike `hdfs dfs -du` and quotas, the sums do not include data that exists only in snapshots. PATH may
    lead into a snapshot, such as /a/.snapshot/s1. --conf reads this node's newest image, and prints its name to
    standard error.

    Exit code 1 if a PATH does not exist.

    \b
    Example: checkpointer du --conf /etc/hadoop/conf -h /data /user
    """
    from image_tools.browse import ImageBrowser
    from image_tools.search.listing import listed, sized

    with opened_namespace(source, spill_dir) as image:
        browser = ImageBrowser(image, MemoryLimit(memory, spill_dir).allocator())
        rows = [
            row for path in paths for row in (sized(browser, each) for each in listed(browser, path, itself=summary))
        ]
    if as_json:
        echo_json({"txid": image.txid, "paths": rows})
        return
    for row in rows:
        sizes = [byte_count(row[key]) if human_readable else str(row[key]) for key in ("length", "space")]
        counts = [f"{row[key]:>10}" for key in ("files", "directories")]
        echo("  ".join([*(f"{size:>15}" for size in sizes), *counts, row["path"]]))
