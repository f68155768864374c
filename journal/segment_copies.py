"""Selects the segments of a log from their copies in one or more journals, and reads the best copies."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from journal.errors import JournalError, SegmentError, TransactionGapError, is_damage
from journal.journal import ReadableSegment
from journal.operation import EditOp

_LOG = logging.getLogger(__name__)
# The last logged failures: a standby reads the last segments again in each poll, but logs a damaged copy once. A
# failure that has ended and returns is not logged again. No `RecurringFault` is used, because no object outlives a
# poll's segments.
_logged: deque[str] = deque(maxlen=100)


class SegmentCopies:
    """A segment with several copies, the best copy first (RedundantEditLogInputStream).

    Attributes:
        last: the last txid of the segment; a copy may contain later transactions.
    """

    def __init__(self, copies: Sequence[ReadableSegment], last: int) -> None:
        self.copies = tuple(copies)
        self.last = last

    @property
    def first(self) -> int:
        return self.copies[0].first

    @property
    def in_progress(self) -> bool:
        return self.copies[0].in_progress

    @property
    def name(self) -> str:
        return self.copies[0].name

    def read(self, from_txid: int) -> Iterator[EditOp]:
        """Yield operations `from_txid` to `last`; when a copy fails, the next copy continues at the same txid.

        Raises:
            JournalError: no copy has the remaining operations; the error is the first failure that is not damage, with
                a hint that names a damaged copy, or else the first failure.
        """
        expected = max(from_txid, self.first)
        failure: JournalError | None = None
        damaged = ""
        for copy in self.copies:
            if expected > self.last:
                return
            try:
                for op in copy.read(expected):
                    if op.txid > self.last:
                        return
                    yield op
                    expected = op.txid + 1
            except JournalError as error:
                if failure is None or (is_damage(failure) and not is_damage(error)):
                    failure = error
                if is_damage(error):
                    damaged = damaged or copy.name
                text = f"{copy.name} fails at txid {expected}: {error}"
                if text not in _logged:
                    _logged.append(text)
                    _LOG.warning("%s", text)
        if expected <= self.last:
            if failure is not None and damaged and not is_damage(failure):
                failure.hint = f"{failure.hint} This copy is needed, because {damaged} is damaged.".lstrip()
            raise failure or SegmentError(f"no copy continues to txid {self.last}", file=self.name, txid=expected)


def group_copies(segments: Iterable[ReadableSegment]) -> list[SegmentCopies]:
    """Return `segments` in order; segments with the same first txid become copies of one segment.

    A segment ends where the next segment begins, because the writer of the next segment had recovered all earlier
    segments. A copy with later transactions comes from a fenced writer (JournalSet.chainAndMakeRedundantStreams
    compares only first txids). The copies of a segment are ordered by these criteria: whether the copy reaches this
    end, whether it is finalized, and its length.
    """
    by_first: defaultdict[int, list[ReadableSegment]] = defaultdict(list)
    for segment in segments:
        by_first[segment.first].append(segment)
    starts = sorted(by_first)
    ends = [start - 1 for start in starts[1:]]
    return [_best_first(by_first[first], end) for first, end in zip_longest(starts, ends)]


def chain_segments(segments: Iterable[ReadableSegment], from_txid: int) -> list[SegmentCopies]:
    """Group `segments`, which may be in any order, with `group_copies`, and return the log from `from_txid` on.

    Raises:
        TransactionGapError: transactions are missing between `from_txid` and the newest transaction.
    """
    chain = []
    expected = from_txid
    for segment in group_copies(segments):
        if segment.last < expected:
            continue
        if segment.first > expected:
            raise _gap(expected, segment.first, segment.name)
        chain.append(segment)
        expected = segment.last + 1
    return chain


def chain_listed(listed: Callable[[], Iterable[ReadableSegment]], from_txid: int) -> list[SegmentCopies]:
    """Return the log from `from_txid` on. A second listing confirms a gap, because a rename may hide a segment.

    Raises:
        TransactionGapError: transactions are missing between `from_txid` and the newest transaction.
    """
    try:
        return chain_segments(listed(), from_txid)
    except TransactionGapError:
        return chain_segments(listed(), from_txid)


def read_log(chain: Iterable[ReadableSegment], from_txid: int) -> Iterator[EditOp]:
    """Yield the operations of `chain`, a result of `Journal.segments`, in one sequence from `from_txid` on.

    Raises:
        TransactionGapError: a segment does not continue the previous segment.
        JournalError: a segment cannot be read.
    """
    expected = from_txid
    for segment in chain:
        for op in segment.read(expected):
            if op.txid != expected:
                raise TransactionGapError(expected, op.txid, file=segment.name, offset=op.offset)
            yield op
            expected += 1


def _best_first(copies: list[ReadableSegment], end: int | None) -> SegmentCopies:
    def merit(copy: ReadableSegment) -> tuple[bool, bool, int]:
        return (end is not None and copy.last >= end, not copy.in_progress, copy.last)

    ordered = sorted(copies, key=merit, reverse=True)
    last = ordered[0].last
    return SegmentCopies(ordered, last if end is None else min(last, end))


def _gap(expected: int, found: int, name: str) -> TransactionGapError:
    problem = f"gap in the edit log: txids {expected} to {found - 1} are missing before {name}"
    return TransactionGapError(expected, found, problem=problem, file=name)
