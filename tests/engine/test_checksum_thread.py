"""Verification of checksums ahead of the replay: verified operations are correct, and damage is reported as if there
were no thread.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.loaded_image import load_image
from engine.replay import checksum_thread as module
from engine.replay import replay
from engine.replay.checksum_thread import ChecksumThread, checksum_thread
from engine.replay.kernels.frames import BODY, NO_END, check_frames
from hadoop_common.names import segment_name
from image_format.reader import ImageFile
from journal.binary_codec import encode_op
from journal.errors import CorruptOpError
from journal.ops import StartLogSegmentOp
from journal.segment_file import EditLogSegment, SegmentTransactions, map_file
from journal.segment_format import HEADER_SIZE, SegmentCursor, encode_header
from tests.engine.image_builder import ImageBuilder, numbered
from tests.engine.op_makers import mkdir

LAYOUT = -63
MANY = 3000


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(module, "_WORTH_A_THREAD", 1 << 16)
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def segment(count: int = MANY) -> tuple[bytes, list[int]]:
    """Return a segment, the start of each operation, and the end of the last operation."""
    out, places = bytearray(encode_header(LAYOUT)), []
    for op in numbered([StartLogSegmentOp(), *(mkdir(f"/d{n}", 20_000 + n) for n in range(count))], 1):
        places.append(len(out))
        out += encode_op(op, LAYOUT)
    return bytes(out), [*places, len(out)]


SEGMENT, PLACES = segment()


@given(st.integers(HEADER_SIZE, len(SEGMENT) - 1), st.integers(1, 255))
def test_check_ends_at_a_damaged_operation(place: int, flipped: int) -> None:
    data = bytearray(SEGMENT)
    data[place] ^= flipped
    buffer = np.frombuffer(bytes(data), np.uint8)
    whole, more = check_frames(buffer, HEADER_SIZE, buffer.size, NO_END)
    assert not more
    assert whole == max(start for start in PLACES if start <= place)


@given(st.integers(HEADER_SIZE, len(SEGMENT)), st.integers(0, len(SEGMENT)))
def test_check_ends_at_segment_end_or_at_stop_offset(size: int, stop: int) -> None:
    buffer = np.frombuffer(SEGMENT[:size], np.uint8)
    whole, more = check_frames(buffer, HEADER_SIZE, stop, NO_END)
    assert more == (stop <= whole < size)
    first = min((start for start in PLACES if start >= stop), default=PLACES[-1])
    assert whole == min(first, max(start for start in PLACES if start <= size))


@given(st.integers(1, MANY))
def test_check_ends_after_the_last_transaction(last: int) -> None:
    buffer = np.frombuffer(SEGMENT, np.uint8)
    assert check_frames(buffer, HEADER_SIZE, buffer.size, last + 1) == (PLACES[last], False)


@pytest.mark.parametrize("piece", [1, 100, 1 << 20])
@pytest.mark.parametrize("last", [None, 77])
def test_thread_verifies_the_whole_segment(piece: int, last: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", piece)
    ahead = ChecksumThread(SegmentCursor(SEGMENT, last_txid=last))
    assert ahead.known(HEADER_SIZE) == HEADER_SIZE
    # the segment begins at txid 2
    end = len(SEGMENT) if last is None else PLACES[last - 1]
    with ahead:
        while ahead.known(HEADER_SIZE) < end:
            os.sched_yield()
    assert ahead.known(HEADER_SIZE) == end


def test_thread_lead_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 100)
    monkeypatch.setattr(module, "_LEAD", 1000)
    with ChecksumThread(SegmentCursor(SEGMENT)) as ahead:
        at = HEADER_SIZE
        while at < len(SEGMENT):
            known = ahead.known(at)
            assert known <= at + 1000 + 200
            at = max(at, known)
    with ChecksumThread(SegmentCursor(SEGMENT)) as ahead:
        pass
    assert ahead.known(0) <= HEADER_SIZE + 1200


def test_nothing_is_verified_if_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with ChecksumThread(SegmentCursor(SEGMENT)) as ahead:
        assert ahead.known(HEADER_SIZE) == HEADER_SIZE


def test_mapped_file_can_be_closed_after_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(SEGMENT)
    with map_file(path) as content, checksum_thread(SegmentCursor(content)) as ahead:
        assert isinstance(ahead, ChecksumThread)


def test_no_thread_for_few_operations_or_on_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    short, _ = segment(3)
    with checksum_thread(SegmentCursor(short)) as ahead:
        assert ahead is None
    monkeypatch.setattr(module, "available_cores", lambda: 1)
    with checksum_thread(SegmentCursor(SEGMENT)) as ahead:
        assert ahead is None


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("number", [1, 1023, 1024, 2900])
def test_damage_is_reported_with_txid_and_offset(
    cores: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available_cores", lambda: cores)
    data = bytearray(SEGMENT)
    # a byte of the inode id: apart from the checksum, the operation looks valid
    data[PLACES[number] + BODY + 7] ^= 1
    path = tmp_path / segment_name(2, MANY + 2)
    path.write_bytes(data)
    builder = ImageBuilder()
    builder.info.transactionId = 1
    with ImageFile.open(builder.save(tmp_path)) as opened:
        namespace = load_image(opened).namespace
        wanted = SegmentTransactions([EditLogSegment(2, MANY + 2, path)], 2)
        with pytest.raises(CorruptOpError) as caught:
            replay(namespace, wanted)
        assert namespace.last_txid == number + 1
    assert (caught.value.txid, caught.value.offset) == (number + 2, PLACES[number])
