"""`checkpointer archive restore`: restores a moment to a storage directory from which a NameNode starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from archive.archive import Archive
from archive.cli.options import (
    archive_options,
    branch_option,
    configured_settings,
    opened,
    parse_time,
    path_in_edits,
    scratch_option,
)
from archive.later_deletions import LaterDeletions, later_losses
from archive.moments import BranchView, RestorePlan, plan_restore
from archive.removals import Removal, archived_removal, restore_removed
from archive.restoring import (
    ExpectedPath,
    Restored,
    RestoreOptions,
    Source,
    chosen_view,
    fetch_source,
    format_time,
    restore,
    segments_up_to,
    txid_at,
)
from archive.scratch import scratch_folder
from archive.undoing import UndoChange
from hadoop_common.cli.output import PRIVATE_UMASK, conf_option, echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import counted
from journal.cli.edits_argument import TXID_RANGES

_SHOWN = 20


@click.command("restore")
@archive_options
@click.option("--txid", type=click.IntRange(min=0), metavar="N", help="The state after this transaction.")
@click.option(
    "--time",
    "moment",
    metavar="T",
    help="The state at this time, such as 2026-11-28T14:02:59 (this host's time zone) or 2026-11-28T14:02:59Z (UTC).",
)
@click.option(
    "--before-delete",
    metavar="PATH",
    callback=path_in_edits,
    help="The state before PATH was last deleted, moved or replaced.",
)
@click.option(
    "--before",
    type=click.IntRange(min=1),
    metavar="TXID",
    help="With --before-delete: the last removal of PATH before this transaction, instead of the last of all removals.",
)
@click.option(
    "--without",
    "skips",
    metavar="TXID[-TXID]",
    multiple=True,
    type=TXID_RANGES,
    help="Replay everything except these transactions, up to --txid, --time or the newest transaction; may be"
    " repeated.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="OUT", help="New storage directory.")
@click.option("--strip-tokens", is_flag=True, help="Omit delegation tokens and their keys.")
@branch_option
@conf_option(required=False)
@scratch_option
@json_option
def command(
    location: str,
    key_file: Path | None,
    txid: int | None,
    moment: str | None,
    before_delete: str | None,
    before: int | None,
    skips: tuple[range, ...],
    out: Path,
    strip_tokens: bool,
    branch: str | None,
    conf_dir: Path | None,
    scratch_dir: Path | None,
    as_json: bool,
) -> None:
    """Restore a moment to OUT, a storage directory from which a NameNode starts.

    The command prints the last restored transaction and the number of later transactions. It also prints how many of
    the restored files were deleted later, because DataNodes may have removed their blocks. Before a NameNode with
    DataNodes starts from OUT, read docs/runbook-deleted.md; keep this NameNode in safe mode.

    --without undoes single transactions and keeps later changes. If a later operation would create an inode at a
    restored path, the command appends .undo-TXID to the new path. It omits operations that would delete restored files,
    and lists each change.

    Specify the cluster's configuration with --conf, because some rules of replay depend on it.

    \b
    Examples:
      checkpointer archive restore --archive /backup/hdfs --time 2026-11-28T14:02:59 --out /restored
      checkpointer archive restore --archive /backup/hdfs --before-delete /data/warehouse --out /restored
      checkpointer archive restore --archive /backup/hdfs --without 4711 --out /restored
    """
    if sum(each is not None for each in (txid, moment, before_delete)) + bool(skips) == 0:
        raise click.UsageError("Specify a moment: --txid, --time, --before-delete, or --without.")
    if sum(each is not None for each in (txid, moment, before_delete)) > 1:
        raise click.UsageError("Give only one of --txid, --time and --before-delete.")
    if before is not None and before_delete is None:
        raise click.UsageError("--before requires --before-delete.")
    os.umask(PRIVATE_UMASK)
    without = frozenset(each for part in skips for each in part)
    options = RestoreOptions(without, None, strip_tokens, configured_settings(conf_dir))
    removal = None
    with opened(location, key_file) as archive, scratch_folder(scratch_dir) as folder:
        view = chosen_view(archive, branch)
        with ProgressObserver(show=not as_json) as observer:
            work = _Restore(archive, view, folder, out, options, observer)
            if before_delete is None:
                wanted = txid if moment is None else txid_at(archive, view, parse_time(moment), folder)
                made = work.build(work.source(view.last_txid if wanted is None else wanted), options)
            else:
                find, build = partial(work.find, before_delete), partial(work.build_before, before_delete)
                made, removal = restore_removed(before_delete, before, find, build, options.settings, observer)
        # the archive may have grown during the restore
        view = chosen_view(archive, view.branch)
        loss = later_losses(archive, view, made.source.txid, made.image, folder)
    for name in made.source.damaged:
        echo(f"warning: {name} is damaged and was not needed; run `checkpointer archive check`", err=True)
    if as_json:
        echo_json(_content(made, loss, out, view.branch, removal))
    else:
        _print(made, loss, out, removal)


@dataclass(frozen=True, slots=True)
class _Restore:
    """A restore from a branch of an archive to `out`, with scratch files in `folder`."""

    archive: Archive
    view: BranchView
    folder: Path
    out: Path
    options: RestoreOptions
    observer: ProgressObserver

    def source(self, txid: int) -> Source:
        """Fetch the image and the edits for the state after `txid`."""
        self._check_without(txid)
        plan = plan_restore(self.view, min([txid, *(each - 1 for each in self.options.without)]))
        if txid != plan.txid:
            plan = _extended(self.view, plan.base.txid, txid)
        fetched = self.folder / "source"
        shutil.rmtree(fetched, ignore_errors=True)
        return fetch_source(self.archive, plan, fetched)

    def _check_without(self, txid: int) -> None:
        if (last := max(self.options.without, default=txid)) > txid:
            raise click.UsageError(f"--without names transaction {last}, but the restore ends at {txid}.")

    def build(self, source: Source, options: RestoreOptions) -> Restored:
        return restore(source, self.out, options, self.observer)

    def find(self, path: str, before: int | None) -> tuple[Source, Removal]:
        """Return the newest operation before `before` that can have removed a path, and the edits that lead to it."""
        removal = archived_removal(self.archive, self.view, path, self.folder, before)
        return self.source(removal.txid - 1), removal

    def build_before(self, path: str, source: Source, removal: Removal) -> Restored:
        self._check_without(removal.txid - 1)
        options = replace(self.options, expected=ExpectedPath(path, removal.txid))
        segments = segments_up_to(source.segments, removal.txid - 1)
        return self.build(replace(source, txid=removal.txid - 1, segments=tuple(segments)), options)


def _extended(view: BranchView, base: int, txid: int) -> RestorePlan:
    """Return a plan for `txid` that uses no image newer than transaction `base`."""
    older = BranchView(view.branch, tuple(each for each in view.images if each.txid <= base), view.pieces)
    return plan_restore(older, txid)


def change_content(change: UndoChange) -> dict[str, Any]:
    """Return the JSON value of an operation that was omitted or changed."""
    return {
        "txid": change.txid,
        "operation": change.operation,
        "path": change.path,
        "newPath": change.new_path,
        "reason": change.reason,
    }


def print_changes(changes: Sequence[UndoChange]) -> None:
    """Print the first changes, and the number of further changes."""
    for change in changes[:_SHOWN]:
        echo(str(change))
    if len(changes) > _SHOWN:
        echo(f"and {counted(len(changes) - _SHOWN, 'more change')}, which --json lists")


def _content(made: Restored, loss: LaterDeletions, out: Path, branch: str, removal: Removal | None) -> dict[str, Any]:
    return {
        "directory": str(out),
        "image": str(made.image),
        "txid": made.txid,
        "branch": branch,
        "removal": None if removal is None else removal.txid,
        "seconds": made.seconds,
        "changes": [change_content(each) for each in made.changes],
        "later": {
            "transactions": loss.later_transactions,
            "deletions": loss.deletions,
            "files": loss.files,
            "bytes": loss.length,
            "firstTime": loss.first_time,
            "lastTime": loss.last_time,
        },
    }


def _print(made: Restored, loss: LaterDeletions, out: Path, removal: Removal | None) -> None:
    echo(f"{out}: the state after transaction {made.txid}, in {made.seconds:.1f} s")
    if removal is not None:
        echo(f"this state precedes {removal}; --before {removal.txid} restores the state before an earlier removal")
    print_changes(made.changes)
    echo(f"this state lacks {counted(loss.later_transactions, 'later transaction')}")
    if loss.deletions:
        since = f", from {format_time(loss.first_time)} to {format_time(loss.last_time)}" if loss.first_time else ""
        echo(
            f"later deletions: {loss.deletions}{since}, with {counted(loss.files, 'file', ',')} and "
            f"{loss.length:,} bytes of this state; DataNodes may already have deleted their blocks"
        )
    echo("next: follow docs/runbook-deleted.md before a NameNode with DataNodes starts from this directory")
