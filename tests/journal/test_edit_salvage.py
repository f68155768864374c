"""Recovery of a damaged segment: operations before the damage, and readable operations after the damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.names import parse_segment
from journal.errors import (
    CorruptHeaderError,
    CorruptOpError,
    JournalStorageError,
    OpEncodingError,
    SegmentError,
    TransactionGapError,
)
from journal.ops import DeleteOp, EditOp
from journal.resync import op_follows, readable_runs
from journal.salvage import examine_segment
from journal.segment_format import HEADER_SIZE, SegmentCursor
from journal.segment_output import write_new_file, write_ops, write_range
from tests.depth import examples
from tests.journal.journal_support import CORRUPT, numbered, operations, segment_bytes, some_ops


def damaged(places: list[int], layout_version: int = -63, first: int = 1) -> tuple[bytes, list[int]]:
    """Return a segment with a flipped byte in the operations with these numbers, and the positions of its
    operations.
    """
    content = bytearray(segment_bytes(some_ops(first), layout_version))
    offsets = [op.offset for op in SegmentCursor(bytes(content))]
    for place in places:
        content[offsets[place] + 9] ^= 0x40
    return bytes(content), [*offsets, len(content)]


@pytest.mark.parametrize("layout_version", [-56, -63, -67])
def test_intact_segment_has_no_fault(layout_version: int) -> None:
    content = segment_bytes(some_ops(), layout_version)
    found = examine_segment(content + b"\xff" * 100, first_txid=1)
    assert (found.first_txid, found.last_txid, found.transactions, found.end) == (1, 8, 8, len(content))
    assert (found.fault, found.cut_bytes, found.padding_bytes, found.lost) == (None, 0, 100, ())


@pytest.mark.parametrize("layout_version", [-56, -63, -67])
def test_operations_after_each_damage_are_found(layout_version: int) -> None:
    content, offsets = damaged([2, 5], layout_version)
    found = examine_segment(content, file="edits", first_txid=1)
    assert (found.last_txid, found.end, found.cut_bytes) == (2, offsets[2], len(content) - offsets[2])
    assert isinstance(found.fault, CorruptOpError)
    assert (found.fault.offset, found.fault.txid) == (offsets[2], 3)
    assert [(run.first, run.last, run.start, run.end) for run in found.lost] == [
        (4, 5, offsets[3], offsets[5]),
        (7, 8, offsets[6], offsets[8]),
    ]


def test_operations_after_damage_are_found_if_high_txid_bytes_change() -> None:
    first = (1 << 40) - 3  # the damage is where all low bytes of the txid roll over
    content, offsets = damaged([2], first=first)
    found = examine_segment(content, first_txid=first)
    assert [(run.first, run.last) for run in found.lost] == [(first + 3, first + 7)]
    assert op_follows(content, offsets[2], first + 2)


@pytest.mark.parametrize(("following", "lost"), [(5, (6, 8)), (2, (4, 8))])
def test_gap_or_duplicate_ends_the_intact_part(following: int, lost: tuple[int, int]) -> None:
    ops = some_ops()
    found = examine_segment(segment_bytes(ops[:3] + ops[following:]), first_txid=1)
    assert isinstance(found.fault, TransactionGapError)
    assert found.last_txid == 3
    assert [(run.first, run.last) for run in found.lost] == [lost]


def test_finalized_segment_that_ends_early_has_a_fault() -> None:
    content = segment_bytes(some_ops())
    found = examine_segment(content, first_txid=1, last_txid=9)
    assert isinstance(found.fault, SegmentError)
    assert (found.last_txid, found.cut_bytes, found.lost) == (8, 0, ())


def test_bytes_after_the_last_txid_of_the_name_are_not_a_fault() -> None:
    content = segment_bytes(some_ops())
    found = examine_segment(content + b"garbage", first_txid=1, last_txid=8)
    assert (found.fault, found.cut_bytes) == (None, 7)


@pytest.mark.parametrize("tail", [bytes(3 << 20), b"\xff" * (3 << 20), b"\x00\x0c\x00\x00" * 1000])
def test_long_tail_without_operations_is_not_a_loss(tail: bytes) -> None:
    content = segment_bytes(some_ops())[:-3] + b"\x07"
    found = examine_segment(content + tail, first_txid=1)
    assert (found.last_txid, found.lost) == (7, ())
    assert not op_follows(content + tail, found.end, 8)


def test_segment_without_operations() -> None:
    found = examine_segment(segment_bytes([]), first_txid=1)
    assert (found.first_txid, found.transactions, found.end, found.fault) == (None, 0, HEADER_SIZE, None)
    with pytest.raises(CorruptHeaderError):
        examine_segment(b"\xff" * 100)


@examples(60)
@given(st.lists(operations(layout_version=-63), min_size=3, max_size=6), st.data())
def test_every_operation_is_intact_damaged_or_found_after_the_damage(ops: list[EditOp], data: st.DataObject) -> None:
    numbered(ops, 7)
    content = bytearray(segment_bytes(ops, -63))
    offsets = [op.offset for op in SegmentCursor(bytes(content))]
    place = data.draw(st.integers(0, len(ops) - 1))
    end = [*offsets, len(content)][place + 1]
    content[data.draw(st.integers(offsets[place], end - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found = examine_segment(bytes(content), first_txid=7)
    behind = {txid for run in found.lost for txid in range(run.first, run.last + 1)}
    assert found.transactions == place
    assert behind == set(range(8 + place, 7 + len(ops)))


@examples(100)
@given(st.binary(max_size=300), st.integers(0, 1 << 40))
def test_random_bytes_contain_no_operation(data: bytes, least: int) -> None:
    assert list(readable_runs(data, 0, least)) == []
    assert list(readable_runs(data, 0, None)) == []


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "last", "end", "lost"),
    [
        ("edits-cut-mid-op", 106, 5485, []),
        ("edits-cut-last-byte", 182, 11687, []),
        ("edits-cut-last-op", 182, 11687, []),
        ("edits-flip-body", 106, 5485, [(108, 183)]),
        ("edits-flip-length-high", 106, 5485, [(108, 183)]),
        ("edits-flip-txid", 106, 5485, [(108, 183)]),
        ("edits-unknown-opcode", 106, 5485, [(108, 183)]),
        ("edits-op-missing", 106, 5485, [(108, 183)]),
        ("edits-op-twice", 107, 5553, [(108, 183)]),
        ("inprogress-flip-middle", 106, 5485, [(108, 182)]),
        ("inprogress-half-op-zero", 181, 11611, []),
    ],
)
def test_recorded_damage_is_located(name: str, last: int, end: int, lost: list[tuple[int, int]]) -> None:
    (path,) = (CORRUPT / name / "before").glob("edits_*")
    segment = parse_segment(path.name)
    assert segment is not None
    found = examine_segment(path.read_bytes(), file=path.name, first_txid=31, last_txid=segment.last)
    assert (found.first_txid, found.last_txid, found.end) == (31, last, end)
    assert [(run.first, run.last) for run in found.lost] == lost
    assert found.fault is not None


# ---- writing ----


def test_written_segment_is_named_by_its_txids(tmp_path: Path) -> None:
    ops = some_ops(11)
    written = write_ops(tmp_path, ops, -63)
    assert written.path.name == "edits_0000000000000000011-0000000000000000018"
    assert (written.first_txid, written.last_txid, written.transactions) == (11, 18, 8)
    assert written.path.read_bytes() == segment_bytes(ops, -63)
    assert written.size == written.path.stat().st_size
    assert write_ops(tmp_path / "other", ops, -63).path.read_bytes() == written.path.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_byte_range_is_written_as_a_segment(tmp_path: Path) -> None:
    content = segment_bytes(some_ops()) + bytes(5_000_000)
    path = write_range(tmp_path / "edits", content, len(content) - 5)
    assert path.read_bytes() == content[:-5]


def broken_ops() -> list[EditOp]:
    return [*some_ops(1, 3), DeleteOp(txid=4, path="x" * 70000, timestamp=1)]


@pytest.mark.parametrize(
    ("ops", "error"),
    [
        ([], SegmentError),
        ([*some_ops(1, 4), *some_ops(6, 2)], TransactionGapError),
        ([*some_ops(1, 4), *some_ops(4, 2)], TransactionGapError),
        (broken_ops(), OpEncodingError),
    ],
)
def test_failed_segment_leaves_no_file(tmp_path: Path, ops: list[EditOp], error: type[Exception]) -> None:
    for output in (tmp_path, tmp_path / "edits"):
        with pytest.raises(error):
            write_ops(output, ops, -63)
        assert list(tmp_path.iterdir()) == []


def test_existing_file_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    target = write_ops(tmp_path, some_ops(), -63).path
    target.write_bytes(b"precious")
    for output in (tmp_path, target):
        with pytest.raises(JournalStorageError, match="already exists") as caught:
            write_ops(output, some_ops(), -63)
        assert "--force" in caught.value.hint
    assert target.read_bytes() == b"precious"
    assert write_ops(tmp_path, some_ops(), -63, overwrite=True).path == target
    assert target.read_bytes() == segment_bytes(some_ops(), -63)
    assert list(tmp_path.iterdir()) == [target]


def test_file_created_during_the_write_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "edits"

    def fill(out: object) -> Path:
        target.write_bytes(b"precious")
        return target

    with pytest.raises(JournalStorageError, match="already exists"):
        write_new_file(target, fill)
    assert target.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [target]


def test_file_is_renamed_on_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr("journal.segment_output.os.link", no_links)
    assert write_ops(tmp_path, some_ops(), -63).path.read_bytes() == segment_bytes(some_ops(), -63)
    assert len(list(tmp_path.iterdir())) == 1


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(JournalStorageError, match="nowhere") as caught:
        write_ops(tmp_path / "nowhere" / "edits", some_ops(), -63)
    assert caught.value.exit_code == 6
