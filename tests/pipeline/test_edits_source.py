"""The rows of `hdfs_edits` from recorded segments, for any division of the segments; without Spark."""

from __future__ import annotations

import gzip
import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.names import inprogress_name, segment_name
from journal import ops
from journal.errors import CorruptOpError, JournalError, SegmentError, TransactionGapError
from journal.op_times import TIMED, op_time
from journal.operation import EditOp
from journal.segment_format import HEADER_SIZE
from pipeline.errors import SourceFileError, SourceOptionError
from pipeline.sources.edit_ranges import EditsRange, WantedEdits, cut_range, read_range
from pipeline.tables.edits import EDITS
from tests.depth import examples
from tests.engine.op_makers import add, close, mkdir, rename, times
from tests.journal.journal_support import numbered, operations, segment_bytes
from tests.pipeline.edits_support import reader, rows, write_segment
from tests.recorded_cases import ALL_CASES, Case

CASES = [case for case in ALL_CASES if Path(case.edits_xml).is_file() and any((case.path / "before").glob("edits_*-*"))]
NOON = 1_700_000_000_000


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def in_xml(case: Case) -> list[dict[str, Any]]:
    """Return the transactions of Hadoop's own viewer, with the columns that are one XML element each."""
    found = []
    for record in ET.fromstring(gzip.decompress(Path(case.edits_xml).read_bytes())).iter("RECORD"):
        data = record.find("DATA")
        assert data is not None
        text = data.findtext
        status = data.find("PERMISSION_STATUS")
        path = text("PATH") or text("SRC") or text("TRG") or text("SNAPSHOTROOT")
        found.append(
            {
                "txid": int(text("TXID") or 0),
                "op": record.findtext("OPCODE"),
                "path": path,
                "target": text("DST") or text("TRG") or (text("VALUE") if text("MTIME") else None),
                "owner": text("USERNAME") if status is None else status.findtext("USERNAME"),
                "group": text("GROUPNAME") if status is None else status.findtext("GROUPNAME"),
                "blocks": [int(block.findtext("NUM_BYTES") or 0) for block in data.iter("BLOCK")],
                "call": text("RPC_CALLID"),
            }
        )
    return found


@pytest.mark.recorded
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rows_equal_hadoops_output_for_any_number_of_partitions(case: Case) -> None:
    whole = rows(case.path / "before", partitions="1")
    for count in (2, 7):
        assert rows(case.path / "before", partitions=str(count)) == whole
    by_txid = {row["txid"]: row for row in whole}
    printed = [item for item in in_xml(case) if item["txid"] in by_txid]
    assert len(printed) == len(whole)
    for expected in printed:
        if "\\" in str(expected):  # XML uses its own escapes
            continue
        row = by_txid[expected["txid"]]
        assert row["op"] == expected["op"]
        if "\N{REPLACEMENT CHARACTER}" not in (row["path"] or ""):
            assert (row["path"] or None) == expected["path"]
            assert row["target"] == expected["target"]
        if not row["op"].endswith("CACHE_POOL"):
            assert (row["owner"], row["group"]) == (expected["owner"] or None, expected["group"] or None)
        if row["block_count"] is not None:
            assert (row["block_count"], row["length"]) == (len(expected["blocks"]), sum(expected["blocks"]))
        if row["rpc_call_id"] is not None:
            assert row["rpc_call_id"] == int(expected["call"])
        assert json.loads(row["fields"])["txid"] == row["txid"]


def _timeline() -> list[EditOp]:
    """Make operations with times at 3, 5 and 8; the client's time (4) and the old times of an append (7)
    do not count.
    """
    made: list[EditOp] = [
        ops.StartLogSegmentOp(),
        ops.SetGenstampV2Op(genstamp=1),
        mkdir("/a", 17, NOON),
        times("/a", 5, 5),
        add("/a/f", 18, NOON + 1000),
        ops.AllocateBlockIdOp(block_id=1),
        add("/a/f", 18, NOON - 9000, blocks=(ops.Block(1, 2, 3),)),
        close("/a/f", NOON + 2000),
        ops.EndLogSegmentOp(),
    ]
    return numbered(made, 1)


@pytest.mark.parametrize("partitions", ["1", "3"])
def test_an_empty_finalized_segment_is_damaged(tmp_path: Path, partitions: str) -> None:
    (tmp_path / segment_name(1, 9)).touch()
    with pytest.raises(JournalError, match="edits_0000000000000000001-0000000000000000009"):
        rows(tmp_path, partitions=partitions)


