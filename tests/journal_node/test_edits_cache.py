"""The in-memory cache of a JournalNode's newest transactions."""

from __future__ import annotations

import itertools
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.errors import EditsCacheMissError
from hadoop_rpc.qjournal_values import JournaledEdits
from journal_node.edits_cache import EditsCache
from tests.journal_node.journal_node_support import HEADER, LAYOUT, batch, transaction

SIZE = len(transaction(1))


def test_cache_returns_only_the_requested_transactions() -> None:
    cache = EditsCache(1000)
    cache.store(batch(5, 9), 5, 9, LAYOUT)
    cache.store(batch(10, 10), 10, 10, LAYOUT)
    cache.store(batch(11, 14), 11, 14, LAYOUT)
    for since, most in itertools.product(range(5, 15), range(1, 12)):
        last = min(14, since + most - 1)
        assert cache.retrieve(since, most) == JournaledEdits(last - since + 1, HEADER + batch(since, last))
    assert cache.retrieve(15, 5) == JournaledEdits(0, b"")
    assert cache.retrieve(6, 0) == JournaledEdits(0, b"")


def test_oldest_batches_are_evicted() -> None:
    cache = EditsCache(4 * SIZE)
    for first in (1, 3, 5):
        cache.store(batch(first, first + 1), first, first + 1, LAYOUT)
    assert cache.retrieve(3, 9).count == 4
    with pytest.raises(EditsCacheMissError, match="oldest txid in the cache is 3, but 2 was requested"):
        cache.retrieve(2, 9)
    with pytest.raises(EditsCacheMissError, match="began at txid 1, but 0 was requested"):
        cache.retrieve(0, 9)
    cache.store(batch(7, 10), 7, 10, LAYOUT)
    assert cache.retrieve(7, 9).count == 4
    with pytest.raises(EditsCacheMissError):
        cache.retrieve(6, 9)


@pytest.mark.parametrize(("first", "last", "layout"), [(7, 8, LAYOUT), (2, 3, LAYOUT), (4, 5, -66)])
def test_non_consecutive_batch_restarts_the_cache(first: int, last: int, layout: int) -> None:
    cache = EditsCache(1000)
    cache.store(batch(1, 3), 1, 3, LAYOUT)
    cache.store(batch(first, last), first, last, layout)
    assert cache.retrieve(first, 9).content == pack(">ii", layout, 0) + batch(first, last)
    with pytest.raises(EditsCacheMissError):
        cache.retrieve(first - 1, 9)


def test_batch_larger_than_the_cache_empties_it() -> None:
    cache = EditsCache(2 * SIZE)
    for first, last, layout in ((2, 4, LAYOUT), (2, 3, -50)):
        cache.store(batch(1, 1), 1, 1, LAYOUT)
        cache.store(batch(first, last), first, last, layout)
        with pytest.raises(EditsCacheMissError, match="is empty"):
            cache.retrieve(1, 9)
    cache.store(batch(1, 1), 1, 1, LAYOUT)
    cache.clear()
    with pytest.raises(EditsCacheMissError):
        cache.retrieve(1, 9)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=60), st.integers(5, 40))
def test_the_cache_holds_the_newest_batches_that_fit(counts: list[int], room: int) -> None:
    cache = EditsCache(room * SIZE)
    kept: list[tuple[int, int]] = []
    txid = 1
    for count in counts:
        last = txid + count - 1
        cache.store(batch(txid, last), txid, last, LAYOUT)
        kept.append((txid, last))
        while kept[-1][1] - kept[0][0] + 1 > room:
            kept.pop(0)
        txid = last + 1
    oldest, newest = kept[0][0], kept[-1][1]
    assert cache.retrieve(oldest, 1000) == JournaledEdits(newest - oldest + 1, HEADER + batch(oldest, newest))
    with pytest.raises(EditsCacheMissError):
        cache.retrieve(oldest - 1, 1)
