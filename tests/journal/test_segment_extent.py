"""The check of frames accepts exactly the segments whose operations can all be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import CorruptOpError, JournalError, SegmentError, TransactionGapError
from journal.segment_file import list_segments
from journal.segment_format import HEADER_SIZE, SegmentCursor
from journal.segment_frames import check_extent

RECORDED = Path(__file__).parents[1] / "recorded"
SEGMENT = next((RECORDED / "hadoop-2.7.3" / "segments" / "before").glob("edits_*048-*"))
CONTENT, FIRST, LAST = SEGMENT.read_bytes(), 48, 58


@pytest.mark.recorded
@pytest.mark.parametrize("case", ["hadoop-2.7.3/segments", "hadoop-3.4.1/segments", "hadoop-2.7.3/renames"])
def test_recorded_segments_are_intact(case: str) -> None:
    for segment in list_segments(RECORDED / case / "before"):
        assert segment.last is not None
        check_extent(segment.path.read_bytes(), segment.first, segment.last)


@pytest.mark.parametrize(("first", "last", "error"), [(47, 58, TransactionGapError), (48, 59, SegmentError)])
def test_segment_of_other_transactions_is_refused(first: int, last: int, error: type[JournalError]) -> None:
    with pytest.raises(error):
        check_extent(CONTENT, first, last)


@given(st.integers(0, len(CONTENT) - 1))
def test_truncated_segment_is_refused(length: int) -> None:
    ends = {op.offset for op in SegmentCursor(CONTENT, first_txid=FIRST)}
    with pytest.raises(JournalError) as caught:
        check_extent(CONTENT[:length], FIRST, LAST)
    if length in ends:
        assert isinstance(caught.value, SegmentError)


@given(st.integers(HEADER_SIZE, len(CONTENT) - 1), st.integers(1, 255))
def test_changed_byte_is_detected_as_by_decoding(offset: int, flip: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[offset] ^= flip
    try:
        for _ in SegmentCursor(bytes(damaged), first_txid=FIRST, last_txid=LAST):
            pass
    except JournalError:
        with pytest.raises(JournalError):
            check_extent(bytes(damaged), FIRST, LAST)
    else:
        check_extent(bytes(damaged), FIRST, LAST)


def test_operation_length_beyond_the_end_is_refused() -> None:
    damaged = bytearray(CONTENT)
    damaged[HEADER_SIZE + 1] = 0x7F
    with pytest.raises(CorruptOpError, match=r"but only .* are left"):
        check_extent(bytes(damaged), FIRST, LAST)