@pytest.mark.parametrize("partitions", ["1", "2", "4", "50"])
def test_approximate_times_of_operations(tmp_path: Path, partitions: str) -> None:
    write_segment(tmp_path, _timeline())
    found = rows(tmp_path, partitions=partitions)
    none = None
    assert [row["time"] and row["time"].timestamp() * 1000 - NOON for row in found] == [
        none, none, 0, none, 1000, none, none, 2000, none,
    ]  # fmt: skip
    offsets = [row["approximate_time"].timestamp() * 1000 - NOON for row in found]
    assert offsets == [0, 0, 0, 0, 1000, 1000, 1000, 2000, 2000]


@given(st.lists(operations(), min_size=1, max_size=12), st.lists(st.integers(8, 3000), max_size=5), st.data())
@examples(60)
def test_ranges_together_cover_the_segment(made: list[EditOp], places: list[int], data: st.DataObject) -> None:
    buffer = segment_bytes(numbered(made, 1))
    whole = EditsRange("edits", HEADER_SIZE, len(buffer), 1, len(made), len(buffer))
    known = [op_time(op) for op in made]
    first = next((time for time in known if time is not None), None)
    expected = []
    for op, time in zip(made, known, strict=True):
        first = time if time is not None else first
        expected.append((op, first))
    wanted = WantedEdits(data.draw(st.integers(0, 6)), data.draw(st.integers(3, 14)))
    pieces = cut_range(buffer, whole, sorted(places))
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    found = [row for piece in pieces for row in read_range(buffer, piece, wanted)]
    assert found == [(op, time) for op, time in expected if wanted.takes(op.txid)]


def test_columns_and_txids_can_be_selected(tmp_path: Path) -> None:
    write_segment(tmp_path, _timeline())
    assert rows(tmp_path, columns="op, txid", from_txid="2", to_txid="3") == [
        {"op": "OP_SET_GENSTAMP_V2", "txid": 2},
        {"op": "OP_MKDIR", "txid": 3},
    ]


def test_secrets_are_not_in_the_rows(tmp_path: Path) -> None:
    key = ops.DelegationKey(1, 2, b"\xab\xcd\xef\x01secret")
    write_segment(tmp_path, numbered([ops.UpdateMasterKeyOp(key=key)], 1))
    (row,) = rows(tmp_path)
    assert json.loads(row["fields"])["key"] == {"key_id": 1, "expiry_date": 2}
    assert b"secret".hex() not in str(row)


def test_names_that_are_not_unicode_are_replaced(tmp_path: Path) -> None:
    write_segment(tmp_path, numbered([rename("/a\ud800", "/b\U0001f600")], 1))
    (row,) = rows(tmp_path)
    assert (row["path"], row["target"]) == ("/a\N{REPLACEMENT CHARACTER}", "/b\U0001f600")


def test_consecutive_segments_are_read_in_order(tmp_path: Path) -> None:
    made = _timeline()
    write_segment(tmp_path / "current", made[:3])
    write_segment(tmp_path / "current", made[3:5])
    write_segment(tmp_path / "current", made[:2])  # a part of the first segment
    write_segment(tmp_path / "current", made[4:])  # begins within the second segment
    for partitions in ("1", "3"):
        assert [row["txid"] for row in rows(tmp_path, partitions=partitions)] == list(range(1, 10))


def test_a_gap_is_an_error_unless_it_is_allowed(tmp_path: Path) -> None:
    made = _timeline()
    write_segment(tmp_path, made[:3])
    write_segment(tmp_path, made[5:])
    with pytest.raises(TransactionGapError, match=r"no segment contains txid 4 \.\. 5") as caught:
        rows(tmp_path)
    assert "gaps=allow" in caught.value.hint
    assert [row["txid"] for row in rows(tmp_path, gaps="allow")] == [1, 2, 3, 6, 7, 8, 9]
    assert [row["txid"] for row in rows(tmp_path, to_txid="3")] == [1, 2, 3]
    with pytest.raises(TransactionGapError, match="txid 10 and later"):
        rows(tmp_path, from_txid="6", to_txid="10")
    with pytest.raises(TransactionGapError, match=r"txid 4 \.\. 5"):
        rows(tmp_path, from_txid="4")


def test_segments_in_progress_are_read_only_on_request(tmp_path: Path) -> None:
    made = _timeline()
    write_segment(tmp_path, made[:4])
    open_one = write_segment(tmp_path, made[4:], name=inprogress_name(5))
    open_one.write_bytes(open_one.read_bytes()[:-5])
    (tmp_path / inprogress_name(10)).touch()
    assert [row["txid"] for row in rows(tmp_path)] == [1, 2, 3, 4]
    assert [row["txid"] for row in rows(tmp_path, in_progress="true", partitions="4")] == list(range(1, 9))
    assert [row["txid"] for row in rows(open_one, in_progress="true")] == [5, 6, 7, 8]
    with pytest.raises(SourceOptionError, match="in progress"):
        rows(open_one)


