"""Path filters: the paths that they match, and bytes that do not depend on how a filter was filled."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from archive.path_filter import PathFilterBuilder, may_contain
from journal.binary_codec import encode_op
from journal.op_columns import op_columns
from journal.operation import EditOp
from journal.ops import ConcatDeleteOp, DeleteOp, TimesOp
from journal.whole_frames import whole_frames
from tests.depth import examples
from tests.journal.journal_support import NEWEST

NAMES = st.sampled_from(["a", "b", "cd", "é", "\ud800", "", "💾", "x" * 300])
PATHS = st.lists(NAMES, max_size=5).map(lambda parts: "/" + "/".join(parts))


def op_on(path: str, *, wide: bool) -> EditOp:
    return DeleteOp(path=path, timestamp=1) if wide else TimesOp(path=path, mtime=1, atime=1)


def filter_of(ops: list[EditOp]) -> bytes:
    builder = PathFilterBuilder()
    for op in ops:
        builder.add(op)
    return builder.build()


def filter_of_bytes(ops: list[EditOp]) -> bytes:
    for txid, op in enumerate(ops, 1):
        op.txid = txid
    content = b"".join(encode_op(op, NEWEST) for op in ops)
    builder = PathFilterBuilder()
    frames = whole_frames(content, 1, None)
    assert frames.next_txid == len(ops) + 1
    builder.add_columns(content, op_columns(content, frames, NEWEST))
    return builder.build()


@given(st.lists(st.tuples(PATHS, st.booleans()), min_size=1, max_size=20))
@examples(200)
def test_filter_matches_paths_descendants_and_parents(named: list[tuple[str, bool]]) -> None:
    ops: list[EditOp] = [op_on(path, wide=wide) for path, wide in named]
    ops.append(ConcatDeleteOp(trg="/t/1", srcs=("/s/2", "/s//3"), timestamp=1))
    found = filter_of_bytes(ops)
    assert found == filter_of(ops)
    for path, wide in [*named, ("/t/1", False), ("/s/3", False)]:
        assert may_contain(found, path)
        assert may_contain(found, path + "/")
        assert may_contain(found, path.rpartition("/")[0] or "/")
        if wide and path.strip("/"):
            assert may_contain(found, path + "/x/y")
    assert not may_contain(b"", "/")


def test_filter_excludes_most_other_paths() -> None:
    found = filter_of_bytes([op_on(f"/data/part={number}/file", wide=False) for number in range(1000)])
    others = [f"/data/part={number}/elif" for number in range(1000)]
    assert sum(may_contain(found, each) for each in others) < 50


def test_filter_bytes_are_stable() -> None:
    """Existing archives contain filters with these bytes."""
    found = filter_of_bytes([op_on("/data/warehouse/a", wide=True), op_on("/tmp/é", wide=False)])
    assert hashlib.sha256(found).hexdigest()[:16] == "bc2cdd37ca5fa341"
