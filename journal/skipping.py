"""Skips single operations of a segment by replacing them with operations without effect that have the same txids.

The replacement is OP_TIMES of the root with both times -1 ("leave unchanged"). Every release reads this operation in
every layout (FSEditLogLoader, FSDirAttrOp.unprotectedSetTimes). Without a replacement, the segment would have a gap,
and a NameNode refuses gaps.

An operation that cannot be decoded is replaced in the same way, although its content is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from journal.attribute_ops import TimesOp
from journal.binary_codec import TERMINATOR, decode_op, encode_op
from journal.errors import CorruptOpError, JournalError, SegmentError, TransactionGapError
from journal.operation import EditOp
from journal.primitives import Buffer
from journal.resync import complete_op, readable_runs
from journal.segment_format import HEADER_SIZE, decode_header
from journal.system_ops import EndLogSegmentOp, StartLogSegmentOp

_UNCHANGED = -1


@dataclass(frozen=True, slots=True)
class SkippedOp:
    """A skipped transaction; `op` is None if it is unreadable or missing."""

    txid: int
    offset: int
    op: EditOp | None


@dataclass(frozen=True, slots=True)
class SkipPlan:
    """A segment with some operations skipped.

    Attributes:
        first_txid, last_txid: first and last txid of the result, which has all txids in between.
        pieces: bytes of the result: ranges of the source, and encoded operations.
        skipped: skipped operations, by txid.
        end: end of the last operation read from the source.
        fault: reason why nothing was read after `end`; None if `end` is the end of the segment.
    """

    layout_version: int
    first_txid: int
    last_txid: int
    pieces: tuple[range | bytes, ...]
    skipped: tuple[SkippedOp, ...]
    end: int
    fault: JournalError | None


@dataclass(frozen=True, slots=True)
class SkipRequest:
    """Transactions of a segment to skip.

    Attributes:
        txids: the transactions.
        file: name of the segment, for errors.
        first_txid, last_txid: txids in the file's name; None if the name does not contain them.
    """

    txids: Collection[int]
    file: str = ""
    first_txid: int | None = None
    last_txid: int | None = None


def neutral_op(txid: int) -> EditOp:
    """Return an operation without effect."""
    return TimesOp(txid=txid, path="/", mtime=_UNCHANGED, atime=_UNCHANGED)


def plan_skips(buffer: Buffer, request: SkipRequest) -> SkipPlan:
    """Read a whole segment and skip the operations that `request` names.

    Raises:
        SegmentError: an operation to skip is missing or is a marker without effect, or other operations are unreadable.
        CorruptHeaderError, UnsupportedEditsLayoutError: see `decode_header`.
    """
    return _Planner(buffer, request).plan()


class _Planner:
    def __init__(self, buffer: Buffer, request: SkipRequest) -> None:
        self._buffer = buffer
        self._request = request
        self._layout = decode_header(buffer, file=request.file)
        self._pieces: list[range | bytes] = [range(HEADER_SIZE)]
        self._skipped: list[SkippedOp] = []
        self._first = request.first_txid
        self._expected = request.first_txid
        self._fault: JournalError | None = None
        self._position = HEADER_SIZE

    def plan(self) -> SkipPlan:
        while not self._at_end():
            try:
                op, following = decode_op(self._buffer, self._position, self._layout, file=self._request.file)
                self._check_order(op)
            except CorruptOpError as error:
                if not self._jump(error):
                    self._fault = error
                    break
            else:
                self._take(op, following)
        self._check_missing()
        first, expected = self._first, self._expected
        if first is None or expected is None or expected == first:
            raise self._fault or SegmentError("the segment has no operation", file=self._request.file)
        return SkipPlan(
            self._layout, first, expected - 1, tuple(self._pieces), tuple(self._skipped), self._position, self._fault
        )

    def _at_end(self) -> bool:
        last = self._request.last_txid
        if last is not None and self._expected is not None and self._expected > last:
            return True
        return self._position >= len(self._buffer) or self._buffer[self._position] == TERMINATOR

    def _check_order(self, op: EditOp) -> None:
        expected = self._expected
        if expected is None:
            self._first = self._expected = op.txid
        elif op.txid > expected:
            self._leave_out_unread(expected, op.txid - 1, TransactionGapError(expected, op.txid))
        elif op.txid < expected:
            problem = f"found transaction {op.txid} instead of {expected}"
            raise SegmentError(problem, file=self._request.file, txid=expected)

    def _take(self, op: EditOp, following: int) -> None:
        if op.txid not in self._request.txids:
            self._copy(self._position, following)
        elif isinstance(op, StartLogSegmentOp | EndLogSegmentOp):
            raise SegmentError(
                f"the transaction is {op.name}, which has no effect",
                file=self._request.file,
                txid=op.txid,
                hint="Specify the operation that cannot be applied; the error of the NameNode or of `merge` contains "
                "its txid.",
            )
        else:
            self._leave_out(SkippedOp(op.txid, self._position, op))
        self._position, self._expected = following, op.txid + 1

    def _jump(self, error: CorruptOpError) -> bool:
        """Continue after a complete operation that cannot be decoded, or at the first complete operation after damage.

        All operations before this position must be operations to skip.

        Return False if no complete operation follows.
        """
        expected = self._expected
        undecodable = complete_op(self._buffer, self._position)
        if undecodable is not None and undecodable[0] == expected:
            self._leave_out_unread(expected, expected, error)
            self._position = undecodable[1]
            return True
        least = None if expected is None else expected + 1
        run = next(iter(readable_runs(self._buffer, self._position, least)), None)
        if run is None:
            return False
        if expected is None:
            # the earlier transactions are unknown
            raise error
        self._leave_out_unread(expected, run.first - 1, error)
        self._position, self._expected = run.start, run.first
        return True

    def _check_missing(self) -> None:
        """Check that a finalized segment is complete up to its last txid; an open segment may lose a torn tail."""
        last, expected = self._request.last_txid, self._expected
        if last is not None and expected is not None and expected <= last:
            fault = self._fault or TransactionGapError(expected, None)
            self._leave_out_unread(expected, last, fault)
            self._expected, self._fault = last + 1, None
        absent = set(self._request.txids) - {each.txid for each in self._skipped}
        if absent:
            raise SegmentError(
                f"the segment does not contain transaction {min(absent)}",
                file=self._request.file,
                hint="`checkpointer edits info` prints the first and the last transaction of a segment.",
            )

    def _leave_out_unread(self, first: int, last: int, fault: JournalError) -> None:
        wanted = [txid for txid in range(first, last + 1) if txid not in self._request.txids]
        if wanted:
            named = f"{first}-{last}" if last > first else f"{first}"
            what = f"transactions {first} to {last}" if last > first else f"transaction {first}"
            raise SegmentError(
                f"{what} cannot be read ({fault.problem})",
                file=self._request.file,
                offset=self._position,
                txid=first,
                hint="First look for a complete copy in another edits directory or on a JournalNode. If none exists, "
                f"--skip {named} omits these transactions.",
            )
        for txid in range(first, last + 1):
            self._leave_out(SkippedOp(txid, self._position, None))
        self._expected = last + 1

    def _leave_out(self, skipped: SkippedOp) -> None:
        self._skipped.append(skipped)
        first_of_all = skipped.txid == self._request.first_txid and skipped.op is None
        # Every segment begins with this marker, so the missing operation must be the marker.
        op = StartLogSegmentOp(txid=skipped.txid) if first_of_all else neutral_op(skipped.txid)
        self._pieces.append(encode_op(op, self._layout))

    def _copy(self, start: int, end: int) -> None:
        last = self._pieces[-1]
        if isinstance(last, range) and last.stop == start:
            self._pieces[-1] = range(last.start, end)
        else:
            self._pieces.append(range(start, end))


def source_ops(plan: SkipPlan, buffer: Buffer) -> Iterator[EditOp]:
    """Yield the readable operations of the source in order, including skipped operations."""
    skipped = iter(plan.skipped)
    for piece in plan.pieces:
        if isinstance(piece, bytes):
            op = next(skipped).op
            if op is not None:
                yield op
            continue
        position = max(piece.start, HEADER_SIZE)
        while position < piece.stop:
            op, position = decode_op(buffer, position, plan.layout_version)
            yield op
