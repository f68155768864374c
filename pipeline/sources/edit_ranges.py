"""Ranges of a segment's bytes, and their transactions, whose times do not depend on the segment's division."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from journal.binary_codec import MAX_OP_SIZE, decode_op
from journal.errors import CorruptOpError, SegmentError, TransactionGapError
from journal.op_times import TIMED, op_time
from journal.operation import EditOp
from journal.primitives import Buffer
from journal.segment_format import HEADER_SIZE, check_padding, decode_header
from journal.segment_frames import OpFrame, check_frame, iter_frames
from pipeline.sources.edit_rows import EditRow

_MAX_PENDING = 4096


@dataclass(frozen=True, slots=True)
class WantedEdits:
    """A selection of transactions: txids `low` .. `high`. An operation of more than `max_op_size` bytes is an error."""

    low: int = 0
    high: int = (1 << 63) - 1
    max_op_size: int = MAX_OP_SIZE

    def takes(self, txid: int) -> bool:
        return self.low <= txid <= self.high


@dataclass(frozen=True, slots=True)
class EditsRange:
    """Bytes `start` .. `end` of a segment; an operation belongs to the range that contains its opcode.

    Attributes:
        file: name of the segment's file, for errors and rows.
        first_txid: txid of the first operation; None if unknown.
        last_txid: txid of the last required operation, where reading stops. None: read up to the end.
        segment_end: upper bound of the segment's end in the file.
        time: time in ms of the nearest earlier operation with a time; None if there is none.
    """

    file: str
    start: int
    end: int
    first_txid: int | None
    last_txid: int | None
    segment_end: int
    time: int | None = None

    def meets(self, wanted: WantedEdits) -> bool:
        """Return whether the range may contain a wanted transaction."""
        too_late = self.first_txid is not None and self.first_txid > wanted.high
        return not too_late and (self.last_txid is None or self.last_txid >= wanted.low)


def read_range(buffer: Buffer, piece: EditsRange, wanted: WantedEdits) -> Iterator[EditRow]:
    """Yield the wanted transactions of a range in order; `buffer` is the segment's whole file.

    The function checks length, checksum and txid of other transactions, but does not decode these transactions.

    Raises:
        CorruptHeaderError, UnsupportedEditsLayoutError: see `decode_header`.
        CorruptOpError: an operation is damaged, or bytes other than padding follow the last operation.
        TransactionGapError: a txid is not the successor of the previous txid.
        SegmentError: the range ends before `last_txid`.
    """
    layout_version = decode_header(buffer, file=piece.file)
    clock = _Clock(buffer, layout_version, piece)
    for frame in _checked(buffer, piece):
        if frame.txid > wanted.high:
            return
        if wanted.takes(frame.txid):
            op, _ = decode_op(buffer, frame.start, layout_version, file=piece.file, max_op_size=wanted.max_op_size)
            yield EditRow(op, clock.at(op))
        else:
            clock.passes(frame)


def _checked(buffer: Buffer, piece: EditsRange) -> Iterator[OpFrame]:
    """Yield the operations of the range; each is complete and has the expected txid."""
    expected, position = piece.first_txid, piece.start
    try:
        for frame in iter_frames(buffer, piece.start, piece.end, file=piece.file):
            check_frame(buffer, frame, file=piece.file)
            if expected is not None and frame.txid != expected:
                raise TransactionGapError(expected, frame.txid, file=piece.file, offset=frame.start)
            yield frame
            expected, position = frame.txid + 1, frame.end
            if frame.txid == piece.last_txid:
                return
        if piece.last_txid is None:
            check_padding(buffer, position, piece.file)
    except CorruptOpError as error:
        if expected is not None:
            error.locate(txid=expected)
        raise
    if piece.last_txid is not None and (expected is None or expected <= piece.last_txid):
        reached = "contains no operation" if expected is None else f"ends before txid {expected}"
        problem = f"the segment {reached}, but its name ends at txid {piece.last_txid}"
        raise SegmentError(problem, file=piece.file, offset=position)


class _Clock:
    """Approximate times of operations; the clock decodes a skipped operation only if it needs the time."""

    def __init__(self, buffer: Buffer, layout_version: int, piece: EditsRange) -> None:
        self._buffer = buffer
        self._layout = layout_version
        self._piece = piece
        self._known = piece.time
        self._pending: list[int] = []
        self._ahead: int | None = None
        self._looked_ahead = False

    def passes(self, frame: OpFrame) -> None:
        """Record a skipped operation."""
        if frame.opcode in TIMED:
            self._pending.append(frame.start)
            if len(self._pending) > _MAX_PENDING:
                self._settle()

    def at(self, op: EditOp) -> int | None:
        """Return the time of `op`.

        If `op` has no time, return the time of the nearest earlier operation with a time, or else of the nearest later
        operation.
        """
        time = op_time(op)
        if time is not None:
            self._known = time
            self._pending.clear()
            return time
        known = self.before()
        return self._first_behind(op) if known is None else known

    def before(self) -> int | None:
        """Return the time of the nearest earlier operation with a time."""
        self._settle()
        return self._known

    def _settle(self) -> None:
        while self._pending:
            op, _ = decode_op(self._buffer, self._pending.pop(), self._layout, file=self._piece.file)
            time = op_time(op)
            if time is not None:
                self._known = time
                self._pending.clear()

    def _first_behind(self, op: EditOp) -> int | None:
        # All callers receive the same time, because no earlier operation has a time.
        if not self._looked_ahead:
            self._looked_ahead = True
            self._ahead = next(_times_from(self._buffer, op.offset, self._layout, self._piece), None)
        return self._ahead


def _times_from(buffer: Buffer, start: int, layout_version: int, piece: EditsRange) -> Iterator[int]:
    """Yield the times of operations from `start` to the segment's end, or to the first damage."""
    try:
        for frame in iter_frames(buffer, start, piece.segment_end, file=piece.file):
            if frame.opcode in TIMED:
                time = op_time(decode_op(buffer, frame.start, layout_version, file=piece.file)[0])
                if time is not None:
                    yield time
    except CorruptOpError:
        return  # the incomplete end of a segment in progress, or damage that the reader of that range reports


def cut_range(buffer: Buffer, whole: EditsRange, places: Sequence[int]) -> list[EditsRange]:
    """Divide a whole segment at the first operation at or after each of `places`, ascending offsets in bytes.

    The bytes after a damaged operation stay in one range, whose reader reports the damage.

    Raises:
        CorruptHeaderError, UnsupportedEditsLayoutError: see `decode_header`.
    """
    layout_version = decode_header(buffer, file=whole.file)
    pieces, rest = [], whole
    clock = _Clock(buffer, layout_version, whole)
    remaining = [place for place in places if place > HEADER_SIZE]
    expected = whole.first_txid
    try:
        for frame in iter_frames(buffer, whole.start, whole.end, file=whole.file) if remaining else ():
            if expected is not None and frame.txid != expected:
                break
            if frame.start >= remaining[0]:
                if whole.last_txid is not None and frame.txid > whole.last_txid:
                    break
                following = replace(rest, start=frame.start, first_txid=frame.txid, time=clock.before())
                pieces.append(replace(rest, end=frame.start, last_txid=frame.txid - 1))
                rest = following
                remaining = [place for place in remaining if place > frame.start]
                if not remaining:
                    break
            clock.passes(frame)
            expected = frame.txid + 1
    except CorruptOpError:
        pass  # The reader of the rest reports the damage with the txid.
    return [*pieces, rest]