@pytest.mark.parametrize("partitions", ["1", "4"])
def test_damage_is_reported_with_offset_and_txid(tmp_path: Path, partitions: str) -> None:
    path = write_segment(tmp_path, _timeline())
    content = bytearray(path.read_bytes())
    offset = next(row.op.offset for row in read_range(bytes(content), _whole(path), WantedEdits()) if row.op.txid == 6)
    content[offset + 14] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptOpError, match=f"{path.name}, offset {offset}, txid 6: checksum"):
        rows(path, partitions=partitions)
    content[offset + 1] = 0x7F  # the length
    path.write_bytes(content)
    with pytest.raises(CorruptOpError, match=f"offset {offset}, txid 6"):
        rows(path, partitions=partitions)


def _whole(path: Path) -> EditsRange:
    size = path.stat().st_size
    return EditsRange(path.name, HEADER_SIZE, size, 1, 9, size)


@pytest.mark.parametrize("partitions", ["1", "3"])
def test_a_segment_that_ends_early_is_an_error(tmp_path: Path, partitions: str) -> None:
    made = _timeline()
    path = write_segment(tmp_path, made)
    short = write_segment(tmp_path, made[:6], name=path.name)
    with pytest.raises(SegmentError, match="ends before txid 7, but its name ends at txid 9"):
        rows(short, partitions=partitions)
    path.write_bytes(segment_bytes(made[:3] + made[4:]))
    with pytest.raises(TransactionGapError, match="expected txid 4, found 5"):
        rows(path, partitions=partitions)


def test_a_file_of_any_name_is_read_to_its_end(tmp_path: Path) -> None:
    path = write_segment(tmp_path, _timeline(), name="copy.bin")
    path.write_bytes(path.read_bytes() + b"\xff\x00\x00")
    assert len(rows(path, partitions="3")) == 9
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(CorruptOpError, match="follows the terminator"):
        rows(path, partitions="3")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"colour": "red"}, "from_txid"),
        ({"columns": "txid,nope"}, "approximate_time"),
        ({"columns": "txid,txid"}, "approximate_time"),
        ({"from_txid": "-1"}, "at least 0"),
        ({"partitions": "0"}, "at least 1"),
        ({"in_progress": "maybe"}, "true, false"),
        ({"gaps": "fill"}, "error, allow"),
    ],
)
def test_invalid_options_are_errors_with_hints(tmp_path: Path, options: dict[str, str], hint: str) -> None:
    with pytest.raises(SourceOptionError) as caught:
        reader(tmp_path, **options)
    assert hint in caught.value.hint


def test_missing_segments_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceFileError):
        rows(tmp_path)
    with pytest.raises(SourceFileError):
        rows(tmp_path / "none")


def test_the_schema_equals_that_of_the_table(tmp_path: Path) -> None:
    write_segment(tmp_path, _timeline())
    made = reader(tmp_path)
    (part,) = made.partitions()
    assert [batch.schema for batch in made.read(part)] == [EDITS.arrow_schema()]


# the times of OP_TIMES are a client's choice; the times of a token renewal and of a master key are in the future
UNTIMED = """
    APPEND ADD_BLOCK UPDATE_BLOCKS SET_REPLICATION SET_PERMISSIONS SET_OWNER TIMES SET_NS_QUOTA CLEAR_NS_QUOTA
    SET_QUOTA SET_QUOTA_BY_STORAGETYPE REASSIGN_LEASE SET_ACL SET_XATTR REMOVE_XATTR SET_STORAGE_POLICY
    ALLOW_SNAPSHOT DISALLOW_SNAPSHOT START_LOG_SEGMENT END_LOG_SEGMENT SET_GENSTAMP_V1 SET_GENSTAMP_V2
    ALLOCATE_BLOCK_ID RENEW_DELEGATION_TOKEN CANCEL_DELEGATION_TOKEN UPDATE_MASTER_KEY ADD_CACHE_DIRECTIVE
    MODIFY_CACHE_DIRECTIVE REMOVE_CACHE_DIRECTIVE ADD_CACHE_POOL MODIFY_CACHE_POOL REMOVE_CACHE_POOL
    ADD_ERASURE_CODING_POLICY ENABLE_ERASURE_CODING_POLICY DISABLE_ERASURE_CODING_POLICY
    REMOVE_ERASURE_CODING_POLICY
"""


def test_every_operation_has_a_time_or_is_listed_as_untimed() -> None:
    assert {op.name.removeprefix("OP_") for op in ops.OPERATIONS.values() if op.opcode not in TIMED} == set(
        UNTIMED.split()
    )
