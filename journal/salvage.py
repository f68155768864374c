"""Examination of a damaged segment: the operations before the first damage, and the readable operations after it."""

from __future__ import annotations

from dataclasses import dataclass

from journal.binary_codec import decode_op
from journal.errors import CorruptOpError, JournalError, SegmentError, TransactionGapError
from journal.primitives import Buffer
from journal.resync import ReadableRun, readable_runs
from journal.segment_format import HEADER_SIZE, SegmentCursor, decode_header

_PADDING = b"\x00\xff"
_STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class SegmentExamination:
    """The intact part of a segment, and the remaining bytes.

    Attributes:
        first_txid, last_txid: txids of the intact operations; None if no operation is intact.
        transactions: number of intact operations.
        end: byte position after the last intact operation.
        fault: the error after this position; None if the segment is complete.
        padding_bytes: number of bytes 0x00 and 0xFF after the intact operations, if only these bytes follow.
        cut_bytes: number of bytes after the intact operations that are not padding.
        lost: complete operations that a truncation would lose: after the damage, or of other software.
    """

    layout_version: int
    first_txid: int | None
    last_txid: int | None
    transactions: int
    end: int
    fault: JournalError | None
    padding_bytes: int
    cut_bytes: int
    lost: tuple[ReadableRun, ...]


def examine_segment(
    buffer: Buffer, *, file: str = "", first_txid: int | None = None, last_txid: int | None = None
) -> SegmentExamination:
    """Read a whole segment up to its first damage.

    Args:
        buffer: the whole file.
        file: name of the file, for errors.
        first_txid: first txid in the file's name.
        last_txid: last txid in the file's name; bytes after this transaction are not read.

    Raises:
        CorruptHeaderError, UnsupportedEditsLayoutError: see `decode_header`.
    """
    layout_version = decode_header(buffer, file=file)
    fault: JournalError | None = None
    first = last = None
    last_offset = count = 0
    try:
        for op in SegmentCursor(buffer, file=file, first_txid=first_txid, last_txid=last_txid):
            first = op.txid if first is None else first
            last, last_offset = op.txid, op.offset
            count += 1
    except (CorruptOpError, SegmentError, TransactionGapError) as error:
        fault = error
    end = decode_op(buffer, last_offset, layout_version)[1] if count else HEADER_SIZE
    tail = len(buffer) - end
    padded = is_padding(buffer, end)
    lost: tuple[ReadableRun, ...] = ()
    if fault is not None and not padded:
        min_txid = first_txid if last is None else last + 1
        lost = tuple(readable_runs(buffer, end, min_txid))
    return SegmentExamination(
        layout_version, first, last, count, end, fault, tail if padded else 0, 0 if padded else tail, lost
    )


def is_padding(buffer: Buffer, position: int) -> bool:
    """Return whether `position` is the end, or only bytes 0x00 and 0xFF follow."""
    return not any(
        bytes(buffer[start : start + _STEP]).strip(_PADDING) for start in range(position, len(buffer), _STEP)
    )
