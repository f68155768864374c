"""`checkpointer ls`: list directories of an image."""

from __future__ import annotations

from pathlib import Path

import click

from checkpointer.cli.namespace_source import NamespaceSource, opened_namespace, source_options
from hadoop_common.cli.output import echo, json_option
from hadoop_common.printable import escaped_json
from image_format.memory_limit import MemoryLimit
from image_tools.cli.memory_options import memory_options


@click.command("ls")
@source_options
@click.argument("paths", metavar="PATH…", nargs=-1, required=True)
@click.option("-d", "--directory", is_flag=True, help="List the directory itself instead of its children.")
@memory_options("the index", configured=False)
@json_option
def command(
    source: NamespaceSource,
    paths: tuple[str, ...],
    directory: bool,
    memory: int | None,
    spill_dir: Path | None,
    as_json: bool,
) -> None:
    """List the children of each PATH in name order, as `hdfs dfs -ls` does.

    --json prints one JSON object per inode, each on its own line. PATH may lead into a snapshot, such as
    /a/.snapshot/s1. --conf reads this node's newest image, and prints its name to standard error.

    Exit code 1 if a PATH does not exist.

    \b
    Example: checkpointer ls --conf /etc/hadoop/conf /data
    """
    from image_tools.browse import ImageBrowser
    from image_tools.search.listing import attributes, listed, ls_line

    with opened_namespace(source, spill_dir) as image:
        browser = ImageBrowser(image, MemoryLimit(memory, spill_dir).allocator())
        for path in paths:
            for each in listed(browser, path, itself=directory):
                row = attributes(browser, each)
                if as_json:
                    # JSON is UTF-8, even if the encoding of the locale is not
                    click.echo(escaped_json(row).encode())
                else:
                    echo(ls_line(row))
