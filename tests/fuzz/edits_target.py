"""Invariants for any bytes read as a segment: a typed error, or operations that encode to the same bytes."""

from __future__ import annotations

from hadoop_common.errors import HdfsError
from hadoop_common.names import inprogress_name
from journal.binary_codec import decode_op, encode_op
from journal.errors import JournalError
from journal.json_codec import op_from_json, op_to_json
from journal.operation import EditOp
from journal.recovery import recover_in_progress
from journal.segment_file import read_ops
from journal.segment_format import HEADER_SIZE, SegmentCursor, decode_header, scan_segment
from tests.fuzz.scratch import Scratch
from tests.fuzz.verdict import check_error

_FIRST = 1


def check_edits(data: bytes, scratch: Scratch) -> bool:
    """Read, scan and recover `data` as a segment; return False for a typed error.

    Raises:
        AssertionError: something was misread.
    """
    whole = _check_ops(data)
    in_progress = _check_in_progress(data)
    _check_recovery(data, in_progress[0].txid if in_progress else _FIRST, scratch)
    if whole is not None:
        assert in_progress is not None
        assert in_progress == whole
    return whole is not None


def _check_ops(data: bytes) -> list[EditOp] | None:
    """Return the operations of the segment, read as finalized, after checking each operation."""
    ops = []
    try:
        layout_version = decode_header(data)
        for op in SegmentCursor(data, file="edits"):
            _check_op(op, layout_version)
            ops.append(op)
    except HdfsError as error:
        check_error(error)
        return None
    return ops


def _check_op(op: EditOp, layout_version: int) -> None:
    encoded = encode_op(op, layout_version)
    again, end = decode_op(encoded, 0, layout_version)
    assert end == len(encoded)
    assert again == op
    assert op_from_json(op_to_json(op)) == op


def _check_in_progress(data: bytes) -> list[EditOp] | None:
    """Return the operations of the segment, read as in progress; a scan must end at the same position."""
    try:
        ops = list(SegmentCursor(data, in_progress=True))
    except HdfsError as error:
        check_error(error)
        return None
    scan = scan_segment(data)
    assert not scan.corrupt
    assert HEADER_SIZE <= scan.end <= len(data)
    assert (scan.first_txid, scan.last_txid) == ((ops[0].txid, ops[-1].txid) if ops else (None, None))
    return ops


def _check_recovery(data: bytes, first: int, scratch: Scratch) -> None:
    if first < 0:
        return
    scratch.file(inprogress_name(first), data)
    try:
        recovered = recover_in_progress(scratch.folder)
    except JournalError as error:
        check_error(error)
        return
    for segment in recovered:
        txids = [op.txid for op in read_ops(segment)]
        assert segment.last is not None
        assert txids == list(range(first, segment.last + 1))
