"""`checkpointer image dump`: prints an fsimage as XML, delimited rows, JSON lines or statistics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from hadoop_common.cli.output import EXISTING_FILE, echo, parsed_by
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.hadoop_releases import HADOOP_2, HADOOP_3, RELEASES
from hadoop_common.quantities import parse_positive_size
from image_format.layout import NEWEST_LAYOUT
from image_format.memory_limit import MemoryLimit
from image_format.reader import ImageFile
from image_tools.cli.memory_options import memory_limited, memory_options
from image_tools.cli.text_file import check_output, emit
from image_tools.dump.distribution import MAX_BUCKETS, dump_distribution
from image_tools.dump.records import ImageRecords
from image_tools.dump.xml_dump import XmlForm, dump_xml, form_of

_RELEASES_2 = (XmlForm.RELEASE_2.value, HADOOP_2.version)
_RELEASES = [*dict.fromkeys((*(form.value for form in XmlForm), *RELEASES))]


@click.command("dump")
@click.argument("path", metavar="FSIMAGE", type=EXISTING_FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(["xml", "delimited", "json", "distribution", "corruption"]),
    default="xml",
    show_default=True,
    help="xml, delimited, distribution (files by size) or corruption (missing inodes) as in the OfflineImageViewer, "
    "or one JSON object for each record.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write (default: stdout).")
@click.option("--force", is_flag=True, help="Replace the output file.")
@click.option(
    "--release",
    type=click.Choice(_RELEASES),
    help="xml, delimited: release of the format (default: the image's release). 2.7 is 2.7.3, 3.x is 3.4.1.",
)
@click.option("--delimiter", default="\t", help="delimited, corruption: column separator (default: tab).")
@click.option("--header", is_flag=True, help="delimited: print a header row; 3.x always prints it.")
@click.option("--storage-policy", is_flag=True, help="delimited of 3.x: add the storage policy id (oiv -sp).")
@click.option("--ec-policy", is_flag=True, help="delimited of 3.x: add the erasure coding policy (oiv -ec).")
@click.option(
    "--max-size",
    metavar="SIZE",
    default="128g",
    show_default=True,
    callback=parsed_by(parse_positive_size),
    help="distribution: all larger files form one range.",
)
@click.option(
    "--step",
    metavar="SIZE",
    default="2m",
    show_default=True,
    callback=parsed_by(parse_positive_size),
    help="distribution: width of a range.",
)
@click.option(
    "--human-readable",
    is_flag=True,
    help="distribution: print ranges such as (2 MB, 4 MB], as -format of Hadoop 3.x does.",
)
@memory_options("the paths in delimited rows", configured=False)
def command(
    path: Path,
    form: str,
    output: Path | None,
    force: bool,
    release: str | None,
    delimiter: str,
    header: bool,
    storage_policy: bool,
    ec_policy: bool,
    max_size: int,
    step: int,
    human_readable: bool,
    memory: int | None,
    spill_dir: Path | None,
) -> None:
    """Print an image as text; exit with code 3 if the image is damaged.

    The XML of Hadoop 2.7 lacks ACLs, extended attributes, keys, tokens and snapshot copies; json contains everything.
    The `delimited` format has one row for each inode of the current tree, with times in the local time zone. An output
    file appears complete or not at all.

    \b
    Examples:
      checkpointer image dump /data/nn/current/fsimage_0000000000000000042
      checkpointer image dump --format delimited --output rows.tsv fsimage_0000000000000000042
      checkpointer image dump --format distribution --max-size 1g --step 64m fsimage_0000000000000000042
    """
    if not delimiter:
        raise click.BadParameter("must not be empty", param_hint="--delimiter")
    if max_size // step >= MAX_BUCKETS:
        raise click.BadParameter(f"results in more than {MAX_BUCKETS} ranges up to --max-size", param_hint="--step")
    with_policies = storage_policy or ec_policy
    if with_policies and form != "delimited":
        raise click.UsageError("--storage-policy and --ec-policy need --format delimited.")
    check_output(output, path, force=force)
    with (
        memory_limited(memory),
        ImageFile.open(path, verify_md5=False, allow_unknown_layout=True, spool_dir=spill_dir) as image,
        ProgressObserver(show=output is not None) as observer,
    ):
        if release is None:
            newer = form_of(image.layout_version) is XmlForm.RELEASE_3
        else:
            newer = release not in _RELEASES_2
        if with_policies and not newer:
            raise click.UsageError("--storage-policy and --ec-policy need the rows of Hadoop 3: add --release 3.x.")
        records = ImageRecords(image, observer.advance)
        _warn(records)
        observer.phase("dump", records.inode_header().numInodes)
        # Imported here, because loading the kernels of a format takes as long as printing a small image.
        match form:
            case "json":
                from image_tools.dump.json_lines import dump_json

                pieces: Iterator[str | bytes] = dump_json(records)
            case "delimited":
                from image_tools.dump.delimited import PolicyColumns, dump_delimited, header_row

                room = MemoryLimit(memory and memory // 2, spill_dir).allocator()
                policies = PolicyColumns(storage_policy, ec_policy)
                head = [header_row(delimiter, policies)] if header or newer else []
                pieces = chain(head, dump_delimited(records, delimiter, room, release_3=newer, policies=policies))
            case "corruption":
                from image_tools.dump.corruption import dump_corruption

                pieces = dump_corruption(records, delimiter)
            case "distribution":
                pieces = dump_distribution(records, max_size, step, readable=human_readable)
            case _:
                named = None if release is None else RELEASES.get(release, HADOOP_3)
                asked = XmlForm.RELEASE_3 if newer else XmlForm.RELEASE_2
                pieces = dump_xml(records, asked, release=named)
        emit(pieces, output)


def _warn(records: ImageRecords) -> None:
    image = records.image
    if image.layout_version < NEWEST_LAYOUT:
        text = f"layout version {image.layout_version} is newer than {NEWEST_LAYOUT.value}, the newest known version"
        echo(f"checkpointer: warning: {text}; its new content is omitted", err=True)
    for name in records.unknown_sections:
        echo(f"checkpointer: warning: section {name} is unknown and omitted", err=True)
