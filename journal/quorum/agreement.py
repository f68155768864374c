"""Finds the durable part of a segment's copies by comparing bytes, because copies may have unacknowledged transactions.

A node that was disconnected from a writer may have different transactions for the same txids, although a majority never
had these transactions. Therefore, the number of transactions that a node reports does not identify the transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from journal.errors import CorruptHeaderError, CorruptOpError
from journal.primitives import Buffer
from journal.segment_format import HEADER_SIZE, decode_header
from journal.segment_frames import OpFrame, iter_frames
from journal.system_ops import StartLogSegmentOp

_STEP = 1 << 16


@dataclass(frozen=True, slots=True)
class SegmentCopy:
    """The header and the transactions in a node's copy of a segment; all copies begin with the same txid.

    Attributes:
        committed: newest transaction that the node knows to be committed; None for Hadoop releases before 3.0, which do
            not report it.
    """

    content: Buffer
    committed: int | None = None


@dataclass(frozen=True, slots=True)
class DurablePrefix:
    """Transactions of `content` up to `last`; later transactions in `content` do not count."""

    content: Buffer
    last: int


def durable_part(copies: Sequence[SegmentCopy], first_txid: int, need: int) -> DurablePrefix | None:
    """Return the transactions from `first_txid` on that every later recovery will keep; None if none exists.

    These transactions are byte-identical in `need` copies, where `need` is a majority of the nodes. A START_LOG_SEGMENT
    at the end does not count, because every attempt to begin a segment writes the same operation. If there are at least
    `need` copies, and no two copies differ in their common part, transactions that a node knows to be committed also
    count. The reason is that any majority of copies includes the copy of a node that acknowledged them. Fewer copies
    prove nothing: the other nodes may have purged the segment, and these copies may come from a disconnected writer.
    """
    ends = [_whole_end(copy.content, len(copy.content), first_txid) for copy in copies]
    common = [
        [_common(one, min(a, b), other) for other, (b, _) in zip(copies, ends, strict=True)]
        for one, (a, _) in zip(copies, ends, strict=True)
    ]
    parts = [
        part
        for copy, row in zip(copies, common, strict=True)
        if len(row) >= need and (part := _agreed(copy, sorted(row)[-need], first_txid)) is not None
    ]
    committed = max((copy.committed for copy in copies if copy.committed is not None), default=None)
    if committed is not None and len(copies) >= need and _consistent(ends, common):
        longest = max(range(len(copies)), key=lambda index: ends[index][0])
        _, last = _whole_end(copies[longest].content, ends[longest][0], first_txid, limit=committed)
        parts += [DurablePrefix(copies[longest].content, last)] if last >= first_txid else []
    return max(parts, key=lambda part: part.last, default=None)


def same_transactions(one: Buffer, other: Buffer, first_txid: int, last_txid: int) -> bool:
    """Return whether both copies of a segment have identical transactions `first_txid` to `last_txid`."""
    end, last = _whole_end(one, len(one), first_txid, limit=last_txid)
    return last == last_txid and end <= len(other) and _common(SegmentCopy(one), end, SegmentCopy(other)) == end


def _consistent(ends: Sequence[tuple[int, int]], common: Sequence[Sequence[int]]) -> bool:
    """Return whether, in any pair of copies, one copy is a prefix of the other copy."""
    return all(
        common[one][other] == min(ends[one][0], ends[other][0]) for one in range(len(ends)) for other in range(one)
    )


def _agreed(copy: SegmentCopy, stop: int, first_txid: int) -> DurablePrefix | None:
    last = first_txid - 1
    with memoryview(copy.content) as whole, whole[:stop] as view:
        for frame in _frames(view, first_txid):
            if frame.opcode != StartLogSegmentOp.opcode:
                last = frame.txid
    return None if last < first_txid else DurablePrefix(copy.content, last)


def _whole_end(content: Buffer, stop: int, first_txid: int, *, limit: int | None = None) -> tuple[int, int]:
    """Return the end in bytes and the last txid of the complete transactions in `content[:stop]`, up to `limit`."""
    end, last = 0, first_txid - 1
    with memoryview(content) as whole, whole[:stop] as view:
        for frame in _frames(view, first_txid):
            if limit is not None and frame.txid > limit:
                break
            end, last = frame.end, frame.txid
    return end, last


def _frames(view: memoryview, first_txid: int) -> Iterator[OpFrame]:
    """Yield complete operations up to the first txid that is not consecutive."""
    try:
        decode_header(view)
        for expected, frame in enumerate(iter_frames(view, HEADER_SIZE, len(view)), first_txid):
            if frame.txid != expected:
                return
            yield frame
    except (CorruptHeaderError, CorruptOpError):
        return


def _common(one: SegmentCopy, limit: int, other: SegmentCopy) -> int:
    """Return the number of equal bytes at the start of both copies, up to `limit`."""
    with memoryview(one.content) as a, memoryview(other.content) as b:
        for start in range(0, limit, _STEP):
            stop = min(start + _STEP, limit)
            if a[start:stop] != b[start:stop]:
                return _first_difference(a, b, start, stop)
    return limit


def _first_difference(a: memoryview, b: memoryview, start: int, stop: int) -> int:
    while stop - start > 1:
        middle = (start + stop) // 2
        if a[start:middle] == b[start:middle]:
            start = middle
        else:
            stop = middle
    return start
