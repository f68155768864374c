"""Digests of transactions, which `provenance.json` keeps across releases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.txn_runs import ImageId, RunOpening, TxnRecorder, TxnRun
from journal import ops
from journal.ops import EditOp
from journal.segment_file import EditLogSegment, read_ops
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
