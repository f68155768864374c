"""`checkpointer archive add`: archives the contents of a storage directory."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import click

from archive.adding import Added, AddOptions, add_directory
from archive.cli.options import archive_options
from archive.errors import ArchiveError
from hadoop_common.cli.output import EXISTING_FOLDER, PRIVATE_UMASK, FiniteRange, echo, echo_json, json_option
from hadoop_common.names import VERSION


@click.command("add")
@click.argument("directory", metavar="STORAGE_DIR", type=EXISTING_FOLDER)
@archive_options
@click.option(
    "--edits",
    multiple=True,
    type=EXISTING_FOLDER,
    metavar="DIR",
    help="Directory with more segments, such as dfs.namenode.shared.edits.dir; may be repeated.",
)
@click.option("--in-progress", is_flag=True, help="Archive the segment in progress too, up to its last transaction.")
@click.option(
    "--restore-target",
    type=FiniteRange(min=0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Store another image if a replay of the edits since the last image would take longer than this time.",
)
@click.option("--immutable", is_flag=True, help="Only append objects, for stores with an object lock.")
@json_option
def command(
    directory: Path,
    location: str,
    key_file: Path | None,
    edits: tuple[Path, ...],
    in_progress: bool,
    restore_target: float,
    immutable: bool,
    as_json: bool,
) -> None:
    """Archive the edits of a storage directory, and an image if one is needed.

    STORAGE_DIR is the storage directory of a NameNode, standby or checkpointer (it contains `current`). The command
    only reads STORAGE_DIR, so its owner may be running. Segments that are already archived are skipped. If the NameNode
    was set back, or purged edits before they were archived, the new history becomes a branch, and the old history is
    kept.

    \b
    Example: checkpointer archive add /data/nn --archive /backup/hdfs
    """
    from archive.archive import open_archive

    _refuse_storage_directory(Path(location))
    os.umask(PRIVATE_UMASK)
    options = AddOptions(restore_target=restore_target, in_progress=in_progress)
    with open_archive(location, key_file, immutable=immutable) as archive:
        added = add_directory(archive, directory, options, edits)
    if as_json:
        segments, images = ([asdict(each) for each in records] for records in (added.edits, added.images))
        echo_json(
            {
                "branch": added.branch,
                "forked": added.forked,
                "edits": segments,
                "images": images,
                "txid": added.last_txid,
            }
        )
        return
    if added.forked:
        echo(
            "these files differ from the archive, or nothing proves that they continue its history: the NameNode was "
            "set back, or it purged edits before they were archived"
        )
        echo(f"their history is branch {added.branch}; the archived objects are kept")
    for image in added.images:
        echo(f"image of transaction {image.txid}: {image.size:,} bytes, stored in {image.stored:,}")
    for each in added.edits:
        echo(f"edits {each.first} to {each.last}: {each.size:,} bytes, stored in {each.stored:,}")
    if not added.images and not added.edits:
        echo("nothing new")
    echo(f"archived up to transaction {added.last_txid}")
    if added.restorable < added.last_txid:
        echo(f"warning: {_gap_text(added)}", err=True)


def _refuse_storage_directory(location: Path) -> None:
    """Refuse to begin an archive in a storage directory, because both would be lost together."""
    from archive.archive import IDENTITY

    if (location / IDENTITY).exists():
        return
    if (location / VERSION).exists() or (location / "current" / VERSION).exists():
        raise ArchiveError(
            f"{location} is a storage directory", hint="Specify a separate directory, or a URL, for the archive."
        )


def _gap_text(added: Added) -> str:
    return (
        f"only moments up to transaction {added.restorable} can be restored, because later edits are missing. "
        "Specify a directory that contains them with --edits, or make a checkpoint and add again"
    )
