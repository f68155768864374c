from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.in_progress_segments import examine_in_progress_segment
from hadoop_common.names import parse_segment
from image_format.layout import NEWEST_LAYOUT, OLDEST_LAYOUT
from journal.binary_codec import encode_op
from journal.errors import (
    CorruptHeaderError,
    CorruptOpError,
    JournalError,
    OpTooLargeError,
    OtherLayoutOpError,
    SegmentError,
    TransactionGapError,
    UnreadableOpError,
    UnsupportedEditsLayoutError,
    is_damage,
)
from journal.ops import AddOp, DeleteOp, PermissionStatus, StartLogSegmentOp
from journal.segment_file import EditLogSegment
from journal.segment_format import HEADER_SIZE, SegmentCursor, decode_header, encode_header, scan_segment
from tests.depth import examples
from tests.journal.journal_support import CORRUPT, numbered, operations, segment_bytes, some_ops, unreadable_op, verdict

EXPECTED = {
    "edits-cut-after-opcode": (CorruptOpError, 3585, 82),
    "edits-cut-after-version": (CorruptHeaderError, 0, None),
    "edits-cut-at-op-boundary": (SegmentError, 5485, None),
    "edits-cut-in-version": (CorruptHeaderError, 0, None),
    "edits-cut-last-byte": (CorruptOpError, 11687, 183),
    "edits-cut-last-op": (SegmentError, 11687, None),
    "edits-cut-mid-op": (CorruptOpError, 5485, 107),
    "edits-empty-file": (CorruptHeaderError, 0, None),
    "edits-ff-padded": 183,
    "edits-flip-body": (CorruptOpError, 5485, 107),
    "edits-flip-checksum": (CorruptOpError, 5485, 107),
    "edits-flip-last-op": (CorruptOpError, 11687, 183),
    "edits-flip-length-high": (CorruptOpError, 5485, 107),
    "edits-flip-length-low": (CorruptOpError, 5485, 107),
    "edits-flip-txid": (CorruptOpError, 5485, 107),
    "edits-header-only": (SegmentError, 8, None),
    "edits-layout-flags": (UnsupportedEditsLayoutError, 4, None),
    "edits-layout-future": (UnsupportedEditsLayoutError, 0, None),
    "edits-layout-old": 183,
    "edits-layout-positive": (CorruptHeaderError, 0, None),
    "edits-name-beyond": (SegmentError, 11704, None),
    "edits-op-missing": (TransactionGapError, 5485, 108),
    "edits-op-twice": (TransactionGapError, 5553, 107),
    "edits-opcode-ff": (CorruptOpError, 5489, 107),
    "edits-unknown-opcode": (CorruptOpError, 5485, 107),
    "edits-zero-padded": 183,
    "inprogress-empty": (CorruptHeaderError, 0, None),
    "inprogress-ff-padding": 182,
    "inprogress-flip-middle": (CorruptOpError, 5485, 107),
    "inprogress-half-op": 181,
    "inprogress-half-op-ff": 181,
    "inprogress-half-op-zero": 181,
    "inprogress-header-only": None,  # no transactions, so a reader of txid 31 finds the gap
    "inprogress-junk-in-padding": 182,
    "inprogress-no-padding": 182,
}


def test_every_damaged_log_has_an_expected_result():
    assert set(EXPECTED) == {path.name for path in CORRUPT.iterdir() if path.name.startswith(("edits-", "inprogress-"))}


@pytest.mark.recorded
@pytest.mark.parametrize("name", EXPECTED)
def test_verdict_matches_the_namenode(name):
    (path,) = (CORRUPT / name / "before").glob("edits_*")
    segment = parse_segment(path.name)
    hadoop = verdict(CORRUPT / name)
    expected = EXPECTED[name]

    def last_txid() -> int | None:
        ops = SegmentCursor(
            path.read_bytes(),
            file=path.name,
            first_txid=segment.first,
            last_txid=segment.last,
            in_progress=segment.in_progress,
        )
        return max((op.txid for op in ops), default=None)

    if not isinstance(expected, tuple):
        assert last_txid() == expected
        assert expected == hadoop["txid"]
        return
    assert not hadoop["loaded"]
    with pytest.raises(expected[0]) as caught:
        last_txid()
    assert (type(caught.value), caught.value.offset, caught.value.txid) == expected
    assert path.name in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("layout_version", range(OLDEST_LAYOUT, NEWEST_LAYOUT - 1, -1))
