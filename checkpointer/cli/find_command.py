"""`checkpointer find`: search an image by the attributes of its inodes."""

from __future__ import annotations

import time
from pathlib import Path

import click

from checkpointer.cli.namespace_source import NamespaceSource, opened_namespace, source_options
from hadoop_common.cli.output import parsed_by
from hadoop_common.extras import install_hint
from hadoop_common.quantities import parse_size
from hadoop_common.storage_policies import POLICY_IDS, STORAGE_POLICIES, UNSPECIFIED_POLICY, storage_policy
from image_format.memory_limit import MemoryLimit
from image_tools.cli.memory_options import memory_options
from image_tools.cli.text_file import check_output, emit
from image_tools.search.criteria import KINDS, Criteria, NumberRange

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def _moment(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Parse an age such as 90d, or a time; return milliseconds since 1970."""
    if text is None:
        return None
    if text[:-1].isdecimal() and text[-1] in _SECONDS:
        return int((time.time() - int(text[:-1]) * _SECONDS[text[-1]]) * 1000)
    from archive.cli.options import parse_time

    return parse_time(text)


def _not_empty(text: str) -> str:
    """Return `text`; an empty text, such as a shell variable that is not set, must not match every inode."""
    if not text:
        raise ValueError("is empty; omit the option instead")
    return text


def _policy(text: str) -> str:
    """Return the name of a policy, given by its name or number, or the number of a policy without a name.

    Raises:
        ValueError: no policy has this name or number.
    """
    name = text.upper()
    if name.isdecimal() and UNSPECIFIED_POLICY < int(name) < POLICY_IDS:
        policy = storage_policy(int(name))
        return str(int(name)) if policy is None else policy.name
    if any(policy.name == name for policy in STORAGE_POLICIES):
        return name
    names = ", ".join(policy.name for policy in STORAGE_POLICIES)
    raise ValueError(f"is not one of {names}, or a number from {UNSPECIFIED_POLICY + 1} to {POLICY_IDS - 1}")


_TIME = "an age such as 90d (m, h, d, w), or a time such as 2026-11-28T14:03:00"


@click.command("find")
@source_options
@click.argument("paths", metavar="PATH…", nargs=-1, required=True)
@click.option("--name", metavar="GLOB", callback=parsed_by(_not_empty), help="Local names that match, such as '*.tmp'.")
@click.option("--type", "kind", type=click.Choice(sorted(KINDS)), help="Type of the inode.")
@click.option("--owner", metavar="USER", callback=parsed_by(_not_empty), help="Owner.")
@click.option("--group", metavar="GROUP", callback=parsed_by(_not_empty), help="Group.")
@click.option("--min-size", metavar="SIZE", callback=parsed_by(parse_size), help="Files of at least SIZE, such as 64m.")
@click.option("--max-size", metavar="SIZE", callback=parsed_by(parse_size), help="Files of at most SIZE.")
@click.option("--modified-before", metavar="T", callback=_moment, help=f"Modified at or before T: {_TIME}.")
@click.option("--modified-after", metavar="T", callback=_moment, help="Modified at or after T.")
@click.option("--accessed-before", metavar="T", callback=_moment, help="Accessed at or before T (not directories).")
@click.option("--accessed-after", metavar="T", callback=_moment, help="Accessed at or after T.")
@click.option("--min-replication", type=click.IntRange(0), metavar="N", help="Files with at least N replicas.")
@click.option("--max-replication", type=click.IntRange(0), metavar="N", help="Files with at most N replicas.")
@click.option(
    "--storage-policy",
    metavar="NAME",
    callback=parsed_by(_policy),
    help="Storage policy of the inode itself, by name or number, such as COLD.",
)
@click.option("--acl", is_flag=True, help="Inodes with ACL entries.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["lines", "json", "parquet"]),
    default="lines",
    show_default=True,
    help="Paths, JSON Lines, or Parquet (needs --output and pyarrow).",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write (default: stdout).")
@click.option("--force", is_flag=True, help="Replace the output file.")
@memory_options("the arrays of the tree", configured=False)
def command(
    source: NamespaceSource,
    paths: tuple[str, ...],
    name: str | None,
    kind: str | None,
    owner: str | None,
    group: str | None,
    min_size: int | None,
    max_size: int | None,
    modified_before: int | None,
    modified_after: int | None,
    accessed_before: int | None,
    accessed_after: int | None,
    min_replication: int | None,
    max_replication: int | None,
    storage_policy: str | None,
    acl: bool,
    form: str,
    output: Path | None,
    force: bool,
    memory: int | None,
    spill_dir: Path | None,
) -> None:
    """Print the inodes at and below each PATH that match all options, without querying the NameNode.

    --conf reads this node's newest image, which is as old as its last checkpoint, and prints its name to standard
    error. Inodes are printed in the order of the image. Snapshots are not searched. JSON and Parquet have path, type,
    owner, group, mode, length, replication, blockSize, blocks, mtime and atime (ms since 1970), and storagePolicy.
    Values that do not apply to an inode's type are 0 or null. The replication of an erasure-coded file is 1, as in
    `hdfs dfs -ls`.

    Exit code 0, even if nothing matches; 1 if a PATH does not exist.

    \b
    Examples:
      checkpointer find --conf /etc/hadoop/conf /data --type file --max-size 1m --accessed-before 180d
      checkpointer find --image fsimage_0000000000000000042 / --name '*.tmp' --owner etl --format json
      checkpointer find --archive /backup/hdfs --as-of 2026-11-28T14:00:00 /data/warehouse
    """
    if form == "parquet" and output is None:
        raise click.UsageError("--format parquet requires --output.")
    from image_tools.search.rows import json_lines, path_lines, write_parquet
    from image_tools.search.scan import NamespaceScan

    criteria = Criteria(
        name=name or "",
        kind=kind or "",
        owner=owner or "",
        group=group or "",
        size=NumberRange(min_size, max_size),
        modified=NumberRange(modified_after, modified_before),
        accessed=NumberRange(accessed_after, accessed_before),
        replication=NumberRange(min_replication, max_replication),
        policy=storage_policy or "",
        acl=acl,
    )
    with opened_namespace(source, spill_dir) as image:
        check_output(output, image.path, force=force)
        scan = NamespaceScan(image, MemoryLimit(memory, spill_dir).allocator())
        found = scan.find(paths, criteria)
        if form == "parquet" and output is not None:
            try:
                write_parquet(scan, found, output)
            except ImportError as error:
                raise click.UsageError(f"--format parquet requires PyArrow. {install_hint('spark')}") from error
        else:
            emit(json_lines(scan, found) if form == "json" else path_lines(scan, found), output)
