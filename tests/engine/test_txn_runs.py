"""Runs of transactions: digests, which `provenance.json` keeps across releases, and identifying operations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.txn_runs import _TIME_STAMPED, ImageId, RunOpening, TxnRecorder, TxnRun, is_identifying, runs_of_segments
from hadoop_common.names import segment_name
from journal import ops
from journal.attribute_ops import RemoveXAttrOp, TimesOp
from journal.binary_codec import encode_op
from journal.operation import EditOp, declared_operations
from journal.ops import OPERATIONS
from journal.segment_file import EditLogSegment, SegmentTransactions, read_ops
from journal.segment_format import encode_header
from journal.system_ops import EndLogSegmentOp, StartLogSegmentOp
from tests.checkpointer.set_back_support import chmod, delete, noted, segment
from tests.engine.image_builder import numbered
from tests.engine.op_makers import mkdir, times
from tests.recorded_cases import RECORDED

DIGESTS = {
    "hadoop-2.7.3/acl-xattr/before/edits_0000000000000000065-0000000000000000242": "552a86176ddf70ea8778f9d84ec285f3",
    "hadoop-2.7.3/random-files-1/before/edits_0000000000000001810-0000000000000006053": (
        "f6e6e7364b98be35d8f7616a2dd7f10d"
    ),
    "hadoop-2.7.3/segments/before/edits_0000000000000000089-0000000000000000110": "ae769b2ae1168233e3f1bbbe10ce6089",
    "hadoop-3.3.6/random-mixed-ec-15453/before/edits_0000000000000000232-0000000000000000826": (
        "ad762024d8cddbf4ae5b25ff827cc1eb"
    ),
    "hadoop-3.5.0/acl-xattr/before/edits_0000000000000000049-0000000000000000202": "b1c1ca6cd5eba66eef525c2c2ca71dae",
    "hadoop-3.5.0/random-snapshot-capture-15087/before/edits_0000000000000000295-0000000000000001061": (
        "54aa89a21e61bc8ec3930b840b3a940c"
    ),
}


@pytest.mark.parametrize(("name", "digest"), DIGESTS.items())
def test_segment_digest_equals_that_of_earlier_releases(name: str, digest: str) -> None:
    """With other digests, an upgraded node would regard its own images as images of a lost past."""
    path = RECORDED / name
    first, last = (int(part) for part in path.name.removeprefix("edits_").split("-"))
    opening = RunOpening()
    for op in read_ops(EditLogSegment(first, last, path)):
        opening.take(op)
    assert opening.digest == digest


def recorded(given: Sequence[EditOp], applied: int) -> tuple[TxnRun, ...]:
    """Return the runs of a recorder that recorded `given`, of which the first `applied` were applied."""
    recorder = TxnRecorder()
    recorder.begin(ImageId(0, "base"))
    assert list(recorder.record_all(given)) == given
    recorder.mark_applied(applied)
    return recorder.runs()


@pytest.mark.parametrize("applied", range(9))
def test_recorded_transactions_that_are_not_applied_leave_no_trace(applied: int) -> None:
    segment = [ops.StartLogSegmentOp(), times("/", 1), times("/", 2)]
    given = list(numbered([*segment, ops.EndLogSegmentOp(), *segment, mkdir("/d", 20_000)], 0))
    assert recorded(given, applied) == recorded(given[:applied], applied)


@pytest.mark.parametrize(("mtime", "runs"), [(1, [(1, 3)]), (2, [(1, 2), (3, 3)])])
def test_segment_with_another_opening_than_before_continues_in_another_run(
    mtime: int, runs: list[tuple[int, int]]
) -> None:
    first = list(numbered([ops.StartLogSegmentOp(), times("/", 1), times("/", 3)], 0))
    again = list(numbered([ops.StartLogSegmentOp(), times("/", mtime), times("/", 3)], 0))
    recorder = TxnRecorder()
    recorder.begin(ImageId(0, "base"))
    assert list(recorder.record_all(first[:2])) == first[:2]
    recorder.mark_applied(2)
    recorder.check_resumed(lambda txid: iter(again[txid - 1 :]))
    assert list(recorder.record_all(again[2:])) == again[2:]
    recorder.mark_applied(3)
    assert [(run.first, run.last) for run in recorder.runs()] == runs


LAYOUT = -63


def test_identifying_transactions() -> None:
    assert is_identifying(delete(1))
    assert not is_identifying(chmod(1))
    # a client chooses the times that it sets
    assert not is_identifying(TimesOp(txid=1, path="/a", mtime=5, atime=5))
    assert not is_identifying(RemoveXAttrOp(txid=1, src="/a", xattrs=()))
    assert is_identifying(RemoveXAttrOp(txid=1, src="/a", xattrs=(), rpc_client_id=b"0123456789abcdef"))
    assert not any(is_identifying(op(txid=1)) for op in (StartLogSegmentOp, EndLogSegmentOp))


# operations without a clock time and a call id, which another history may contain at the same txid
SILENT = """
    SET_REPLICATION SET_PERMISSIONS SET_OWNER TIMES SET_NS_QUOTA CLEAR_NS_QUOTA SET_QUOTA SET_QUOTA_BY_STORAGETYPE
    REASSIGN_LEASE SET_ACL SET_STORAGE_POLICY ALLOW_SNAPSHOT DISALLOW_SNAPSHOT START_LOG_SEGMENT END_LOG_SEGMENT
    SET_GENSTAMP_V1 SET_GENSTAMP_V2 ALLOCATE_BLOCK_ID CANCEL_DELEGATION_TOKEN