def test_headers_round_trip(layout_version):
    assert decode_header(encode_header(layout_version)) == layout_version


@pytest.mark.parametrize("layout_version", [OLDEST_LAYOUT + 1, NEWEST_LAYOUT - 1, 0, 63, -(1 << 31)])
def test_headers_of_unsupported_layouts_are_refused(layout_version):
    with pytest.raises(UnsupportedEditsLayoutError):
        encode_header(layout_version)
    # a file that does not begin with a layout is not a segment
    error = UnsupportedEditsLayoutError if -1000 < layout_version < 0 else CorruptHeaderError
    with pytest.raises(error):
        decode_header(layout_version.to_bytes(4, "big", signed=True) + bytes(4))


@pytest.mark.parametrize(
    ("content", "expected_message"),
    [
        (b"HDFSIMG1" + bytes(99), "the file is an fsimage, not an edit log segment"),
        (b"<?xml version='1.0'?><EDITS>", "the file is the XML of an edit log"),
        (bytes(1 << 20), "the segment is all zeros"),
        (b"\x1f\x8b\x08" + bytes(9), "the file is a gzip file"),
        (b"root:x:0:0:root", "the file is a text file"),
        (b"\xff", "the header is truncated after 1 byte"),
        (b"\xff\xff\xff", "the header is truncated after 3 bytes"),
        (b"\xff\xff\x12", "begins with ff ff 12"),
        (b"\xff\xff\xff\xff", "allocated, but no header was written"),
        (b"", "the segment is empty"),
        (b"\x12\x34\x56\x78\x9a\xbc\xde\xf0", "begins with 12 34 56 78 9a bc de f0"),
    ],
)
def test_kind_of_a_file_that_is_not_a_segment_is_reported(content, expected_message):
    with pytest.raises(CorruptHeaderError) as caught:
        decode_header(content, file="edits")
    assert expected_message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "name", ["edits_0000000000000000001-0000000000000000009", "edits_inprogress_0000000000000000001"]
)
def test_image_under_a_segment_name_gets_the_default_hint(name):
    """The operator of a merge did not choose this file, so the default hint applies."""
    with pytest.raises(CorruptHeaderError, match="is an fsimage") as caught:
        decode_header(b"HDFSIMG1" + bytes(99), file=f"/data/nn/current/{name}")
    assert caught.value.hint == CorruptHeaderError.default_hint


@pytest.mark.parametrize("in_progress", [False, True])
def test_operation_of_another_layout_is_reported_and_never_truncated(in_progress):
    """The checksum is correct, so the operation is not a torn tail of an open segment."""
    permissions = PermissionStatus("hdfs", "supergroup", 0o644)
    add = AddOp(
        inode_id=16390,
        path="/f",
        replication=3,
        mtime=1,
        atime=1,
        block_size=1 << 27,
        permissions=permissions,
        client_name="c",
        client_machine="m",
        erasure_coding_policy_id=0,
    )
    ops = numbered([StartLogSegmentOp(), add], 5)
    content = encode_header(-63) + encode_op(ops[0], -63) + encode_op(ops[1], -64)
    with pytest.raises(OtherLayoutOpError) as caught:
        list(SegmentCursor(content, first_txid=5, in_progress=in_progress))
    assert "of layout -64 or newer, as Hadoop 3 writes it" in caught.value.message
    assert "names layout -63" in caught.value.message
    assert "fetch" not in caught.value.hint.lower() or "does not help" in caught.value.hint
    assert caught.value.txid == 6
    content = encode_header(-67) + encode_op(ops[0], -67) + encode_op(ops[1], -63)
    with pytest.raises(OtherLayoutOpError, match="of layout -63 or older; the header of the segment names") as caught:
        list(SegmentCursor(content, first_txid=5, in_progress=in_progress))
    assert "header was changed" in caught.value.hint
    assert "Keep that NameNode running" not in caught.value.hint


