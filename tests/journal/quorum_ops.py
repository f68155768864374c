"""Transactions for tests of the quorum journal, each with different bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from journal.binary_codec import encode_op
from journal.journal import ReadableSegment, RecordBatch
from journal.operation import EditOp
from journal.ops import EndLogSegmentOp, SetGenstampV2Op, StartLogSegmentOp
from tests.journal.quorum_model import LAYOUT


def mark(txid: int, value: int) -> bytes:
    """Return a transaction that contains `value`."""
    return encode_op(SetGenstampV2Op(genstamp=value, txid=txid), LAYOUT)


def start_op(txid: int) -> bytes:
    return encode_op(StartLogSegmentOp(txid=txid), LAYOUT)


def end_op(txid: int) -> bytes:
    return encode_op(EndLogSegmentOp(txid=txid), LAYOUT)


def batch_of(first: int, records: list[bytes]) -> RecordBatch:
    return RecordBatch(first, first + len(records) - 1, b"".join(records))


def batch(first: int, last: int, value: int = 0) -> RecordBatch:
    """Return txids `first` to `last`, all with `value`."""
    return batch_of(first, [mark(txid, value) for txid in range(first, last + 1)])


def encoded(ops: Iterable[EditOp]) -> dict[int, bytes]:
    return {op.txid: encode_op(op, LAYOUT) for op in ops}


def read_all(segments: Iterable[ReadableSegment], from_txid: int = 1) -> dict[int, bytes]:
    """Return the records of the segments by txid."""
    return encoded(_ops(segments, from_txid))


def _ops(segments: Iterable[ReadableSegment], from_txid: int) -> Iterator[EditOp]:
    for segment in segments:
        yield from segment.read(max(from_txid, segment.first))


def write_segment(journal: Any, first: int, last: int, *, finalize: bool = True, value: int = 0) -> Any:
    """Write a segment of batches of one transaction each."""
    segment = journal.start_segment(first, LAYOUT)
    for txid in range(first, last + 1):
        segment.append(batch(txid, txid, value))
    if finalize:
        segment.finalize(last)
    return segment
