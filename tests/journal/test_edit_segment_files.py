from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.names import inprogress_name, segment_name
from journal.errors import (
    CorruptHeaderError,
    CorruptOpError,
    SegmentError,
    TransactionGapError,
    UnsupportedEditsLayoutError,
)
from journal.ops import DeleteOp, EndLogSegmentOp, StartLogSegmentOp
from journal.recovery import recover_in_progress
from journal.segment_file import EditLogSegment, Places, SegmentTransactions, list_segments, read_ops, select_segments
from journal.segment_format import HEADER_SIZE
from tests.journal.journal_support import CORRUPT, RECORDED, numbered, segment_bytes, verdict


def some_ops(first: int, last: int) -> list:
    middle = [DeleteOp(path=f"/{number}", timestamp=number) for number in range(last - first - 1)]
    return numbered([StartLogSegmentOp(), *middle, EndLogSegmentOp()], first)


def put(directory: Path, first: int, last: int, *, in_progress: bool = False, tail: bytes = b"") -> Path:
    name = inprogress_name(first) if in_progress else segment_name(first, last)
    path = directory / name
    path.write_bytes(segment_bytes(some_ops(first, last)) + tail)
    return path


def txids(directory: Path, from_txid: int, to_txid: int | None = None) -> list[int]:
    chosen = select_segments(list_segments(directory), from_txid, to_txid)
    return [op.txid for op in SegmentTransactions(chosen, from_txid)]


def test_operations_before_a_known_place_are_not_read_again(tmp_path):
    path = put(tmp_path, 1, 10)
    places = Places()
    begin = SegmentTransactions([EditLogSegment(1, 4, path)], 1, places=places)
    assert [op.txid for op in begin] == [1, 2, 3, 4]
    assert places == {path: (places[path][0], 5)}
    content = path.read_bytes()
    path.write_bytes(content[:HEADER_SIZE] + bytes(places[path][0] - HEADER_SIZE) + content[places[path][0] :])
    following = SegmentTransactions([EditLogSegment(1, 10, path)], 7, places=places)
    assert [op.txid for op in following.limited(1000)] == [7, 8, 9, 10]
    assert places[path] == (len(content), 11)
    path.write_bytes(content)
    earlier = SegmentTransactions([EditLogSegment(1, 10, path)], 3, places=places)
    assert [op.txid for op in earlier] == list(range(3, 11))


def test_segments_are_listed_in_order_without_other_files(tmp_path):
    put(tmp_path, 11, 20)
    put(tmp_path, 1, 10)
    put(tmp_path, 11, 15)
    put(tmp_path, 21, 25, in_progress=True)
    for name in ("VERSION", "fsimage_0000000000000000000", "edits_1-2.trash", "edits_tmp_1-2_3", "edits_x"):
        (tmp_path / name).write_bytes(b"")
    assert [(segment.first, segment.last, segment.in_progress) for segment in list_segments(tmp_path)] == [
        (1, 10, False),
        (11, 15, False),
        (11, 20, False),
        (21, None, True),
    ]


def test_name_with_a_last_txid_before_the_first_is_refused(tmp_path):
    (tmp_path / "edits_0000000000000000009-0000000000000000003").write_bytes(b"")
    with pytest.raises(SegmentError):
        list_segments(tmp_path)


def test_longest_contiguous_segments_are_selected(tmp_path):
    for first, last in ((1, 10), (11, 15), (11, 20), (21, 30)):
        put(tmp_path, first, last)
    put(tmp_path, 31, 33, in_progress=True)
    segments = list_segments(tmp_path)
    assert [(item.first, item.last) for item in select_segments(segments, 1)] == [(1, 10), (11, 20), (21, 30)]
    assert [(item.first, item.last) for item in select_segments(segments, 15, 20)] == [(11, 20)]
    assert select_segments(segments, 31) == []
    assert txids(tmp_path, 14) == list(range(14, 31))


def test_gap_error_names_the_missing_and_the_next_txid(tmp_path):
    put(tmp_path, 1, 10)
    put(tmp_path, 21, 30)
    segments = list_segments(tmp_path)
    with pytest.raises(TransactionGapError, match=r"11 \.\. 20; the next available txid is 21") as caught:
        select_segments(segments, 5)
    assert (caught.value.expected, caught.value.found) == (11, 21)
    with pytest.raises(TransactionGapError, match=r"31 \.\. 40; no later transaction is available") as caught:
        select_segments(segments, 21, 40)
    assert (caught.value.expected, caught.value.found) == (31, None)


