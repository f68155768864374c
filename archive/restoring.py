"""Restores a moment: builds a storage directory, from which a NameNode can start, from an image and edits.

The directory is built under a temporary name, with VERSION last, and receives its final name at the end. Therefore, an
interrupted restore is never mistaken for a complete restore.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from archive.archive import Archive
from archive.errors import ArchiveDamagedError, ArchiveError, NoSuchMomentError, PathMissingError
from archive.fetching import fetch_object, fetch_segment
from archive.moments import BranchView, RestorePlan, growing_parts, only_history, plan_restore, view_of
from archive.undoing import Undo, UndoChange
from engine.errors import NamespaceError
from engine.observer import Observer
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from hadoop_common.durable import fsync_directory, fsync_file, write_atomically
from hadoop_common.file_faults import error_text
from hadoop_common.names import SEEN_TXID, VERSION, image_name
from image_format.inode_table import NO_ROW
from image_format.md5_file import md5_path, write_md5_file
from journal.op_times import clean_path, op_time
from journal.segment_file import EditLogSegment, SegmentTransactions, read_ops
from journal.skipping import neutral_op

_LOG = logging.getLogger(__name__)
_CURRENT = "current"


@dataclass(frozen=True, slots=True)
class Source:
    """The sources of a restore: an image, and the segments that lead from the image to `txid`.

    `version` is the text of the VERSION file that belongs to the image; `damaged` contains the names of damaged objects
    that other objects replace.
    """

    image: Path
    image_txid: int
    segments: tuple[EditLogSegment, ...]
    txid: int
    version: bytes
    damaged: tuple[str, ...] = ()


class ExpectedPath(NamedTuple):
    """A path that must exist before transaction `removal`, which is assumed to remove it."""

    path: str
    removal: int


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """Options of a restore.

    Attributes:
        without: transactions to omit.
        expected: the path to restore; None for a restore without a particular path.
        strip_tokens: whether delegation tokens and their keys are removed from the image.
        settings: how edits are replayed and how the image is written.
    """

    without: Collection[int] = ()
    expected: ExpectedPath | None = None
    strip_tokens: bool = False
    settings: MergeSettings = MergeSettings()


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored storage directory.

    Attributes:
        source: the replayed image and segments.
        image: path of its image.
        txid: transaction of the image; one more than the last restored transaction if transactions were omitted.
        changes: transactions that were omitted or changed because of `without`.
        expected: present path of the inode at the expected path; None if the options name no expected path.
        seconds: duration of the restore.
    """

    source: Source
    image: Path
    txid: int
    changes: tuple[UndoChange, ...]
    expected: str | None
    seconds: float


def chosen_view(archive: Archive, branch: str | None) -> BranchView:
    """Return the requested branch, or the only branch, after pinning its growing parts in memory.

    Raises:
        NoSuchMomentError: the archive lacks the branch, or has several histories.
    """
    catalogue = archive.catalogue()
    while True:
        view = view_of(catalogue, branch or only_history(catalogue))
        exist = archive.pin(growing_parts(view))
        before, catalogue = catalogue, catalogue if exist else archive.catalogue()
        if catalogue.commits == before.commits:
            # no other writer has removed parts, so missing parts are lost
            return view


def restore_moment(
    archive: Archive, plan: RestorePlan, folder: Path, options: RestoreOptions, observer: Observer | None = None
) -> Restored:
    """Fetch the objects of a plan into `folder`, and build the storage directory `folder`/restored.

    Raises:
        ArchiveDamagedError: an object is missing or damaged, and the moment needs it.
        HdfsError: see `restore`.
    """
    source = fetch_source(archive, plan, folder / "source")
    return restore(source, folder / "restored", options, observer)


