"""Operations that a rewrite omits from a segment, and their dependents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.binary_codec import decode_op
from journal.dependents import dependents
from journal.errors import SegmentError
from journal.ops import (
    AddBlockOp,
    AllocateBlockIdOp,
    CreateSnapshotOp,
    DeleteOp,
    DeleteSnapshotOp,
    EditOp,
    EndLogSegmentOp,
    MkdirOp,
    PermissionStatus,
    RenameOldOp,
    SetOwnerOp,
    SetPermissionsOp,
    StartLogSegmentOp,
    TimesOp,
)
from journal.primitives import Buffer
from journal.segment_format import HEADER_SIZE, SegmentCursor
from journal.skipping import SkipPlan, SkipRequest, neutral_op, plan_skips, source_ops
from journal.values import Block
from tests.depth import examples
from tests.journal.journal_support import numbered, operations, segment_bytes, some_ops, unreadable_op

LAYOUTS = [-56, -60, -63, -64, -66, -67]
OWNER = PermissionStatus("hdfs", "supergroup", 0o755)


def result(plan: SkipPlan, content: Buffer) -> bytes:
    pieces = [piece if isinstance(piece, bytes) else content[piece.start : piece.stop] for piece in plan.pieces]
    return b"".join(map(bytes, pieces))


def flipped(content: bytes, *places: int) -> bytes:
    """Return the content with a flipped byte in the operations with these numbers."""
    offsets = [op.offset for op in SegmentCursor(content)]
    damaged = bytearray(content)
    for place in places:
        damaged[offsets[place] + 9] ^= 0x40
    return bytes(damaged)


def mkdir(path: str, inode_id: int = 0) -> MkdirOp:
    return MkdirOp(inode_id=inode_id, path=path, timestamp=1, permissions=OWNER)


@pytest.mark.parametrize("layout_version", LAYOUTS)
def test_one_operation_is_replaced(layout_version: int) -> None:
    ops = some_ops()
    content = segment_bytes(ops, layout_version)
    plan = plan_skips(content, SkipRequest({4}, first_txid=1, last_txid=8))
    made = list(SegmentCursor(result(plan, content), first_txid=1, last_txid=8))
    assert made == [*ops[:3], neutral_op(4), *ops[4:]]
    assert [(each.txid, each.op) for each in plan.skipped] == [(4, ops[3])]
    assert list(source_ops(plan, content)) == ops
    assert (plan.first_txid, plan.last_txid, plan.end, plan.fault) == (1, 8, len(content), None)


@pytest.mark.parametrize("layout_version", LAYOUTS)
@pytest.mark.parametrize("places", [(2,), (2, 3), (2, 5), (0,), (7,), (6, 7)])
def test_unreadable_operation_is_replaced(layout_version: int, places: tuple[int, ...]) -> None:
    ops = some_ops()
    content = flipped(segment_bytes(ops, layout_version), *places)
    plan = plan_skips(content, SkipRequest({place + 1 for place in places}, first_txid=1, last_txid=8))
    made = list(SegmentCursor(result(plan, content), first_txid=1, last_txid=8))
    whole = [op for op in made if op.txid - 1 not in places]
    assert whole == [op for op in ops if op.txid - 1 not in places]
    for place in places:
        assert made[place] == (StartLogSegmentOp(txid=1) if place == 0 else neutral_op(place + 1))
    assert [each.op for each in plan.skipped] == [None] * len(places)


def test_missing_transaction_is_replaced() -> None:
    ops = some_ops()
    content = segment_bytes(ops[:3] + ops[5:])
    plan = plan_skips(content, SkipRequest({4, 5}, first_txid=1, last_txid=8))
    assert [op.txid for op in SegmentCursor(result(plan, content), first_txid=1, last_txid=8)] == list(range(1, 9))


@pytest.mark.parametrize(
    ("places", "txids", "expected_message", "advice"),
    [
        ((), {9}, "does not contain transaction 9", "edits info"),
        ((), {1}, "OP_START_LOG_SEGMENT, which has no effect", "its txid"),
        ((), {8}, "OP_END_LOG_SEGMENT, which has no effect", "its txid"),
        ((2, 3), {3}, "transactions 3 to 4 cannot be read", "--skip 3-4"),
        ((2,), {4}, "transaction 3 cannot be read", "--skip 3 "),
        ((2, 5), {3}, "transaction 6 cannot be read", "--skip 6 "),
        ((6, 7), {7}, "transactions 7 to 8 cannot be read", "--skip 7-8"),
    ],
)
def test_ambiguous_skips_are_refused(
    places: tuple[int, ...], txids: set[int], expected_message: str, advice: str
) -> None:
    content = flipped(segment_bytes(some_ops()), *places)
    with pytest.raises(SegmentError) as caught:
        plan_skips(content, SkipRequest(txids, "edits", 1, 8))
    assert expected_message in caught.value.message
    assert advice in caught.value.hint


def test_torn_tail_of_an_open_segment_is_truncated() -> None:
    content = segment_bytes(some_ops())
    plan = plan_skips(content[:-5] + b"\xff" * 100, SkipRequest({4}, first_txid=1))
    assert (plan.last_txid, plan.fault is not None) == (7, True)
    assert [op.txid for op in SegmentCursor(result(plan, content), first_txid=1)] == list(range(1, 8))


@given(ops=st.lists(operations(), min_size=1, max_size=8), data=st.data())
@examples(200)
def test_any_operation_can_be_skipped(ops: list[EditOp], data: st.DataObject) -> None:
    wrapped = numbered([StartLogSegmentOp(), *ops, EndLogSegmentOp()], 1)
    content = segment_bytes(wrapped, -67)
    skippable = [op.txid for op in wrapped if not isinstance(op, StartLogSegmentOp | EndLogSegmentOp)]
    txids = set(data.draw(st.lists(st.sampled_from(skippable), unique=True))) if skippable else set()
    plan = plan_skips(content, SkipRequest(txids, first_txid=1, last_txid=len(wrapped)))
    made = list(SegmentCursor(result(plan, content), first_txid=1, last_txid=len(wrapped)))
    assert made == [neutral_op(op.txid) if op.txid in txids else op for op in wrapped]
    for each in dependents(source_ops(plan, content), txids):
        assert each.txid > min(txids)
        assert each.because


@pytest.mark.parametrize("kind", ["opcode", "further field"])
@pytest.mark.parametrize("behind", [0, 2])
def test_operation_of_other_software_is_skipped_only_on_request(kind: str, behind: int) -> None:
    ops = some_ops(count=3 + 1 + behind)
    content = segment_bytes(ops[:3], -63) + unreadable_op(kind, 4) + segment_bytes(ops[4:], -63)[HEADER_SIZE:]
    plan = plan_skips(content, SkipRequest({4}, first_txid=1))
    assert list(SegmentCursor(result(plan, content), first_txid=1)) == [*ops[:3], neutral_op(4), *ops[4:]]
    with pytest.raises(SegmentError, match="transaction 4 cannot be read"):
        plan_skips(content, SkipRequest({2}, first_txid=1))


def test_neutral_operation_is_an_op_times_without_times() -> None:
    content = segment_bytes(numbered([TimesOp(path="/", mtime=-1, atime=-1)], 5))
    assert decode_op(content, HEADER_SIZE, -63)[0] == neutral_op(5)


# ---- dependent operations ----------------------------------------------------------------------------------


def because(left_out: EditOp, *later: EditOp) -> list[tuple[int, str]]:
    """Return the txids of the operations in `later` that depend on `left_out`, each with the shared object."""
    ops = numbered([left_out, *later], 1)
    return [(each.txid, each.because) for each in dependents(ops, {1})]


def test_dependents_on_the_same_path_and_below_it() -> None:
    assert because(
        mkdir("/a", 16390),
        mkdir("/a/b"),
        mkdir("/ab"),
        DeleteOp(path="/a", timestamp=1),
        DeleteOp(path="/", timestamp=1),
        SetOwnerOp(src="//a/", username="u"),
    ) == [(2, "path /a/b, which is below /a"), (4, "path /a"), (6, "path /a")]


def test_attribute_changes_have_no_dependents_below_the_path() -> None:
    assert because(SetPermissionsOp(src="/a", mode=0o700), mkdir("/a/b"), DeleteOp(path="/a", timestamp=1)) == [
        (3, "path /a")
    ]
    assert because(SetPermissionsOp(src="/", mode=0o700), mkdir("/a")) == []


def test_dependents_are_followed_through_renames() -> None:
    def rename(src: str, dst: str) -> RenameOldOp:
        return RenameOldOp(src=src, dst=dst, timestamp=1)

    assert because(
        mkdir("/a/b"), rename("/a", "/z"), rename("/z/b", "/c"), mkdir("/c/d"), mkdir("/q"), mkdir("/z/b/x")
    ) == [(3, "path /z/b"), (4, "path /c/d, which is below /c"), (6, "path /z/b/x, which is below /z/b")]


def test_dependents_by_inode_block_and_snapshot() -> None:
    block = AddBlockOp(path="/f", blocks=(Block(7, 1, 1001),))
    assert because(AllocateBlockIdOp(block_id=7), block) == [(2, "block 7")]
    assert because(mkdir("/a", 16390), mkdir("/b", 16390)) == [(2, "inode 16390")]
    create = CreateSnapshotOp(snapshot_root="/s", snapshot_name="one")
    delete = DeleteSnapshotOp(snapshot_root="/s", snapshot_name="one")
    assert [txid for txid, _ in because(create, delete)] == [2]