def overlapping(first: int, last: int) -> EditLogSegment:
    return EditLogSegment(first, last, Path(f"{first}-{last}"))


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10)), max_size=12), st.integers(1, 30))
def test_any_selection_covers_all_txids_or_reports_a_real_gap(spans, from_txid):
    segments = [overlapping(first, first + size) for first, size in spans]
    held = {txid for item in segments for txid in range(item.first, item.last + 1)}
    wanted = range(from_txid, max(held, default=0) + 1)
    if set(wanted) <= held:
        chosen = select_segments(segments, from_txid)
        covered = {txid for item in chosen for txid in range(item.first, item.last + 1)}
        assert set(wanted) <= covered
    else:
        with pytest.raises(TransactionGapError) as caught:
            select_segments(segments, from_txid)
        assert caught.value.expected not in held


def test_empty_file_is_a_corrupt_header(tmp_path):
    path = tmp_path / segment_name(1, 2)
    path.write_bytes(b"")
    with pytest.raises(CorruptHeaderError):
        list(read_ops(EditLogSegment(1, 2, path)))


@pytest.mark.recorded
@pytest.mark.parametrize("name", ["gap-first-segment", "gap-last-segment", "gap-middle-segment"])
def test_missing_segments_are_detected_as_by_the_namenode(name):
    before = CORRUPT / name / "before"
    missing = int(verdict(CORRUPT / name)["error"].rsplit(" ", 1)[1])
    with pytest.raises(TransactionGapError) as caught:
        select_segments(list_segments(before), 33, int((before / "seen_txid").read_text()))
    assert caught.value.expected == missing


@pytest.mark.recorded
def test_recorded_segments_form_one_sequence():
    before = RECORDED / "hadoop-2.7.3" / "segments" / "before"
    assert txids(before, 100) == list(range(100, 173))


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("inprogress-ff-padding", 182),
        ("inprogress-half-op", 181),
        ("inprogress-half-op-ff", 181),
        ("inprogress-half-op-zero", 181),
        ("inprogress-junk-in-padding", 182),
        ("inprogress-no-padding", 182),
    ],
)
def test_recovery_ends_at_the_same_txid_as_the_namenode(tmp_path, name, last):
    (source,) = (CORRUPT / name / "before").glob("edits_*")
    (tmp_path / source.name).write_bytes(source.read_bytes())
    assert verdict(CORRUPT / name)["txid"] == last
    recovered = recover_in_progress(tmp_path)
    assert recovered == list_segments(tmp_path) == [EditLogSegment(31, last, recovered[0].path)]
    assert recovered[0].path.read_bytes() == source.read_bytes()
    assert txids(tmp_path, 31) == list(range(31, last + 1))
    assert recover_in_progress(tmp_path) == []


def test_recovery_deletes_empty_files_and_moves_aside_those_without_operations(tmp_path):
    (tmp_path / inprogress_name(1)).write_bytes(b"")
    (tmp_path / inprogress_name(5)).write_bytes(segment_bytes([]) + b"\xff" * 100)
    (tmp_path / inprogress_name(6)).write_bytes(segment_bytes([])[:5])
    assert recover_in_progress(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        inprogress_name(5) + ".empty",
        inprogress_name(6) + ".empty",
    ]


def test_recovery_moves_aside_and_reports_a_corrupt_header(tmp_path):
    path = tmp_path / inprogress_name(1)
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(CorruptHeaderError):
        recover_in_progress(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [inprogress_name(1) + ".corrupt"]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (segment_bytes(some_ops(1, 5))[:3] + b"\x90" + segment_bytes(some_ops(1, 5))[4:], UnsupportedEditsLayoutError),
        (segment_bytes(some_ops(2, 5)), CorruptOpError),
        (segment_bytes(some_ops(1, 5)[:2] + some_ops(1, 5)[3:]), CorruptOpError),
    ],
    ids=["future layout", "other first txid", "gap"],
)
def test_recovery_does_not_touch_segments_it_cannot_read(tmp_path, content, error):
    path = tmp_path / inprogress_name(1)
    path.write_bytes(content)
    with pytest.raises(error):
        recover_in_progress(tmp_path)
    assert path.read_bytes() == content


def test_recovery_never_overwrites_a_finalized_segment(tmp_path):
    path = put(tmp_path, 1, 5, in_progress=True)
    finalized = put(tmp_path, 1, 5)
    with pytest.raises(SegmentError, match=finalized.name):
        recover_in_progress(tmp_path)
    assert path.exists()


@pytest.mark.recorded
def test_recovery_refuses_damage_in_the_middle(tmp_path):
    (source,) = (CORRUPT / "inprogress-flip-middle" / "before").glob("edits_*")
    shutil.copy(source, tmp_path)
    with pytest.raises(CorruptOpError) as caught:
        recover_in_progress(tmp_path)
    assert (caught.value.offset, caught.value.txid) == (5485, 107)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]