@pytest.mark.parametrize("raw", [b"", b"\xff\xff\xff", b"\xff" * 64, encode_header(-63)[:7]])
def test_truncated_and_unwritten_headers_are_corrupt(raw):
    with pytest.raises(CorruptHeaderError) as caught:
        decode_header(raw)
    assert "edits recover" not in caught.value.hint


def test_unknown_layout_hint_names_the_release_that_can_read_it():
    with pytest.raises(UnsupportedEditsLayoutError) as caught:
        decode_header((-18).to_bytes(4, "big", signed=True) + bytes(4))
    assert "NameNode of the release that wrote the edits" in caught.value.hint


@pytest.mark.parametrize(("raw", "kind"), [(b"", "empty"), (b"85\n", "one number"), (b"1234567890\n", "one number")])
def test_kind_of_a_small_file_that_is_not_a_segment_is_reported(raw, kind):
    with pytest.raises(CorruptHeaderError, match=kind):
        decode_header(raw)


def test_negative_number_of_layout_flags_is_corrupt():
    with pytest.raises(CorruptHeaderError):
        decode_header(encode_header(-63)[:4] + b"\xff" * 4)


def test_reading_starts_at_a_txid_in_the_middle():
    content = segment_bytes(some_ops(10, 5))
    assert [op.txid for op in SegmentCursor(content, first_txid=10, last_txid=14, from_txid=12)] == [12, 13, 14]
    assert list(SegmentCursor(content, first_txid=10, last_txid=14, from_txid=15)) == []


def test_nothing_is_read_after_the_last_txid():
    content = segment_bytes(some_ops(count=5)) + b"garbage"
    assert [op.txid for op in SegmentCursor(content, last_txid=5)] == [1, 2, 3, 4, 5]
    with pytest.raises(CorruptOpError):
        list(SegmentCursor(content))


def test_first_txid_must_match_the_name():
    with pytest.raises(TransactionGapError) as caught:
        list(SegmentCursor(segment_bytes(some_ops(10, 5)), first_txid=9, file="edits_9"))
    assert (caught.value.expected, caught.value.found) == (9, 10)


def test_only_padding_may_follow_the_terminator():
    content = segment_bytes(some_ops(count=5)) + b"\xff" * 10
    assert len(list(SegmentCursor(content + bytes(2_000_000) + b"\xff"))) == 5
    with pytest.raises(CorruptOpError, match="0x07 follows the terminator") as caught:
        list(SegmentCursor(content + bytes(2_000_000) + b"\x07\xff"))
    assert caught.value.offset == len(content) + 2_000_000


def test_operation_above_the_size_limit_is_refused():
    op = DeleteOp(txid=1, path="/" + "x" * 500, timestamp=1)
    for in_progress in (False, True):
        with pytest.raises(OpTooLargeError, match="txid 1"):
            list(SegmentCursor(segment_bytes([op]), max_op_size=500, in_progress=in_progress))


@examples(60)
@given(st.lists(operations(layout_version=-63), min_size=1, max_size=5), st.data())
def test_segment_truncated_anywhere_keeps_its_intact_operations(ops, data):
    ops = numbered(ops, 7)
    content = segment_bytes(ops, -63)
    cut = data.draw(st.integers(HEADER_SIZE, len(content)))
    padding = data.draw(st.sampled_from([b"", bytes(40), b"\xff" * 40]))
    torn = content[:cut] + padding
    read = list(SegmentCursor(torn, first_txid=7, in_progress=True))
    # a truncated operation may also be read if the padding happens to equal the missing bytes
    assert read == ops[: len(read)]
    assert len(read) >= len(list(SegmentCursor(content[:cut], in_progress=True)))
    scan = scan_segment(torn, first_txid=7)
    assert not scan.corrupt
    assert scan.last_txid == (read[-1].txid if read else None)
    assert scan.first_txid == (7 if read else None)


