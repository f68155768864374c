"""`checkpointer archive drill`: restores a random moment, loads it, and reports the time."""

from __future__ import annotations

import random
from pathlib import Path

import click

from archive.cli.options import (
    branch_option,
    configured_archive,
    configured_archive_options,
    configured_settings,
    opened,
    scratch_option,
)
from archive.errors import ArchiveDamagedError, NoSuchMomentError
from hadoop_common.cli.output import conf_option, echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import counted


@click.command("drill")
@configured_archive_options
@click.option("--txid", type=click.IntRange(min=0), metavar="N", help="Restore this moment instead of a random moment.")
@branch_option
@conf_option(required=False)
@scratch_option
@json_option
def command(
    location: str | None,
    key_file: Path | None,
    txid: int | None,
    branch: str | None,
    conf_dir: Path | None,
    scratch_dir: Path | None,
    as_json: bool,
) -> None:
    """Restore a random moment to a scratch directory, verify and load it, and report the time.

    The command keeps no files. Run it weekly from a timer, such as the unit checkpointer-archive-drill.timer: an
    archive that has never been restored is not a backup.

    \b
    Examples:
      checkpointer archive drill --archive /backup/hdfs
      checkpointer archive drill --conf /etc/hadoop/conf
    """
    from archive.moments import histories, moments, plan_restore, view_of
    from archive.restoring import RestoreOptions, chosen_view, restore_moment
    from archive.scratch import scratch_folder
    from engine.warm_namespace import WarmNamespace

    settings = configured_settings(conf_dir)
    where, key_file = configured_archive(location, key_file, conf_dir)
    with opened(where, key_file) as archive, scratch_folder(scratch_dir) as folder:
        if txid is None:
            catalogue = archive.catalogue()
            names = [branch] if branch else histories(catalogue)
            found = [(each, name) for name in names for each in moments(view_of(catalogue, name))]
            if not found:
                raise NoSuchMomentError("the archive has no image yet", hint="Run `checkpointer archive add` first.")
            chosen, branch = random.choices(found, [len(each) for each, _ in found])[0]
            txid = random.randrange(chosen.start, chosen.stop)
        view = chosen_view(archive, branch)
        plan = plan_restore(view, txid)
        with ProgressObserver(show=not as_json) as observer:
            made = restore_moment(archive, plan, folder, RestoreOptions(settings=settings), observer)
            for name in made.source.damaged:
                raise ArchiveDamagedError(name, "the object is damaged; this moment was restored from other objects")
            with WarmNamespace(settings) as namespace:
                namespace.load(made.image, observer)
                # this call also waits until the digest and every record have been checked
                namespace.measure()
                inodes = namespace.namespace.tree.inode_count
    content = {
        "txid": txid,
        "branch": view.branch,
        "transactions": plan.transactions,
        "inodes": inodes,
        "seconds": made.seconds,
    }
    if as_json:
        echo_json(content)
    else:
        echo(
            f"transaction {txid} of branch {view.branch} was restored in {made.seconds:.1f} s: "
            f"{counted(plan.transactions, 'transaction')} replayed, {counted(inodes, 'inode')}"
        )
