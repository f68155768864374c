"""Paths and times that are found without decoding equal the values in the decoded operations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.binary_codec import TERMINATOR, encode_op
from journal.errors import CorruptOpError
from journal.op_columns import op_columns
from journal.op_times import op_paths, op_time, spreads
from journal.operation import EditOp
from journal.ops import DeleteOp, TimesOp
from journal.primitives import encode_cesu8
from journal.segment_format import HEADER_SIZE, SegmentCursor, decode_header
from journal.whole_frames import Frames, whole_frames
from tests.depth import examples, sample
from tests.journal.journal_support import NEWEST, case_id, numbered, operations, recorded_segments

LAYOUTS = [-56, -60, -63, -66, NEWEST]


def named_by(ops: Sequence[EditOp]) -> list[tuple[bytes, bool]]:
    return sorted((encode_cesu8(path), spreads(op)) for op in ops for path in op_paths(op))


def assert_same(content: bytes, frames: Frames, layout: int, ops: Sequence[EditOp]) -> None:
    found = op_columns(content, frames, layout)
    assert found.times.tolist() == [op_time(op) or 0 for op in ops]
    ranges = zip(found.begins.tolist(), found.sizes.tolist(), found.spreads.tolist(), strict=True)
    named = [(content[begin : begin + size], wide) for begin, size, wide in ranges]
    assert sorted([*named, *named_by(found.decoded)]) == named_by(ops)


@given(st.data(), st.sampled_from(LAYOUTS))
@examples(300)
def test_columns_of_random_operations_equal_decoded_values(data: st.DataObject, layout: int) -> None:
    ops = data.draw(st.lists(operations(layout_version=layout), min_size=1, max_size=8))
    numbered(ops, 7)
    content = b"".join(encode_op(op, layout) for op in ops)
    frames = whole_frames(content + bytes([TERMINATOR]) * 9, 7, None)
    assert (frames.end, frames.next_txid) == (len(content), 7 + len(ops))
    assert_same(content, frames, layout, ops)


@pytest.mark.recorded
@pytest.mark.parametrize("path", sample(recorded_segments(), 4, __name__), ids=case_id)
def test_columns_of_recorded_segments_equal_decoded_values(path: Path) -> None:
    content = path.read_bytes()
    layout = decode_header(content)
    ops = list(SegmentCursor(content, in_progress=True))
    frames = whole_frames(content[HEADER_SIZE:], ops[0].txid, None)
    assert frames.next_txid == ops[-1].txid + 1
    assert_same(content[HEADER_SIZE:], frames, layout, ops)


def test_frames_end_before_damage_and_at_the_last_transaction() -> None:
    ops: list[EditOp] = [TimesOp(path=f"/{number}", mtime=1, atime=1) for number in range(4)]
    numbered(ops, 1)
    each = [encode_op(op, NEWEST) for op in ops]
    content = b"".join(each)
    assert whole_frames(content, 1, 2).starts.tolist() == [0, len(each[0])]
    assert whole_frames(content, 2, None)[1:] == (0, 2)
    assert whole_frames(content[:-1], 1, None).next_txid == 4
    for position in range(len(each[0]), len(each[0]) + len(each[1])):
        damaged = bytearray(content)
        damaged[position] ^= 1
        assert whole_frames(bytes(damaged), 1, None).next_txid == 2
        damaged[-1] ^= 1
        assert whole_frames(bytes(damaged), 1, None).next_txid == 2


@given(st.data())
def test_wrong_checksums_are_found_among_many_operations(data: st.DataObject) -> None:
    ops = data.draw(st.lists(operations(layout_version=NEWEST), min_size=1, max_size=8))
    numbered(ops, 7)
    content = bytearray(b"".join(encode_op(op, NEWEST) for op in ops))
    frames = whole_frames(bytes(content), 7, None)
    wrong = sorted(data.draw(st.sets(st.integers(0, len(ops) - 1))))
    for number in wrong:
        content[frames.ends[number] + data.draw(st.integers(0, 3))] ^= data.draw(st.integers(1, 255))
    assert whole_frames(bytes(content), 7, None).next_txid == 7 + (wrong[0] if wrong else len(ops))


def test_path_longer_than_its_operation_is_an_error() -> None:
    content = bytearray(encode_op(DeleteOp(txid=1, path="/a", timestamp=1), NEWEST))
    content[13:15] = b"\x7f\xff"
    content[-4:] = crc32(content[:-4]).to_bytes(4, "big")
    frames = whole_frames(bytes(content), 1, None)
    assert frames.starts == [0]
    with pytest.raises(CorruptOpError):
        op_columns(bytes(content), frames, NEWEST)
