"""Segments and batches for the contract of all journals."""

from __future__ import annotations

from journal.binary_codec import encode_op
from journal.journal import Journal, RecordBatch
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from tests.journal.journal_support import numbered
from tests.journal.wal_support import INFO, LAYOUT, delete


def batch(first: int, ops: list[EditOp], layout_version: int = LAYOUT) -> RecordBatch:
    records = b"".join(encode_op(op, layout_version) for op in numbered(ops, first))
    return RecordBatch(first, first + len(ops) - 1, records)


def beginning(first: int, last: int) -> RecordBatch:
    """Return START_LOG_SEGMENT and deletes."""
    return batch(first, [StartLogSegmentOp(), *map(delete, range(first + 1, last + 1))])


def whole(first: int, last: int) -> RecordBatch:
    """Return a complete segment."""
    return batch(first, [StartLogSegmentOp(), *map(delete, range(first + 1, last)), EndLogSegmentOp()])


def write_segments(journal: Journal, *bounds: tuple[int, int]) -> None:
    journal.recover(INFO)
    for first, last in bounds:
        writer = journal.start_segment(first, LAYOUT)
        writer.append(whole(first, last))
        writer.finalize(last)


def extents(journal: Journal, from_txid: int, *, in_progress: bool = False) -> list[tuple[int, int, bool]]:
    return [(each.first, each.last, each.in_progress) for each in journal.segments(from_txid, in_progress=in_progress)]
