"""`checkpointer archive check`: checks whether every archived moment can be restored."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from archive.cli.options import archive_options, configured_settings, scratch_option
from archive.clusters import KEEP_HINT
from archive.scratch import scratch_folder
from hadoop_common.cli.output import conf_option, echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.exit_codes import ExitCode
from hadoop_common.quantities import counted

if TYPE_CHECKING:
    from archive.archive import Archive
    from archive.checking import CheckReport

_MIN_AGE = 86_400.0
"""Minimum age in seconds; the first addition of a large directory stores objects long before it lists them."""


@click.command("check")
@archive_options
@click.option("--deep", is_flag=True, help="Replay the edits up to each image, and compare the result with the image.")
@click.option("--repair", is_flag=True, help="Remove unlisted objects; rebuild damaged commits and archive.json.")
@click.option("--immutable", is_flag=True, help="Do not remove any objects, for stores with an object lock.")
@conf_option(required=False)
@scratch_option
@json_option
def command(
    location: str,
    key_file: Path | None,
    deep: bool,
    repair: bool,
    immutable: bool,
    conf_dir: Path | None,
    scratch_dir: Path | None,
    as_json: bool,
) -> None:
    """Compare every object with its digest, and list the moments lost to damage; exit with code 3 if there are any.

    After a crash of `add`, `prune` or a daemon, harmless unlisted objects may remain. --repair removes only unlisted
    objects that are older than a day, because another process may be about to list younger objects.

    \b
    Example: checkpointer archive check --archive /backup/hdfs --deep
    """
    from archive.archive import open_archive
    from archive.checking import check_archive, check_images

    settings = configured_settings(conf_dir)
    with (
        open_archive(location, key_file, immutable=immutable) as archive,
        ProgressObserver(show=not as_json) as observer,
    ):
        total = sum(each.stored for each in archive.catalogue().records)
        observer.phase("check", total)
        report = check_archive(archive, repair=repair, min_age=_MIN_AGE, progress=observer.advance)
        # edits of one cluster must not be replayed on images of another cluster
        if deep and len(report.clusters) < 2:
            with scratch_folder(scratch_dir) as folder:
                check_images(archive, folder, settings, report, observer)
    if as_json:
        echo_json({**asdict(report), "sound": report.sound})
    else:
        echo(f"{counted(report.objects, 'object')}, {report.size:,} bytes")
        for each in report.clusters:
            echo(
                f"cluster {each.cluster_id}, namespace {each.namespace_id}, block pool {each.block_pool_id}: "
                f"{counted(each.objects, 'object')}, newest transaction {each.newest_txid}"
            )
        for name in report.unassigned:
            echo(f"of an unknown cluster: {name}")
        for name, problem in sorted(report.damaged.items()):
            echo(f"damaged: {name}: {problem.removeprefix(f'{name}: ')}")
        for branch, first, last in report.lost:
            echo(f"lost: transactions {first} to {last} of branch {branch} cannot be restored")
        for branch, first, last in report.missing:
            echo(f"missing: transactions {first} to {last} of branch {branch} were purged before they were archived")
        for name, verdict in sorted(report.images.items()):
            echo(f"replayed: {name}: {verdict}")
        for name in report.garbage:
            echo(f"{'removed' if name in report.removed else 'not listed'}: {name}")
        for name in report.adopted:
            echo(f"listed again: {name}")
        for name in report.unlisted:
            echo(f"no longer listed: {name}")
        for name in report.rewritten:
            echo(f"written again: {name}")
        echo(_conclusion(report, archive, repair=repair))
    if not report.sound:
        sys.exit(ExitCode.BAD_IMAGE)


def _conclusion(report: CheckReport, archive: Archive, *, repair: bool) -> str:
    from archive.archive import IDENTITY
    from archive.catalogue import COMMITS

    if report.unassigned:
        return f"the objects of its clusters cannot be separated; next: {KEEP_HINT}"
    if len(report.clusters) > 1:
        # splitting off the last cluster leaves the cluster that archive.json names
        pool = report.clusters[-1].block_pool_id
        words = f"checkpointer archive split --archive {archive.store.location} --block-pool {pool} --to NEW_ARCHIVE"
        return f"an archive is usable only if it contains a single cluster; next: {words}"
    if report.sound:
        return "every archived moment can be restored"
    rebuilt = (COMMITS,) if archive.immutable else (COMMITS, IDENTITY)
    if report.damaged and all(name.startswith(rebuilt) for name in report.damaged):
        if repair:
            return "repaired; next: repeat this command without --repair"
        return "next: repeat this command with --repair, which rebuilds these files from the objects"
    if not report.lost:
        return "next: restore damaged objects from a copy"
    return (
        "next: restore damaged objects from a copy; without a copy, `checkpointer archive add STORAGE_DIR --archive "
        f"{archive.store.location} --restore-target 0` stores a base image, so that later moments can be restored"
    )
