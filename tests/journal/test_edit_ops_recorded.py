from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from journal.binary_codec import encode_op
from journal.json_codec import op_from_json, op_to_json
from journal.ops import OPERATIONS, by_name
from journal.segment_file import list_segments, read_ops
from journal.segment_format import HEADER_SIZE, SegmentCursor, decode_header, encode_header
from journal.xml_codec import HADOOP_2, HADOOP_3, dialect_of, dump_xml
from tests.journal.journal_support import case_id, recorded_segments, recorded_xml

pytestmark = pytest.mark.recorded


def differing(path: Path) -> list[str]:
    content = path.read_bytes()
    layout_version = decode_header(content)
    ops = list(SegmentCursor(content, file=path.name))
    places = [op.offset for op in ops] + [HEADER_SIZE + sum(len(encode_op(op, layout_version)) for op in ops)]
    found = [
        str(op)
        for op, (start, end) in zip(ops, pairwise(places), strict=True)
        if encode_op(op, layout_version) != content[start:end]
    ]
    if encode_header(layout_version) != content[:HEADER_SIZE] or content[places[-1] :].strip(b"\xff"):
        found.append("header or tail")
    return found


@pytest.mark.parametrize("case", sorted({path.parent for path in recorded_segments()}), ids=case_id)
def test_recorded_segments_round_trip_byte_for_byte(case):
    for segment in list_segments(case):
        assert differing(segment.path) == []
        assert all(op == op_from_json(line) for op, line in both_forms(segment))


def both_forms(segment):
    ops = list(read_ops(segment))
    return zip(ops, map(op_to_json, ops), strict=True)


@pytest.mark.parametrize("expected", recorded_xml(), ids=case_id)
def test_xml_equals_that_of_the_offline_edits_viewer(expected):
    segments = list_segments(expected.parent / "before")
    layout_version = decode_header(segments[0].path.read_bytes())
    dialect = HADOOP_3 if "hadoop-3" in str(expected) else HADOOP_2
    ops = (op for segment in segments for op in read_ops(segment))
    actual = "".join(dump_xml(ops, layout_version, dialect))
    # compared by line, because pytest would take minutes to explain the difference between two long strings
    wanted = gzip.decompress(expected.read_bytes()).decode("utf-8")
    for number, (got, want) in enumerate(zip(actual.split("\n"), wanted.split("\n"), strict=False), 1):
        assert got == want, f"line {number}"
    assert len(actual) == len(wanted)


def test_recorded_cases_contain_every_operation_that_hadoop_writes():
    missing = set(OPERATIONS)
    # the largest files take most of the time, but contain no further operations
    for path in sorted(recorded_segments(), key=lambda path: path.stat().st_size):
        missing -= {op.opcode for op in SegmentCursor(path.read_bytes())}
        if not missing:
            break
    assert missing == set()


def test_xml_dialect_of_a_layout():
    assert dialect_of(-63) is HADOOP_2
    assert dialect_of(-64) is HADOOP_3


def test_opcodes_and_names_of_the_catalogue():
    assert set(OPERATIONS) == {*range(5), *range(7, 53)}
    assert by_name("OP_MKDIR").opcode == 3
    with pytest.raises(KeyError):
        by_name("OP_DATANODE_ADD")
