"""How far copies of transactions can be relied on that may not be acknowledged yet: bytes are compared, not counted.

A node that was cut off from a writer may hold, under the same txids, what no majority ever took. So the number of
transactions that a node tells says nothing of which they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from journal.binary_codec import decode_op
from journal.errors import CorruptHeaderError, CorruptOpError
from journal.primitives import Buffer
from journal.segment import HEADER_SIZE, decode_header
from journal.segment_frames import Frame, has_frames, hop
from journal.system_ops import StartLogSegmentOp

_STEP = 1 << 16


@dataclass(frozen=True, slots=True)
class OpenCopy:
    """A segment header and transactions as a node holds them; all copies begin with the same txid.

    Attributes:
        committed: newest transaction that the node knows to be committed; None where it does not tell (before 3.0).
    """

    content: Buffer
    committed: int | None = None


@dataclass(frozen=True, slots=True)
class DurablePart:
    """Transactions up to `last` in `content`; what lies behind them there does not count."""

    content: Buffer
    last: int


def durable_part(copies: Sequence[OpenCopy], first_txid: int, need: int) -> DurablePart | None:
    """What every later recovery will keep of the transactions from `first_txid` on; None where that is nothing.

    It is what `need` copies, a majority of the nodes, have byte for byte, but for START_LOG_SEGMENT at the end: it is
    the same in every attempt to begin a segment. Where no two copies contradict each other, it is also what a node
    knows to be committed: whoever asked a majority has the copy of one that acknowledged it.
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
    if committed is not None and _consistent(ends, common):
        longest = max(range(len(copies)), key=lambda index: ends[index][0])
        _, last = _whole_end(copies[longest].content, ends[longest][0], first_txid, limit=committed)
        parts += [DurablePart(copies[longest].content, last)] if last >= first_txid else []
    return max(parts, key=lambda part: part.last, default=None)


def same_transactions(one: Buffer, other: Buffer, first_txid: int, last_txid: int) -> bool:
    """Whether both copies of a segment hold `first_txid` to `last_txid`, and the same of them."""
    end, last = _whole_end(one, len(one), first_txid, limit=last_txid)
    return last == last_txid and end <= len(other) and _common(OpenCopy(one), end, OpenCopy(other)) == end


def _consistent(ends: Sequence[tuple[int, int]], common: Sequence[Sequence[int]]) -> bool:
    """Whether of any two copies one begins with the other."""
    return all(
        common[one][other] == min(ends[one][0], ends[other][0]) for one in range(len(ends)) for other in range(one)
    )


def _agreed(copy: OpenCopy, stop: int, first_txid: int) -> DurablePart | None:
    last = first_txid - 1
    with memoryview(copy.content) as whole, whole[:stop] as view:
        for frame in _frames(view, first_txid):
            if frame.opcode != StartLogSegmentOp.opcode:
                last = frame.txid
    return None if last < first_txid else DurablePart(copy.content, last)


def _whole_end(content: Buffer, stop: int, first_txid: int, *, limit: int | None = None) -> tuple[int, int]:
    """Bytes and last txid of the whole transactions in `content[:stop]`, none of them beyond `limit`."""
    end, last = 0, first_txid - 1
    with memoryview(content) as whole, whole[:stop] as view:
        for frame in _frames(view, first_txid):
            if limit is not None and frame.txid > limit:
                break
            end, last = frame.end, frame.txid
    return end, last


def _frames(view: memoryview, first_txid: int) -> Iterator[Frame]:
    """The whole operations, as long as their txids follow each other."""
    try:
        layout = decode_header(view)
        if not has_frames(layout):
            yield from _decoded(view, layout, first_txid)
            return
        for expected, frame in enumerate(hop(view, HEADER_SIZE, len(view)), first_txid):
            if frame.txid != expected:
                return
            yield frame
    except (CorruptHeaderError, CorruptOpError):
        return


def _decoded(view: memoryview, layout: int, first_txid: int) -> Iterator[Frame]:
    """The same for layouts whose operations do not tell their length."""
    start = HEADER_SIZE
    for expected in itertools.count(first_txid):
        if start >= len(view):
            return
        op, end = decode_op(view, start, layout)
        if op.txid != expected:
            return
        yield Frame(start, end, op.opcode, op.txid)
        start = end


def _common(one: OpenCopy, limit: int, other: OpenCopy) -> int:
    """How many of the first `limit` bytes are the same."""
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
