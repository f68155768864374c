"""Sets of transactions as ranges behave like sets of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipeline.lake.inputs import LakeSegment, in_batches
from pipeline.lake.ranges import CountedRange, TxidRange, contained, holes, merge, ranges_of, subtract

ranges = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda pair: TxidRange(pair[0], pair[0] + pair[1])), max_size=6
)


def numbers(found: Iterable[TxidRange]) -> list[int]:
    return [number for first, last in found for number in range(first, last + 1)]


@given(ranges)
def test_merge_of_ranges_is_the_set_union(found: list[TxidRange]) -> None:
    merged = merge(found)
    assert numbers(merged) == sorted(set(numbers(found)))
    assert all(one.last + 1 < two.first for one, two in pairwise(merged))


@given(ranges, ranges)
def test_subtract_of_ranges_is_the_set_difference(found: list[TxidRange], taken: list[TxidRange]) -> None:
    assert numbers(subtract(found, taken)) == sorted(set(numbers(found)) - set(numbers(taken)))


@given(ranges)
def test_holes_are_the_missing_numbers(found: list[TxidRange]) -> None:
    there = set(numbers(found))
    missing = set(range(min(there), max(there) + 1)) - there if there else set()
    assert set(numbers(holes(found))) == missing


@given(ranges, ranges, st.integers(1, 1 << 30))
def test_batches_contain_each_transaction_once(found: list[TxidRange], taken: list[TxidRange], size: int) -> None:
    segments = [LakeSegment(f"edits_{each}", each, size, 0) for each in sorted(found)]
    batches = in_batches(segments, taken)
    held = numbers(batches)
    assert len(held) == len(set(held))
    assert set(held) == set(numbers(found)) - set(numbers(taken))


@given(st.sets(st.integers(0, 60)), st.lists(st.integers(0, 3), min_size=61, max_size=61))
def test_ranges_in_files_follow_from_counts_and_reads(txids: set[int], file_of: list[int]) -> None:
    by_file: dict[int, list[int]] = {}
    for txid in sorted(txids):
        by_file.setdefault(file_of[txid], []).append(txid)
    files = [CountedRange(str(name), each[0], each[-1], len(each)) for name, each in by_file.items()]
    certain, unclear = contained(files)
    read = ranges_of([txid for name in unclear for txid in by_file[int(name)]])
    assert merge([*certain, *read]) == ranges_of(sorted(txids))
