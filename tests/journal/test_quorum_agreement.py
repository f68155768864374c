"""The durable part of copies of an open segment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.quorum.agreement import SegmentCopy, durable_part, same_transactions
from journal.segment_format import encode_header
from tests.journal.quorum_model import LAYOUT
from tests.journal.quorum_ops import mark, start_op

HEADER = encode_header(LAYOUT)
PADDING = b"\xff" * 100


def content(*values: int, first: int = 1, tail: bytes = b"") -> bytes:
    """Return START_LOG_SEGMENT, and a transaction for each of `values`."""
    records = [start_op(first), *(mark(first + number, value) for number, value in enumerate(values, 1))]
    return HEADER + b"".join(records) + tail


def durable(*copies: bytes, need: int = 2, committed: list[int | None] | None = None) -> int | None:
    known = committed or [None] * len(copies)
    part = durable_part([SegmentCopy(each, knows) for each, knows in zip(copies, known, strict=True)], 1, need)
    return None if part is None else part.last


def test_transactions_on_a_majority_are_durable() -> None:
    assert durable(content(1, 2, 3), content(1, 2), content(1)) == 3
    assert durable(content(1, 2, 3), content(1, 2), need=2) == 3
    assert durable(content(1, 2, 3), content(1, 2, 3), content(1, 2, 3, 4)) == 4


def test_one_of_three_copies_is_not_durable() -> None:
    assert durable(content(1, 2)) is None
    assert durable(content(1, 2), HEADER) is None
    assert durable(content(1, 2), b"") is None


def test_copy_of_a_superseded_writer_is_not_counted() -> None:
    """If only the number of transactions counted, 4 transactions would appear to be durable."""
    assert durable(content(91, 92, 93, 94), content(1, 2, 3), content(1)) == 2
    assert durable(content(91, 92), content(1, 2)) is None


def test_start_operation_alone_is_not_durable() -> None:
    assert durable(content(), content()) is None
    assert durable(content(), content(), committed=[1, None]) == 1


def test_transactions_that_a_node_reports_as_committed_are_durable() -> None:
    assert durable(content(1, 2, 3), content(1), committed=[3, None]) == 3
    assert durable(content(1, 2, 3), content(1), committed=[None, 3]) == 3
    assert durable(content(1, 2, 3), content(1), committed=[9, None]) == 4
    assert durable(content(1, 2, 3), content(1, 2, 3), committed=[2, 2]) == 4
    assert durable(content(1, 2), need=1, committed=[2]) == 3


def test_single_copy_is_not_durable_although_a_later_txid_is_committed() -> None:
    """The other nodes may have purged the segment that another writer wrote in place of this copy."""
    assert durable(content(91, 92), committed=[9]) is None
    assert durable(content(91, 92), content(91, 92, 93), need=3, committed=[9, 9]) is None


def test_committed_txid_does_not_make_a_different_copy_durable() -> None:
    """A node learns the committed txid from heartbeats, although its own copy is different."""
    assert durable(content(91, 92, 93), content(1, 2), committed=[3, None]) is None


@pytest.mark.parametrize("tail", [PADDING, b"\0" * 100, mark(4, 3)[:-1], b"\x18\0\0"])
def test_bytes_after_the_last_intact_transaction_are_ignored(tail: bytes) -> None:
    assert durable(content(1, 2, tail=tail), content(1, 2, 3)) == 3
    assert durable(content(1, 2, tail=PADDING), content(1, 2, tail=tail)) == 3


def test_copies_of_different_layouts_differ() -> None:
    assert durable(content(1, 2), encode_header(-65) + content(1, 2)[8:]) is None


@given(st.lists(st.lists(st.integers(0, 1), max_size=6), min_size=1, max_size=5), st.integers(1, 5))
def test_durable_prefix_is_the_longest_shared_by_enough_copies(values: list[list[int]], need: int) -> None:
    copies = [content(*each) for each in values]
    shared = [
        length
        for each in values
        for length in range(1, len(each) + 1)
        if sum(other[:length] == each[:length] for other in values) >= need
    ]
    assert durable(*copies, need=need) == (max(shared) + 1 if shared else None)


def test_long_copies_are_compared_byte_by_byte() -> None:
    values = list(range(5000))
    other = [*values[:4321], 99999, *values[4322:]]
    assert durable(content(*values), content(*other)) == 4322
    assert durable(content(*values), content(*values)) == 5001


def test_comparison_of_the_transactions_of_two_copies() -> None:
    assert same_transactions(content(1, 2, tail=PADDING), content(1, 2, 3), 1, 3)
    assert not same_transactions(content(1, 2), content(1, 3), 1, 3)
    assert not same_transactions(content(1, 2), content(1), 1, 3)
    assert not same_transactions(content(1), content(1, 2), 1, 3)
