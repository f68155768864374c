"""The sources of an undelete: an image and the segments of a storage directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from archive.errors import ArchiveError, NoSuchRemovalError
from archive.removals import LastRemoval, Removal, up_to
from archive.restoring import Source
from engine.in_progress_segments import read_in_progress_segments
from hadoop_common.file_faults import error_text, hint_for
from hadoop_common.names import SEEN_TXID, VERSION, parse_image
from hadoop_common.regular_file import read_regular
from hadoop_common.seen_txid import check_covered, read_seen_txid
from hadoop_common.storage_info import MAX_VERSION_BYTES
from hadoop_common.storage_lock import storage_user
from image_format.md5_file import md5_path
from journal.op_times import clean_path
from journal.segment_file import EditLogSegment, list_segments, read_ops, select_segments


def source_before_removal(directory: Path, path: str, before: int | None = None) -> tuple[Source, Removal]:
    """Return the source of the restore, and the newest operation before `before` that can have removed `path`.

    The source consists of the newest image that precedes this operation, and of all edits. The path may not have
    existed before the operation; see `restore_removed`.

    Raises:
        ArchiveError: the directory is in use or cannot be read, has no image older than the operation, or has an image
            that is newer than its edits.
        StorageError: the edits end before seen_txid.
        NoSuchRemovalError: no segment contains an operation that can have removed the path.
        TransactionGapError: edits are missing between the image and the newest segment.
    """
    current = directory / "current"
    if user := storage_user(directory):
        raise ArchiveError(
            f"{directory} is in use by {user}, which still writes edits: these edits would be missing from the result",
            hint="Follow docs/runbook-deleted.md: enter safe mode first, and undelete once the NameNode has stopped.",
        )
    try:
        version = read_regular(current / VERSION, MAX_VERSION_BYTES)
        segments = _readable(list_segments(current))
        images = [each for each in current.iterdir() if parse_image(each.name) and md5_path(each).is_file()]
    except OSError as fault:
        raise ArchiveError(
            f"{directory} is not a storage directory that can be read: {error_text(fault)}",
            hint=hint_for(fault, "Specify the storage directory of a stopped NameNode, which has current/VERSION."),
        ) from fault
    _require_newest(current, segments, images)
    wanted = clean_path(path)
    search = LastRemoval(wanted, before)
    earlier = [each for each in segments if before is None or each.first < before]
    found = (search.in_segment(read_ops(each)) for each in reversed(earlier))
    removal = next((each for each in found if each is not None), None) or search.pending
    if removal is None:
        raise NoSuchRemovalError(
            f"no segment in {current} deletes {wanted}, or a directory above it{up_to(before)}",
            hint="Search the other edits directories, or an archive.",
        )
    below = [(name.txid, each) for each in images if (name := parse_image(each.name)) and name.txid < removal.txid]
    if not below:
        raise ArchiveError(
            f"{current} has no image older than transaction {removal.txid}, the last transaction that "
            f"could have deleted {wanted}",
            hint="Use the directory of another NameNode or of a checkpointer, or an archive.",
        )
    image_txid, image = max(below)
    chosen = select_segments(segments, image_txid + 1)
    return Source(image, image_txid, tuple(chosen), chosen[-1].last or removal.txid, version), removal


def _require_newest(current: Path, segments: Sequence[EditLogSegment], images: Sequence[Path]) -> None:
    """Check that no edits are missing at the end, because the result would lack acknowledged transactions.

    Raises:
        StorageError: the edits end before seen_txid.
        ArchiveError: the edits end before the newest image.
    """
    last = max((each.last for each in segments if each.last is not None), default=0)
    seen = current / SEEN_TXID
    check_covered(current, read_seen_txid(seen) if seen.exists() else None, last)
    newest = max((name.txid for each in images if (name := parse_image(each.name))), default=0)
    if newest > last:
        raise ArchiveError(
            f"{current} has an image of transaction {newest}, but its edits end at {last}",
            hint="Copy the missing segments to this directory from the shared edits, another edits directory or a "
            "JournalNode.",
        )


def _readable(segments: list[EditLogSegment]) -> list[EditLogSegment]:
    """Return the finalized segments, and the segments in progress up to their last transaction."""
    opened = read_in_progress_segments([each for each in segments if each.in_progress])
    whole = [each for each in segments if not each.in_progress]
    return sorted([*whole, *(each.segment for each in opened)], key=lambda each: each.first)
