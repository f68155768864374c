"""Frames by lengths agree with decoded operations."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import CorruptOpError
from journal.operation import EditOp
from journal.segment_format import HEADER_SIZE, SegmentCursor, decode_header
from journal.segment_frames import OpFrame, check_frame, iter_frames
from tests.journal.journal_support import case_id, numbered, operations, recorded_segments, segment_bytes


def twin(buffer: bytes) -> list[OpFrame]:
    """Return the result of `iter_frames`, computed by decoding everything."""
    ops = list(SegmentCursor(buffer))
    if not ops:
        return []
    whole = segment_bytes(ops, decode_header(buffer))
    starts = [op.offset for op in ops] + [len(whole)]
    return [OpFrame(start, end, op.opcode, op.txid) for op, (start, end) in zip(ops, pairwise(starts), strict=True)]


@pytest.mark.recorded
@pytest.mark.parametrize("path", recorded_segments(), ids=case_id)
def test_frames_of_recorded_segments_equal_decoded_operations(path: Path) -> None:
    buffer = path.read_bytes()
    frames = list(iter_frames(buffer, HEADER_SIZE, len(buffer)))
    assert frames == twin(buffer)
    for frame in frames:
        check_frame(buffer, frame)


@given(st.lists(operations(), max_size=8), st.binary(max_size=3).map(lambda junk: b"\xff" * bool(junk)), st.data())
def test_frames_of_any_operations_from_any_start(made: list[EditOp], tail: bytes, data: st.DataObject) -> None:
    buffer = segment_bytes(numbered(made, 1)) + tail
    frames = list(iter_frames(buffer, HEADER_SIZE, len(buffer)))
    assert frames == twin(buffer)
    if frames:
        first = data.draw(st.integers(0, len(frames) - 1))
        stop = data.draw(st.integers(frames[first].start, len(buffer)))
        expected = [frame for frame in frames[first:] if frame.start < stop]
        assert list(iter_frames(buffer, frames[first].start, stop)) == expected


@given(st.lists(operations(), min_size=1, max_size=4), st.data())
def test_frames_before_a_cut_or_damage_are_found(made: list[EditOp], data: st.DataObject) -> None:
    whole = bytearray(segment_bytes(numbered(made, 1)))
    place = data.draw(st.integers(HEADER_SIZE, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    buffer = bytes(whole[: data.draw(st.integers(HEADER_SIZE, len(whole)))])
    found = []
    with suppress(CorruptOpError):
        for frame in iter_frames(buffer, HEADER_SIZE, len(buffer)):
            check_frame(buffer, frame)
            found.append(frame)
    sound = [frame for frame in twin(segment_bytes(made)) if frame.end <= min(place, len(buffer))]
    assert found[: len(sound)] == sound
    assert all(frame.end <= len(buffer) for frame in found)
