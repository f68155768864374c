"""The scan that finds the end of a segment in progress on a JournalNode."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.regular_file import open_regular
from hadoop_rpc.errors import JavaIOError
from journal.segment_file import list_segments
from journal_node.node import _refusals
from journal_node.segment_scan import SegmentEnd, scan_end
from tests.journal.journal_support import recorded_segments
from tests.journal_node.journal_node_support import HEADER, LAYOUT, batch, transaction

# ---- the end of a segment ----


@pytest.mark.parametrize("path", recorded_segments(), ids=lambda path: f"{path.parent.parent.name}-{path.name}")
def test_recorded_segments_end_at_the_txid_of_their_name(path: Path) -> None:
    segment = next(each for each in list_segments(path.parent) if each.path == path)
    if segment.last is not None:
        assert scan_end(path.read_bytes(), segment.first) == SegmentEnd(segment.last)


@given(st.integers(0, 12), st.integers(0, 40), st.sampled_from([b"", b"\xff" * 50, b"\xff" * 9 + b"\x00" * 20]))
def test_segment_ends_before_a_torn_transaction(whole: int, torn: int, padding: bytes) -> None:
    following = transaction(6 + whole)
    data = HEADER + batch(6, 5 + whole) + following[: min(torn, len(following) - 1)] + padding
    assert scan_end(data, 6) == SegmentEnd(5 + whole if whole else None)


@pytest.mark.parametrize(
    "data", [b"", HEADER[:7], b"\xff" * 100, HEADER, HEADER + b"\xff" * 100, HEADER + b"\x00" * 100]
)
def test_file_without_transactions_has_no_last_txid(data: bytes) -> None:
    assert scan_end(data, 1) == SegmentEnd(None)


@given(st.integers(0, 3), st.data())
def test_damage_before_intact_transactions_is_detected(before: int, data: st.DataObject) -> None:
    count = 8
    damaged = bytearray(HEADER + batch(1, count))
    length = len(transaction(1))
    at = len(HEADER) + before * length + data.draw(st.integers(0, length - 1))
    damaged[at] ^= data.draw(st.integers(1, 255).filter(lambda mask: damaged[at] ^ mask != 0xFF))
    end = scan_end(bytes(damaged), 1)
    assert end.last == (before or None)
    assert end.damage


def test_error_for_a_directory_instead_of_a_segment_has_a_hint(tmp_path: Path) -> None:
    with pytest.raises(JavaIOError, match=r"it is a directory.*; next: .*move it away"), _refusals("j1"):
        open_regular(tmp_path)


def test_zeros_instead_of_a_header_are_reported() -> None:
    assert "all zeros" in scan_end(bytes(100), 1).damage


def test_a_gap_is_damage() -> None:
    assert scan_end(HEADER + batch(1, 3) + batch(5, 6), 1).last == 3
    assert scan_end(HEADER + batch(1, 3) + batch(5, 6), 1).damage == "offset 59: txid 5 instead of 4"
    assert scan_end(HEADER + batch(2, 3), 1).damage


@pytest.mark.parametrize("txid", [1, 3, 5, 5000, 1 << 62])
def test_last_intact_transaction_with_another_txid_is_damage(txid: int) -> None:
    assert scan_end(HEADER + batch(1, 3) + transaction(txid), 1).damage


def test_layouts_newer_than_ours_are_read_by_their_frames() -> None:
    assert scan_end(pack(">ii", -99, 0) + batch(1, 3), 1) == SegmentEnd(3)


@pytest.mark.parametrize("header", [pack(">ii", LAYOUT, 1), pack(">ii", 7, 0), pack(">ii", -55, 0)])
def test_unknown_headers_are_damage(header: bytes) -> None:
    end = scan_end(header + batch(1, 3), 1)
    assert end.last is None
    assert end.damage
