"""`checkpointer undelete`: undo a deletion in a stopped NameNode's storage directory, without an archive."""

from __future__ import annotations

import os
from pathlib import Path

import click

from archive.cli.options import configured_settings
from archive.cli.restore_command import change_content, print_changes
from hadoop_common.cli.output import EXISTING_FOLDER, PRIVATE_UMASK, conf_option, echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver


@click.command("undelete")
@click.argument("directory", metavar="STORAGE_DIR", type=EXISTING_FOLDER)
@click.option("--path", required=True, metavar="PATH", help="The deleted path, or a path below it.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="OUT", help="New storage directory.")
@conf_option(required=False)
@json_option
def command(directory: Path, path: str, out: Path, conf_dir: Path | None, as_json: bool) -> None:
    """Replay a storage directory without the latest deletion of PATH, and keep everything else.

    The command only reads STORAGE_DIR, which must contain an image from before the deletion and all later edits. The
    segment in progress is read up to its last transaction. OUT is a storage directory from which a NameNode starts.
    Later operations that conflict with the restored paths are adapted as in `archive restore --without`, and listed.

    Stop the NameNode first, and read docs/runbook-deleted.md, because DataNodes may have deleted the blocks.

    \b
    Example: checkpointer undelete /data/nn --path /data/warehouse --out /restored
    """
    from archive.restoring import ExpectedPath, RestoreOptions, restore
    from archive.undelete_source import source_before_deletion

    os.umask(PRIVATE_UMASK)
    source, txid = source_before_deletion(directory, path)
    options = RestoreOptions({txid}, ExpectedPath(path, txid), settings=configured_settings(conf_dir))
    with ProgressObserver(show=not as_json) as observer:
        made = restore(source, out, options, observer)
    if as_json:
        changes = [change_content(each) for each in made.changes]
        echo_json({"directory": str(out), "txid": made.txid, "without": [txid], "changes": changes})
        return
    echo(f"{out}: the state after transaction {made.txid}, without transaction {txid}, in {made.seconds:.1f} s")
    print_changes(made.changes)
    echo("next: follow docs/runbook-deleted.md before a NameNode with DataNodes starts from it")
