"""Segments that a backup node fetches from its NameNode."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.roles.backup.follower import missing_segments
from hadoop_common.names import segment_name
from hadoop_rpc.namenode_protocol import RemoteEditLog
from journal.errors import TransactionGapError
from journal.segment_file import EditLogSegment


def held(*names: tuple[int, int]) -> list[EditLogSegment]:
    return [EditLogSegment(first, last, Path(segment_name(first, last))) for first, last in names]


def test_only_missing_segments_are_fetched() -> None:
    there = [RemoteEditLog(1, 10), RemoteEditLog(11, 20), RemoteEditLog(21, 30), RemoteEditLog(31, 40, True)]
    assert missing_segments(held((1, 10), (21, 30)), there, 5, 30) == [(11, 20)]
    # the beginning of a segment is not the complete segment
    assert missing_segments(held((1, 10), (11, 14)), there, 15, 30) == [(11, 20), (21, 30)]
    assert missing_segments(held(), there, 31, 30) == []
    with pytest.raises(TransactionGapError):
        missing_segments(held(), there, 5, 40)
    with pytest.raises(TransactionGapError):
        missing_segments(held((1, 3)), there[1:], 4, 30)


@given(cuts=st.lists(st.integers(1, 60), min_size=1, max_size=8, unique=True), data=st.data())
def test_stored_and_fetched_segments_cover_the_range(cuts: list[int], data: st.DataObject) -> None:
    bounds = [0, *sorted(cuts)]
    whole = [(start + 1, end) for start, end in itertools.pairwise(bounds)]
    ours = data.draw(st.lists(st.sampled_from(whole), unique=True))
    first = data.draw(st.integers(1, bounds[-1]))
    fetched = missing_segments(held(*ours), [RemoteEditLog(*each) for each in whole], first, bounds[-1])
    assert not set(fetched) & set(ours)
    covered = {txid for start, end in (*ours, *fetched) for txid in range(start, end + 1)}
    assert set(range(first, bounds[-1] + 1)) <= covered
