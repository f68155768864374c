"""Reads segments in progress as recovery would finalize them, without changing a file (FileJournalManager)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from journal.errors import CorruptHeaderError, CorruptOpError, SegmentError, TransactionGapError, UnreadableOpError
from journal.primitives import Buffer
from journal.salvage import examine_segment
from journal.segment_file import EditLogSegment, map_file
from journal.segment_format import HEADER_SIZE

_HINT = (
    "Run `checkpointer edits recover` on this file, and compare the result with another edits directory, or move "
    "the file away if its transactions are not needed."
)
_HEADER_START = 3
_NOTHING_WRITTEN_HINT = (
    "This file contains no transaction: the NameNode stopped before it wrote the header, for example because the disk "
    "was full. If no NameNode is running with this directory, and no other edits directory has this segment with "
    "transactions, move the file away and try again."
)


@dataclass(frozen=True, slots=True)
class InProgressSegment:
    """A segment in progress and its readable part.

    Attributes:
        segment: the segment as if it were finalized, with the last good txid as `last`.
        cut_bytes: number of bytes of a partial operation or garbage after the last good operation, excluding padding.
    """

    segment: EditLogSegment
    cut_bytes: int


def read_in_progress_segments(segments: Iterable[EditLogSegment]) -> list[InProgressSegment]:
    """Return the `segments` in progress that contain operations, each up to its last good operation.

    An empty file, or a file with only a header, contains no transaction. A NameNode deletes these files or sets them
    aside; this function skips them.

    Raises:
        CorruptHeaderError: a header is truncated or was never written.
        UnsupportedEditsLayoutError: a layout is unknown.
        CorruptOpError, TransactionGapError: valid operations follow a damaged operation, or the txids have a gap or do
            not start with the file name's txid.
        UnreadableOpError: other software wrote an operation.
        StorageError: a file cannot be read.
    """
    try:
        examined = [_examine(segment) for segment in segments if segment.path.stat().st_size > 0]
    except OSError as error:
        raise StorageError(
            f"a segment in progress cannot be read: {error_text(error)}", hint="Check its disk and permissions."
        ) from error
    return [found for found in examined if found is not None]


def _examine(segment: EditLogSegment) -> InProgressSegment | None:
    with map_file(segment.path) as content:
        return examine_in_progress_segment(segment, content)


def examine_in_progress_segment(segment: EditLogSegment, content: Buffer) -> InProgressSegment | None:
    """Return the readable part of a segment in progress, or None if `content`, its bytes, contains no operation.

    Raises:
        JournalError: see `read_in_progress_segments`.
    """
    try:
        found = examine_segment(content, file=str(segment.path), first_txid=segment.first)
    except CorruptHeaderError as error:
        # the file is preallocated with 0xff bytes, and a layout version also begins with 0xff
        head = bytes(content[:_HEADER_START] if len(content) < HEADER_SIZE else content)
        if not head.strip(b"\xff"):
            error.hint = _NOTHING_WRITTEN_HINT
        raise
    fault = found.fault
    if isinstance(fault, TransactionGapError):
        fault.hint = _HINT
        raise fault
    if isinstance(fault, UnreadableOpError):
        raise fault
    if fault is not None and found.lost:
        lost = ", ".join(f"{run.first} to {run.last}" for run in found.lost[:3])
        raise CorruptOpError(
            f"{fault.problem}; intact transactions follow it: {lost}",
            file=str(segment.path),
            offset=found.end,
            txid=segment.first if found.last_txid is None else found.last_txid + 1,
            hint=_HINT,
        ) from fault
    if found.last_txid is None:
        return None
    return InProgressSegment(EditLogSegment(segment.first, found.last_txid, segment.path), found.cut_bytes)


def check_overlaps(found: Sequence[InProgressSegment], others: Iterable[EditLogSegment], image_txid: int) -> None:
    """Refuse two versions of a transaction if one of them is in a segment in progress.

    A NameNode refuses them only if the finalized name already exists; otherwise it silently uses the longer segment.
    Transactions that the image contains are not compared.

    Raises:
        SegmentError: two versions exist; the error names both files.
    """
    known = [segment for segment in others if segment.last is not None]
    for item in found:
        ours = item.segment
        assert ours.last is not None
        for theirs in known:
            assert theirs.last is not None
            same = (ours.first, ours.last) == (theirs.first, theirs.last)
            start, end = max(ours.first, theirs.first, image_txid + 1), min(ours.last, theirs.last)
            if same or start <= end:
                raise SegmentError(
                    f"transactions {max(ours.first, theirs.first)} to {end} are also in {theirs.path.name}",
                    file=str(ours.path),
                    txid=max(ours.first, theirs.first),
                    hint="Compare the two files, and move the unwanted file away.",
                )
        known.append(ours)
