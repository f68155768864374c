"""`checkpointer archive diff`: shows the changes between two moments."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from archive.archive import Archive
from archive.cli.options import (
    archive_options,
    branch_option,
    configured_settings,
    opened,
    resolve_moment,
    scratch_option,
    subtree_in_edits,
)
from archive.moments import BranchView, plan_restore
from archive.restoring import RestoreOptions, chosen_view, restore_moment
from archive.scratch import scratch_folder
from engine.observer import Observer
from engine.settings import MergeSettings
from hadoop_common.cli.output import conf_option, echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import counted
from image_tools.compare.difference import ChangeKind, Difference, ItemKind
from journal.op_times import clean_path, covers

_DIFFERENT = 1


@click.command("diff")
@click.argument("first", metavar="T1")
@click.argument("second", metavar="T2")
@archive_options
@click.option(
    "--path",
    metavar="PATH",
    callback=subtree_in_edits,
    help="Compare only this path, everything below it and moves above it.",
)
@branch_option
@conf_option(required=False)
@scratch_option
@json_option
def command(
    first: str,
    second: str,
    location: str,
    key_file: Path | None,
    path: str | None,
    branch: str | None,
    conf_dir: Path | None,
    scratch_dir: Path | None,
    as_json: bool,
) -> None:
    """Show what changed between two moments, given as transactions or times; exit with code 1 if anything changed.

    \b
    Example: checkpointer archive diff 2026-11-28T14:00 2026-11-28T15:00 --archive /backup/hdfs --path /data
    """
    from image_format.reader import ImageFile
    from image_tools.cli.diff_command import difference_content, difference_line
    from image_tools.compare.comparison import ImageComparison

    wanted = None if path is None else clean_path(path)
    settings = configured_settings(conf_dir)
    with (
        opened(location, key_file) as archive,
        scratch_folder(scratch_dir) as folder,
        ProgressObserver(show=not as_json) as observer,
    ):
        view = chosen_view(archive, branch)
        images = [
            _image(archive, view, text, folder / name, settings, observer)
            for name, text in (("old", first), ("new", second))
        ]
        with ImageFile.open(images[0], verify_md5=False) as old, ImageFile.open(images[1], verify_md5=False) as new:
            comparison = ImageComparison(old, new)
            observer.phase("compare", min(comparison.inodes))
            found = [
                comparison.named(each)
                for each in comparison.differences(observer.advance)
                if wanted is None or _concerns(each, comparison.paths(each), wanted)
            ]
    if as_json:
        echo_json({"same": not found, "differences": [difference_content(each) for each in found]})
    else:
        for each in found:
            echo(difference_line(each))
        echo(counted(len(found), "difference"))
    if found:
        sys.exit(_DIFFERENT)


def _concerns(difference: Difference, paths: set[str], wanted: str) -> bool:
    """Return whether a difference is at or below `wanted`, or moves or removes a directory above it.

    The comparison does not list the inodes below a renamed directory, or below a deleted directory in a snapshot.

    Args:
        paths: paths of the difference's inode before and after the change.
    """
    names = paths or {str(name) for name in (difference.subject, difference.old, difference.new)}
    if any(covers(wanted, name) for name in names):
        return True
    moves = difference.topic is ItemKind.INODE and difference.kind in (ChangeKind.RENAMED, ChangeKind.REMOVED)
    return moves and any(covers(name, wanted) for name in names)


def _image(
    archive: Archive, view: BranchView, text: str, folder: Path, settings: MergeSettings, observer: Observer
) -> Path:
    folder.mkdir()
    plan = plan_restore(view, resolve_moment(archive, view, text, folder))
    return restore_moment(archive, plan, folder, RestoreOptions(settings=settings), observer).image
