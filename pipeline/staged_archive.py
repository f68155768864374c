"""Restores images and fetches edits of an archive as files that Spark can send to executors.

Only the driver imports this module. It is separate from `pipeline.staging`, because every Python process of Spark
imports that module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from click import BadParameter

from archive.archive import Archive
from archive.cli.options import opened, resolve_moment
from archive.fetching import fetch_segment
from archive.moments import BranchView, Piece, newest_moment, plan_restore
from archive.restoring import RestoreOptions, chosen_view, restore_moment
from archive.storing import position_after
from engine.settings import MergeSettings
from hadoop_common.addresses import without_password
from hadoop_common.configuration import Configuration
from hadoop_common.names import image_name, segment_name
from image_format.md5_file import read_md5_file, write_md5_file
from journal.segment_file import map_file
from pipeline.archive_query import ArchiveQuery
from pipeline.errors import SourceFileError, SourceOptionError
from pipeline.source_files import SourceFile, SourceKind
from site_config.merge_keys import MAX_OP_SIZE, MERGE_KEYS
from site_config.merge_settings import replay_rules

KEYS = tuple(key.name for key in MERGE_KEYS)
"""Keys of Hadoop's configuration on which replay depends."""


def archived_files(query: ArchiveQuery, kind: SourceKind, folder: Path, values: Mapping[str, str]) -> list[SourceFile]:
    """Restore the image of a moment, or fetch the segments with the requested transactions, into `folder`.

    The function reuses files of an earlier query. It returns each file with a staged name that is unique among the
    archives and branches of a session.

    Args:
        values: values of the configured keys in `KEYS`.

    Raises:
        ArchiveError: the archive cannot be read, or does not contain the moment.
        SourceOptionError: the moment is neither a transaction id nor a time.
        SourceFileError: the archive lacks all requested transactions, or `folder` cannot be written.
    """
    try:
        with opened(query.location, Path(query.key_file) if query.key_file else None) as archive:
            view = chosen_view(archive, query.branch or None)
            prefix = sha256(f"{query.location}\0{view.branch}\0{query.tokens}".encode()).hexdigest()[:16]
            own = folder / prefix
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            if kind is SourceKind.IMAGE:
                path = _restored(archive, view, query, own, values)
                return [SourceFile(str(path), path.name)]
            pieces = _wanted_pieces(view, query, in_progress=kind is SourceKind.OPEN_EDITS)
            paths = [_segment(archive, each, own) for each in pieces]
            return [SourceFile(str(each), _link(each, f"{prefix}-{each.name}")) for each in paths]
    except BadParameter as fault:
        raise SourceOptionError(
            f"option as_of: {fault.message}", hint="Use a transaction id, or a time such as 2026-11-28T14:03:00."
        ) from None
    except OSError as fault:
        raise SourceFileError(
            f"{without_password(query.location)} cannot be copied to {folder}: {fault}",
            hint="Check the key file and spark.local.dir.",
        ) from None


def _restored(archive: Archive, view: BranchView, query: ArchiveQuery, folder: Path, values: Mapping[str, str]) -> Path:
    with _scratch(folder) as scratch:
        txid = resolve_moment(archive, view, query.as_of, scratch) if query.as_of else newest_moment(view)
        plan = plan_restore(view, txid)
        path = folder / f"{folder.name}-{image_name(txid)}"
        if not path.exists():
            configuration = Configuration.from_mapping(values, os.environ)
            settings = MergeSettings(rules=replay_rules(configuration), max_op_size=MAX_OP_SIZE.read(configuration))
            # Spark sends the image to every executor
            options = RestoreOptions(strip_tokens=not query.tokens, settings=settings)
            made = restore_moment(archive, plan, scratch, options).image
            write_md5_file(path, read_md5_file(made))
            made.rename(path)
    return path


def _wanted_pieces(view: BranchView, query: ArchiveQuery, *, in_progress: bool) -> list[Piece]:
    low, high = query.from_txid or 0, query.to_txid
    pieces = [
        each
        for each in view.pieces
        if (in_progress or each.record.finalized) and each.last >= low and (high is None or each.record.first <= high)
    ]
    if not pieces:
        raise SourceFileError(
            f"{without_password(query.location)} has none of the requested transactions of branch {view.branch}",
            hint="`checkpointer archive list` shows its content.",
        )
    return pieces


def _segment(archive: Archive, piece: Piece, folder: Path) -> Path:
    """Fetch an object with edits; the file ends after the last transaction of the piece."""
    record = piece.record
    path = folder / segment_name(record.first, piece.last)
    if not path.exists():
        with _scratch(folder) as scratch:
            segment = fetch_segment(archive, record, scratch)
            if piece.last < record.last:
                with map_file(segment.path) as content:
                    end, _ = position_after(segment, content, piece.last)
                os.truncate(segment.path, end)
            segment.path.rename(path)
    return path


def _link(path: Path, name: str) -> str:
    link = path.with_name(name)
    if not link.exists():
        link.hardlink_to(path)
    return name


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    with TemporaryDirectory(prefix="making-", dir=folder) as scratch:
        yield Path(scratch)
