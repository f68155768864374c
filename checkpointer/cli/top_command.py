"""`checkpointer top`: the largest files, directories, owners or groups of an image."""

from __future__ import annotations

from pathlib import Path

import click

from checkpointer.cli.namespace_source import NamespaceSource, opened_namespace, source_options
from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.quantities import counted
from hadoop_common.text_layout import byte_count
from image_format.memory_limit import MemoryLimit
from image_tools.cli.memory_options import memory_options


@click.command("top")
@source_options
@click.argument("paths", metavar="[PATH…]", nargs=-1)
@click.option(
    "--of",
    "what",
    type=click.Choice(["files", "directories", "owners", "groups"]),
    default="files",
    show_default=True,
    help="What to rank; a directory counts the files directly in it.",
)
@click.option(
    "--by",
    type=click.Choice(["length", "files"]),
    default="length",
    show_default=True,
    help="Rank by bytes or by files.",
)
@click.option("-n", "--number", type=click.IntRange(1), default=10, show_default=True, help="Rows to print.")
@memory_options("the arrays of the tree", configured=False)
@json_option
def command(
    source: NamespaceSource,
    paths: tuple[str, ...],
    what: str,
    by: str,
    number: int,
    memory: int | None,
    spill_dir: Path | None,
    as_json: bool,
) -> None:
    """Print the largest files, directories, owners or groups at and below each PATH (default: /).

    Bytes are the lengths of files, without replicas. --conf reads this node's newest image, and prints its name to
    standard error.

    \b
    Example: checkpointer top --conf /etc/hadoop/conf /data --of owners -n 20
    """
    if what == "files" and by == "files":
        raise click.UsageError("--by files needs --of directories, owners or groups.")
    from image_tools.search.ranking import rank
    from image_tools.search.scan import NamespaceScan

    with opened_namespace(source, spill_dir) as image:
        scan = NamespaceScan(image, MemoryLimit(memory, spill_dir).allocator())
        rows = rank(scan, paths or ("/",), what, by, number)
    if as_json:
        echo_json({"txid": image.txid, "of": what, "by": by, "rows": [row._asdict() for row in rows]})
        return
    for row in rows:
        echo(f"{byte_count(row.length):>12}  {counted(row.files, 'file', '>12,'):<18}  {row.name}")