"""


def test_every_operation_is_classified_as_identifying_or_not() -> None:
    stamped = {op.name.removeprefix("OP_") for op in _TIME_STAMPED}
    called = {
        op.name.removeprefix("OP_") for op in OPERATIONS.values() if any(f.name == "rpc_client_id" for f in op.fields)
    }
    assert stamped | called | set(SILENT.split()) == {op.name.removeprefix("OP_") for op in OPERATIONS.values()}
    assert not set(SILENT.split()) & (stamped | called)


def test_runs_of_segments() -> None:
    first, second = segment(1, chmod(2), delete(3), delete(4)), segment(6, chmod(7))
    one, two = noted(first, second).runs()
    assert (one.first, one.last, one.opening_end, one.identifying, one.starts, one.ends) == (1, 5, 3, True, True, True)
    assert (two.first, two.last, two.opening_end, two.identifying, two.starts, two.ends) == (6, 8, 8, False, True, True)


@given(cuts=st.lists(st.integers(0, 9), max_size=4), telling=st.lists(st.booleans(), min_size=8, max_size=8))
def test_segment_read_in_parts_is_one_run(cuts: list[int], telling: list[bool]) -> None:
    whole = segment(1, *(delete(2 + n) if tells else chmod(2 + n) for n, tells in enumerate(telling)))
    recorder = TxnRecorder()
    recorder.begin(ImageId(0, "aa"))
    reached = 0
    for cut in [*sorted(cuts), whole.last]:
        for op in recorder.record_all(whole.read(reached + 1)):
            # the last transaction may be recorded without being applied
            if op.txid > cut:
                break
            reached = op.txid
        recorder.mark_applied(reached)
    assert recorder.runs() == noted(whole).runs()


def test_runs_from_files_equal_those_from_streams(tmp_path: Path) -> None:
    segments = [segment(1, chmod(2), delete(3), chmod(4)), segment(6, chmod(7)), segment(9, delete(10))]
    files = []
    for each in segments:
        path = tmp_path / segment_name(each.first, each.last)
        path.write_bytes(encode_header(LAYOUT) + b"".join(encode_op(op, LAYOUT) for op in each.ops))
        files.append(EditLogSegment(each.first, each.last, path))
    recorder = TxnRecorder()
    recorder.begin(ImageId(0, "aa"))
    last = [op.txid for op in SegmentTransactions(files, 1).observed(recorder.record_opening)][-1]
    recorder.mark_applied(last)
    assert recorder.runs() == noted(*segments).runs() == runs_of_segments(files)


def test_operations_with_a_clock_time_are_identifying() -> None:
    reported = {each.name for each in declared_operations().values() if is_identifying(_any(each))}
    assert {"OP_ADD", "OP_MKDIR", "OP_ROLLING_UPGRADE_START"} <= reported
    assert not {"OP_SET_PERMISSIONS", "OP_SET_OWNER", "OP_TIMES", "OP_START_LOG_SEGMENT", "OP_SET_QUOTA"} & reported


def _any(cls: type[EditOp]) -> EditOp:
    op = cls.__new__(cls)
    for item in cls.fields:
        setattr(op, item.name, item.default if item.has_default else None)
    return op


def test_runs_compare_by_value() -> None:
    assert TxnRun(1, 2, 2, "aa", True, True, True) == TxnRun(1, 2, 2, "aa", True, True, True)


def test_segment_that_begins_inside_the_last_run_begins_another_run() -> None:
    """A NameNode that was set back may write other segments, which contain the next transactions."""
    recorder = TxnRecorder()
    recorder.begin(ImageId(0, "aa"))
    before, after = segment(1, delete(2), delete(3), in_progress=True), segment(2, delete(3), delete(4))
    for _ in recorder.record_all(before.read(1)):
        pass
    recorder.mark_applied(3)
    recorder.check_resumed(after.read)
    for _ in recorder.record_all(after.read(4)):
        pass
    recorder.mark_applied(5)
    assert [(each.first, each.last, each.starts) for each in recorder.runs()] == [(1, 3, True), (4, 5, False)]
