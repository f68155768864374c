"""`checkpointer archive list`: lists the content of an archive, and the moments that it can restore."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from archive.catalogue import Catalogue
from archive.cli.options import archive_options, opened
from archive.moments import histories, missing_edits, moments, view_of
from archive.restoring import format_time
from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.quantities import counted


@click.command("list")
@archive_options
@json_option
def command(location: str, key_file: Path | None, as_json: bool) -> None:
    """List base images, edits, branches and the moments that can be restored.

    \b
    Example: checkpointer archive list --archive /backup/hdfs
    """
    with opened(location, key_file) as archive:
        catalogue = archive.catalogue()
    if as_json:
        echo_json(_content(catalogue))
    else:
        _print(catalogue)


def _content(catalogue: Catalogue) -> dict[str, Any]:
    branches = []
    for name in sorted(catalogue.branches):
        ranges = [[each.start, each.stop - 1] for each in moments(view_of(catalogue, name))]
        missing = [[each.start, each.stop - 1] for each in missing_edits(catalogue, name)]
        branches.append({**asdict(catalogue.branches[name]), "moments": ranges, "missing": missing})
    return {
        "histories": histories(catalogue),
        "branches": branches,
        "images": [asdict(each) for each in catalogue.images],
        "edits": [asdict(each) for each in catalogue.edits],
        "damaged": list(catalogue.damaged),
    }


def _print(catalogue: Catalogue) -> None:
    for name in sorted(catalogue.branches):
        step, view = catalogue.branches[name], view_of(catalogue, name)
        origin = f", branches from {step.parent} after transaction {step.fork}" if step.parent else ""
        echo(f"branch {name}{origin}")
        for each in moments(view):
            echo(f"  every moment from transaction {each.start} to {each.stop - 1} can be restored")
        for each in missing_edits(catalogue, name):
            echo(f"  transactions {each.start} to {each.stop - 1} were purged before they were archived")
        for image in (each for each in catalogue.images if each.branch == name):
            echo(f"  image of transaction {image.txid}: {image.stored:,} bytes, added {format_time(image.added)}")
        own = [each for each in catalogue.edits if each.branch == name]
        if own:
            times = [each.last_time for each in own if each.last_time]
            until = f", the newest of {format_time(max(times))}" if times else ""
            echo(f"  {counted(len(own), 'segment')}, {sum(each.stored for each in own):,} bytes{until}")
    total = sum(each.stored for each in catalogue.records)
    echo(f"{counted(len(catalogue.records), 'object')}, {total:,} bytes")
    for name in catalogue.damaged:
        echo(f"damaged: {name}; run `checkpointer archive check`")