@pytest.mark.parametrize("kind", ["opcode", "further field", "missing field", "rename option"])
def test_complete_operation_of_other_software_is_not_a_torn_tail(kind):
    content = segment_bytes(some_ops(count=3), -63) + unreadable_op(kind, 4)
    for read in (
        lambda: list(SegmentCursor(content, file="edits", first_txid=1, in_progress=True)),
        lambda: scan_segment(content, file="edits", first_txid=1),
        lambda: examine_in_progress_segment(EditLogSegment(1, None, Path("edits")), content),
    ):
        with pytest.raises(UnreadableOpError) as caught:
            read()
        assert (caught.value.file, caught.value.txid) == ("edits", 4)
        assert caught.value.offset == len(segment_bytes(some_ops(count=3), -63))
        assert not is_damage(caught.value)
        assert "another copy of the segment does not help" in caught.value.hint
        assert "recover" not in caught.value.hint


def test_operation_of_other_software_with_a_wrong_txid_is_a_gap():
    whole = segment_bytes(some_ops(count=3), -63)
    content = whole + unreadable_op("opcode", 999)
    for in_progress in (False, True):
        with pytest.raises(TransactionGapError) as caught:
            list(SegmentCursor(content, first_txid=1, in_progress=in_progress))
        assert (caught.value.expected, caught.value.found) == (4, 999)
    assert scan_segment(content, first_txid=1) == (-63, 1, 3, len(whole), True)


@pytest.mark.parametrize("kind", ["opcode", "further field"])
def test_damage_before_an_operation_of_other_software_is_corruption(kind):
    content = bytearray(segment_bytes(some_ops(count=4), -63) + unreadable_op(kind, 5))
    offset = [op.offset for op in SegmentCursor(segment_bytes(some_ops(count=4), -63))][3]
    content[offset + 9] ^= 0x40
    assert scan_segment(bytes(content), first_txid=1) == (-63, 1, 3, offset, True)
    with pytest.raises(CorruptOpError) as caught:
        list(SegmentCursor(bytes(content), first_txid=1, in_progress=True))
    assert (caught.value.offset, caught.value.txid) == (offset, 4)
    with pytest.raises(CorruptOpError, match="intact transactions follow it: 5 to 5"):
        examine_in_progress_segment(EditLogSegment(1, None, Path("edits")), bytes(content))


def test_damage_before_an_intact_operation_is_corruption():
    for layout_version in (-56, -63, -67):
        ops = some_ops(count=6)
        content = bytearray(segment_bytes(ops, layout_version))
        places = [op.offset for op in SegmentCursor(bytes(content))]
        content[places[2] + 1] ^= 0x40
        scan = scan_segment(bytes(content), first_txid=1)
        assert scan == (layout_version, 1, 2, places[2], True)
        with pytest.raises(CorruptOpError) as caught:
            list(SegmentCursor(bytes(content), first_txid=1, in_progress=True))
        assert (caught.value.offset, caught.value.txid) == (places[2], 3)
        assert not scan_segment(bytes(content[: places[3] - 1]), first_txid=1).corrupt


def test_a_gap_inside_an_open_segment_is_corruption():
    ops = some_ops(count=5)
    ops[3].txid = ops[4].txid
    scan = scan_segment(segment_bytes(ops[:4]), first_txid=1)
    assert (scan.last_txid, scan.corrupt) == (3, True)


@examples(100)
@given(st.binary(max_size=400))
def test_any_bytes_scan_or_give_a_typed_error(data):
    for content in (data, encode_header(-63) + data):
        error = None
        try:
            scan = scan_segment(content)
            assert HEADER_SIZE <= scan.end <= len(content)
        except JournalError as caught:
            error = caught
        assert error is None or error.offset is not None
