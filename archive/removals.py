"""Finds the transaction that removed a path.

Edits alone cannot always show whether a path existed before an operation that removes it or a directory above it. A
client creates a file with the overwrite flag even if no file exists. A directory above the path may have been swapped
after the path was deleted. Therefore, `LastRemoval` finds the newest operation that can have removed the path, and
`restore_removed` replays the edits. If the path did not exist before this operation, an earlier operation removed it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from archive.archive import Archive
from archive.chosen_ops import chosen_ops
from archive.errors import NoSuchMomentError, NoSuchRemovalError, PathMissingError
from archive.fetching import fetch_segment
from archive.moments import BranchView
from archive.path_filter import may_contain
from archive.restoring import Restored, Source, format_time, path_row, segments_up_to
from engine.observer import Observer
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from image_format.inode_table import NO_ROW
from journal.op_times import clean_path, covers, op_paths, op_time
from journal.operation import EditOp
from journal.ops import RENAME_OVERWRITE, AddOp, ConcatDeleteOp, DeleteOp, RenameOldOp, RenameOp
from journal.segment_file import EditLogSegment, Places, SegmentTransactions, read_ops

_LOG = logging.getLogger(__name__)
_SHOWN = 20
_REMOVING = (AddOp, ConcatDeleteOp, DeleteOp, RenameOldOp, RenameOp)


class Removal(NamedTuple):
    """An operation that can have removed a path.

    It deletes, moves or replaces the path, or deletes or moves a directory above it. `time` is in ms since the epoch,
    or None if unknown.
    """

    txid: int
    operation: str
    paths: tuple[str, ...]
    time: int | None

    def __str__(self) -> str:
        at = "" if self.time is None else f" at {format_time(self.time)}"
        return f"transaction {self.txid}, {self.operation}{at}: {', '.join(self.paths)}"


class LastRemoval:
    """Search for the last operation that removes `path`.

    Some operations remove the path only if it existed: operations on a directory above the path, and creations or
    renames with the overwrite flag. Clients usually set this flag. The preceding operations show whether the path
    existed. After a rename to a directory above the path, only a replay can show this; the search assumes that the path
    exists.

    Args:
        path: the clean path.
        before: later operations, and the operation with this transaction id, are ignored.

    Attributes:
        pending: an operation that removes the path only if it existed, while no preceding operation read so far
            concerns the path. If no earlier segment concerns the path either, only the image can contain it.
    """

    def __init__(self, path: str, before: int | None = None) -> None:
        self._path = path
        self._before = before
        self.pending: Removal | None = None

    def in_segment(self, ops: Iterable[EditOp]) -> Removal | None:
        """Return the operation that removed the path, or None if an earlier segment may contain it.

        The caller must pass the newest segment first.
        """
        later = self.pending
        end = self._before if later is None else later.txid
        found: Removal | None = None
        unproven: Removal | None = None
        exists: bool | None = None
        for op in ops:
            if end is not None and op.txid >= end:
                break
            if (removal := _removal(op, self._path)) is not None:
                if exists or self._path in _removed(op):
                    found = removal
                elif exists is None:
                    unproven = removal
                exists = False
            if self._may_exist_after(op):
                exists = True
        if later is not None and exists is not False:
            return later if exists else None
        self.pending = unproven
        return found

    def _may_exist_after(self, op: EditOp) -> bool:
        """Return whether `op` shows that the path exists, or moves an inode to it or to a directory above it."""
        if isinstance(op, RenameOldOp | RenameOp) and covers(clean_path(op.dst), self._path):
            return True
        removed = _removed(op)
        named = {clean_path(each) for each in op_paths(op)}
        return any(covers(self._path, each) and (each != self._path or each not in removed) for each in named)


def archived_removal(archive: Archive, view: BranchView, path: str, folder: Path, before: int | None = None) -> Removal:
    """Return the newest operation before transaction `before` that can have removed `path`.

    The path may not have existed before this operation; see `restore_removed`.

    Raises:
        NoSuchRemovalError: no such operation is archived.
    """
    wanted = clean_path(path)
    removal = LastRemoval(wanted, before)
    for piece in sorted(view.pieces, key=lambda each: each.last, reverse=True):
        if before is not None and piece.record.first >= before:
            continue
        with archive.reading(piece.record.name) as reader:
            if not may_contain(reader.footer.path_filter, wanted):
                continue
        segment = fetch_segment(archive, piece.record, folder, piece.last)
        found = removal.in_segment(read_ops(segment))
        segment.path.unlink()
        if found is not None:
            return found
    if removal.pending is not None:
        return removal.pending
    raise NoSuchRemovalError(
        f"no archived transaction deletes {wanted}, or a directory above it{up_to(before)}",
        hint="`checkpointer archive log --path PATH` lists the transactions of a path and follows renames.",
    )


def up_to(before: int | None) -> str:
    """Return the end of a sentence about the operations before transaction `before`; None for all operations."""
    return "" if before is None else f", before transaction {before}"


def restore_removed(
    path: str,
    before: int | None,
    find: Callable[[int | None], tuple[Source, Removal]],
    build: Callable[[Source, Removal], Restored],
    settings: MergeSettings,
    observer: Observer,
) -> tuple[Restored, Removal]:
    """Restore `path` to its state before the last operation that removed it; also return this operation.

    Args:
        before: the operation must precede this transaction; None for the last operation.
        find: returns the newest operation before a transaction that can have removed the path, and the image and edits
            that lead to this operation.
        build: restores a path that the given operation removed.
        settings: how edits are replayed and how the image is written.
        observer: observer of the search among earlier operations.

    Raises:
        NoSuchMomentError: the path did not exist before any of these operations; the error lists them.
        HdfsError: see `restore`.
    """
    rejected: list[Removal] = []
    while True:
        try:
            source, removal = find(before)
        except NoSuchRemovalError as fault:
            if not rejected:
                raise
            raise _never_existed(path, rejected, fault.hint) from None
        try:
            return build(source, removal), removal
        except PathMissingError:
            rejected.append(removal)
            _LOG.warning(
                "%s did not exist before %s; the operations since the image of transaction %d are searched",
                clean_path(path),
                removal,
                source.image_txid,
            )
        earlier, missing = _earlier_removals(source, path, removal.txid, settings, observer)
        rejected += missing
        if earlier is not None:
            return build(source, earlier), earlier
        before = source.image_txid + 1


def _never_existed(path: str, rejected: list[Removal], hint: str) -> NoSuchMomentError:
    listed = "".join(f"\n  {each}" for each in rejected[:_SHOWN])
    more = f"\n  and {len(rejected) - _SHOWN} more" if len(rejected) > _SHOWN else ""
    return NoSuchMomentError(
        f"{clean_path(path)} did not exist before any available transaction that could have removed it:{listed}{more}",
        hint=f"{hint} If the path had another name, specify that name.",
    )


def _earlier_removals(
    source: Source, path: str, before: int, settings: MergeSettings, observer: Observer
) -> tuple[Removal | None, list[Removal]]:
    """Replay the edits of `source` before transaction `before`.

    Returns:
        The last operation that removed the existing `path`, and the later operations that can have removed it, newest
        first.
    """
    wanted = clean_path(path)
    edits = segments_up_to(source.segments, before - 1)
    observer.phase("search", before - 1 - source.image_txid)
    removals = _listed_removals(edits, wanted, source.image_txid, observer)
    last, missing, places = None, list[Removal](), Places()
    with WarmNamespace(settings) as namespace:
        namespace.load(source.image, observer)
        observer.phase("replay", before - 1 - source.image_txid)
        for removal in removals:
            following = namespace.last_txid + 1
            near = segments_up_to([each for each in edits if (each.last or 0) >= following], removal.txid - 1)
            namespace.apply(SegmentTransactions(near, following, places=places))
            observer.advance(removal.txid - 1 - source.image_txid)
            if path_row(namespace, wanted) == NO_ROW:
                missing.append(removal)
            else:
                last, missing = removal, []
    return last, missing[::-1]


def _listed_removals(segments: Sequence[EditLogSegment], path: str, after: int, observer: Observer) -> list[Removal]:
    """Return all operations after transaction `after` that can have removed `path`."""
    removals: list[Removal] = []
    expected = after + 1
    for segment in segments:
        found = (_removal(op, path) for op in chosen_ops(segment, _REMOVING, expected))
        removals += [each for each in found if each is not None]
        expected = (segment.last or 0) + 1
        observer.advance(expected - 1 - after)
    return removals


def _removal(op: EditOp, path: str) -> Removal | None:
    """Return `op` if it deletes, moves or replaces `path`, or deletes or moves a directory above it."""
    if _overwrites(op) == path or any(covers(each, path) for each in _removed(op)):
        return Removal(op.txid, op.name, tuple(op_paths(op)), op_time(op))
    return None


def _removed(op: EditOp) -> Collection[str]:
    return {clean_path(each) for each in _sources(op)}


def _sources(op: EditOp) -> Iterator[str]:
    """Yield the paths from which `op` removes inodes."""
    if isinstance(op, DeleteOp):
        yield op.path
    elif isinstance(op, RenameOldOp | RenameOp):
        yield op.src
    elif isinstance(op, ConcatDeleteOp):
        yield from op.srcs


def _overwrites(op: EditOp) -> str | None:
    """Return the path at which `op` replaces an existing file, if any."""
    if isinstance(op, AddOp) and op.overwrite:
        return clean_path(op.path)
    return clean_path(op.dst) if isinstance(op, RenameOp) and RENAME_OVERWRITE in op.options else None