def fetch_source(archive: Archive, plan: RestorePlan, folder: Path) -> Source:
    """Fetch the objects of a plan into `folder`; replace damaged objects with others that lead to the same moment.

    Raises:
        ArchiveDamagedError: an object is missing or damaged, and the moment needs it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    damaged: list[str] = []
    while True:
        try:
            return replace(_fetch_all(archive, plan, folder), damaged=tuple(damaged))
        except ArchiveDamagedError as fault:
            damaged.append(fault.file)
            try:
                plan = plan_restore(plan.view.without(damaged), plan.txid)
            except NoSuchMomentError:
                raise fault from None


def _fetch_all(archive: Archive, plan: RestorePlan, folder: Path) -> Source:
    image = folder / image_name(plan.base.txid)
    fetch_object(archive, plan.base.name, image, plan.base.md5)
    write_md5_file(image, bytes.fromhex(plan.base.md5))
    segments = tuple(fetch_segment(archive, piece.record, folder, piece.last) for piece in plan.pieces)
    return Source(image, plan.base.txid, segments, plan.txid, plan.base.version.encode())


def restore(source: Source, target: Path, options: RestoreOptions, observer: Observer | None = None) -> Restored:
    """Build the storage directory `target`, which must be missing or empty.

    No files remain at `target` after an error.

    Raises:
        ArchiveError: the target is in use, or an operation cannot be applied.
        PathMissingError: the expected path does not exist at its moment.
        HdfsError: the merge failed.
    """
    started = time.monotonic()
    target = Path(os.path.abspath(target))  # noqa: PTH100 - a link to the directory stays a link
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ArchiveError(f"{target} exists and is not an empty directory", hint="Specify a new directory with --out.")
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        current = aside / _CURRENT
        current.mkdir(mode=0o700)
        # a namespace without some operations receives a different txid, which distinguishes it from the archived
        # namespace
        txid = source.txid + bool(options.without)
        changes, expected = _build(source, current, txid, options, observer)
        write_atomically(current / SEEN_TXID, f"{txid}\n".encode())
        write_atomically(current / VERSION, source.version)
        fsync_directory(aside)
        if target.exists():
            target.rmdir()
        aside.rename(target)
        fsync_directory(target.parent)
    except OSError as fault:
        raise ArchiveError(
            f"{target} cannot be written: {error_text(fault, target)}",
            hint="Check the disk, the permissions and the free space of that directory.",
        ) from fault
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    image = target / _CURRENT / image_name(txid)
    return Restored(source, image, txid, tuple(changes), expected, time.monotonic() - started)


def txid_at(archive: Archive, view: BranchView, moment: int, folder: Path) -> int:
    """Return the last transaction before the first transaction that is later than `moment` (ms since the epoch).

    Raises:
        NoSuchMomentError: all transactions of the branch are later, no transaction has a time, or the transactions
            around `moment` are missing.
    """
    txid, following = 0, 0
    for piece in sorted(view.pieces, key=lambda each: (each.record.first, -each.last)):
        record = piece.record
        if piece.last <= txid:
            continue
        if not record.last_time or record.last_time <= moment:
            txid = piece.last
            continue
        following = record.first
        if record.first_time > moment:
            break
        segment = fetch_segment(archive, record, folder, piece.last)
        for op in read_ops(segment):
            if (op_time(op) or 0) > moment:
                break
            txid = following = max(txid, op.txid)
        segment.path.unlink()
        break
    if not txid:
        raise NoSuchMomentError(
            f"the archive has no transaction at or before {format_time(moment)}",
            hint="`checkpointer archive list` shows the moments that can be restored.",
        )
    if (following or view.last_txid) > txid + 1:
        # it is unknown how many of the missing transactions precede this time
        raise NoSuchMomentError(
            f"the archive lacks the edits around this time, which follow transaction {txid}",
            hint="Choose a transaction with --txid: `checkpointer archive list` shows which transactions can be "
            "restored.",
        )
    if not following:
        _LOG.warning("the archive has no later transaction: changes before the given time may be missing")
    return txid


def format_time(milliseconds: int) -> str:
    """Return a time in UTC, to the second."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def path_row(namespace: WarmNamespace, path: str) -> int:
    """Return the row of a clean path, or `NO_ROW` if it does not exist."""
    try:
        return namespace.namespace.tree.paths.find(path)
    except NamespaceError:
        return NO_ROW


def segments_up_to(segments: Sequence[EditLogSegment], txid: int) -> list[EditLogSegment]:
    """Return the segments with transactions up to `txid`; shorten the last segment."""
    return [
        EditLogSegment(each.first, min(each.last or txid, txid), each.path) for each in segments if each.first <= txid
    ]


def _build(
    source: Source, current: Path, txid: int, options: RestoreOptions, observer: Observer | None
) -> tuple[list[UndoChange], str | None]:
    """Write the image; return the changes, and the present path of the inode at the expected path."""
    image = current / image_name(txid)
    if source.txid == source.image_txid and not (options.strip_tokens or options.without or options.expected):
        shutil.copyfile(source.image, image)
        shutil.copyfile(md5_path(source.image), md5_path(image))
        for path in (image, md5_path(image)):
            fsync_file(path)
        fsync_directory(current)
        return [], None
    first = min(options.without, default=source.txid + 1)
    with WarmNamespace(options.settings) as namespace:
        namespace.load(source.image, observer)
        middle = min(first - 1, source.txid)
        transactions = SegmentTransactions(segments_up_to(source.segments, middle), source.image_txid + 1)
        namespace.apply(transactions, expected=source.txid - source.image_txid, observer=observer)
        expected = options.expected
        row = _expected_row(namespace, expected) if expected and expected.removal == middle + 1 else NO_ROW
        undo = Undo(namespace.namespace, frozenset(options.without))
        if first <= source.txid:
            later = SegmentTransactions(source.segments, max(first, source.image_txid + 1))
            namespace.apply(undo.adapted(later), expected=source.txid - first + 1, observer=observer)
            if expected and expected.removal == source.txid + 1:
                row = _expected_row(namespace, expected)
        if options.without:
            namespace.apply([neutral_op(txid)])
        if options.strip_tokens:
            namespace.namespace.secrets.clear()
        namespace.save([current], observer=observer)
        restored = None if row == NO_ROW else namespace.namespace.tree.path(row)
    if not image.is_file():
        raise ArchiveError(
            f"the edits end before transaction {source.txid}",
            hint="`checkpointer archive check` finds what is missing.",
        )
    return undo.changes, restored


def _expected_row(namespace: WarmNamespace, expected: ExpectedPath) -> int:
    """Return the row of the expected path; raise PathMissingError if the path does not exist."""
    path = clean_path(expected.path)
    row = path_row(namespace, path)
    if row == NO_ROW:
        raise PathMissingError(f"{path} did not exist before transaction {expected.removal}")
    return row
