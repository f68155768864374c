"""Segments in progress as recovery would finalize them, decided without changing a file (FileJournalManager)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hadoop_common.errors import StorageError
from hadoop_common.file_faults import told
from journal.errors import CorruptOpError, SegmentError, TransactionGapError
from journal.primitives import Buffer
from journal.salvage import examine_segment
from journal.segment_file import EditLogSegment, map_file

_HINT = (
    "Run `checkpointer edits recover` on it and compare the result with another edits directory, "
    "or move the file away if nobody needs its transactions."
)


@dataclass(frozen=True, slots=True)
class InProgressSegment:
    """A segment in progress, and how far it can be read.

    Attributes:
        segment: with its last good txid as `last`, as if it were finalized.
        cut_bytes: bytes of a half-written operation, or of junk, behind the last good one; padding not counted.
    """

    segment: EditLogSegment
    cut_bytes: int


def read_in_progress_segments(segments: Iterable[EditLogSegment]) -> list[InProgressSegment]:
    """The ones of the in-progress `segments` that hold an operation, each up to its last good one.

    A file of 0 bytes, and one with nothing but a header, hold no transaction: a NameNode deletes the one and
    moves the other aside, here both are passed over.

    Raises:
        CorruptHeaderError: a header is cut or was never written.
        UnsupportedLayoutError: a layout is unknown.
        CorruptOpError, TransactionGapError: whole operations lie behind a damaged one, or the txids do not
            begin with the name's or have a gap.
        StorageError: a file cannot be read.
    """
    try:
        examined = [_examine(segment) for segment in segments if segment.path.stat().st_size > 0]
    except OSError as error:
        raise StorageError(
            f"a segment in progress cannot be read: {told(error)}", hint="Check its disk and permissions."
        ) from error
    return [found for found in examined if found is not None]


def _examine(segment: EditLogSegment) -> InProgressSegment | None:
    with map_file(segment.path) as content:
        return examine_in_progress_segment(segment, content)


def examine_in_progress_segment(segment: EditLogSegment, content: Buffer) -> InProgressSegment | None:
    """How far `content`, the bytes of a segment in progress, can be read; None where it holds no operation.

    Raises:
        JournalError: as `read_in_progress_segments`.
    """
    found = examine_segment(content, file=str(segment.path), first_txid=segment.first)
    fault = found.fault
    if isinstance(fault, TransactionGapError):
        fault.hint = _HINT
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
    """Refuse two versions of one transaction, of which one lies in a segment in progress.

    A NameNode refuses only when the finalized name exists already, and else takes the longer one unseen.
    Transactions that the image holds do not matter.

    Raises:
        SegmentError: names both files.
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
                    f"transactions {max(ours.first, theirs.first)} to {end} are in {theirs.path.name} too",
                    file=str(ours.path),
                    txid=max(ours.first, theirs.first),
                    hint="Compare the two files, and move the one away that is not wanted.",
                )
        known.append(ours)
