"""`checkpointer undelete`: undoes a deletion in a stopped NameNode's storage directory, without an archive."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click

from archive.cli.options import configured_settings, path_in_edits
from archive.cli.restore_command import change_content, print_changes
from archive.errors import NotOmittableError
from archive.removals import Removal, restore_removed
from archive.restoring import ExpectedPath, Restored, RestoreOptions, Source, restore
from archive.undelete_source import source_before_removal
from hadoop_common.cli.output import EXISTING_FOLDER, PRIVATE_UMASK, conf_option, echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver


@click.command("undelete")
@click.argument("directory", metavar="STORAGE_DIR", type=EXISTING_FOLDER)
@click.option(
    "--path", required=True, metavar="PATH", callback=path_in_edits, help="The deleted path, or a path below it."
)
@click.option(
    "--before",
    type=click.IntRange(min=1),
    metavar="TXID",
    help="Undo the last removal of PATH before this transaction, instead of the last of all removals.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="OUT", help="New storage directory.")
@conf_option(required=False)
@json_option
def command(directory: Path, path: str, before: int | None, out: Path, conf_dir: Path | None, as_json: bool) -> None:
    """Replay a storage directory without the latest removal of PATH, and keep everything else.

    A deletion, a rename or an overwriting create or rename removes PATH, and so does the deletion or rename of a
    directory above it. The output shows the removal. To undo an earlier removal, run the command again with --before.

    The command only reads STORAGE_DIR, which must contain an image from before the deletion and all later edits. The
    segment in progress is read up to its last transaction. OUT is a storage directory from which a NameNode starts.
    Later operations that conflict with the restored paths are adapted as in `archive restore --without`, and listed.

    Stop the NameNode first, and read docs/runbook-deleted.md, because DataNodes may have deleted the blocks.

    \b
    Example: checkpointer undelete /data/nn --path /data/warehouse --out /restored
    """
    os.umask(PRIVATE_UMASK)
    settings = configured_settings(conf_dir)

    def build(source: Source, removal: Removal) -> Restored:
        options = RestoreOptions({removal.txid}, ExpectedPath(path, removal.txid), settings=settings)
        try:
            return restore(source, out, options, observer)
        except NotOmittableError as fault:
            hint = (
                f"`--before {removal.txid}` undoes an earlier removal; `checkpointer archive restore --txid "
                f"{removal.txid - 1}` restores the state before this removal."
            )
            raise NotOmittableError(fault.message, hint=hint) from fault

    with ProgressObserver(show=not as_json) as observer:
        find = partial(source_before_removal, directory, path)
        made, removal = restore_removed(path, before, find, build, settings, observer)
    if as_json:
        changes = [change_content(each) for each in made.changes]
        content = {"directory": str(out), "txid": made.txid, "without": [removal.txid], "restored": made.expected}
        echo_json({**content, "changes": changes})
        return
    echo(f"{out}: the state after transaction {made.txid}, without {removal}, in {made.seconds:.1f} s")
    echo(f"restored: {made.expected}; --before {removal.txid} restores the path as before an earlier removal")
    print_changes(made.changes)
    echo("next: follow docs/runbook-deleted.md before a NameNode with DataNodes starts from this directory")
