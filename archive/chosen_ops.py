"""Finds operations of a few kinds in a segment without decoding other operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from journal.operation import EditOp
from journal.segment_file import EditLogSegment, cursor_over, map_file
from journal.segment_format import HEADER_SIZE
from journal.whole_frames import whole_frames

_STEP = 1 << 20
"""Number of bytes of edits that are read at a time."""


def chosen_ops(segment: EditLogSegment, kinds: Sequence[type[EditOp]], from_txid: int) -> Iterator[EditOp]:
    """Yield the operations of these kinds from `from_txid` on; of other operations, check only checksums and txids.

    Raises:
        JournalError: the segment is damaged.
    """
    opcodes = [kind.opcode for kind in kinds]
    with map_file(segment.path) as content:
        cursor = cursor_over(segment, content, from_txid)
        position, expected = HEADER_SIZE, segment.first
        while True:
            chunk = bytes(content[position : position + _STEP])
            frames = whole_frames(chunk, expected, segment.last)
            data = np.frombuffer(chunk, np.uint8)
            for number in np.flatnonzero(np.isin(data[frames.starts], opcodes)).tolist():
                cursor.advance(position + int(frames.starts[number]), expected + number)
                if expected + number >= from_txid:
                    yield next(cursor)
            position, expected = position + frames.end, frames.next_txid
            if len(frames.starts):
                continue
            # the edits end here, or the next operation is larger than a chunk or damaged
            cursor.advance(position, expected)
            op = next(cursor, None)
            if op is None:
                return
            if isinstance(op, tuple(kinds)):
                yield op
            position, expected = cursor.position, op.txid + 1
