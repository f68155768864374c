"""Packed columns return and find the values that were added."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.array_allocator import ArrayAllocator
from image_format.packed import BLOCK, Packed, Packer

LARGEST = (1 << 63) - 1
steps = st.integers(1, 3) | st.integers(1, 5000) | st.integers(1, 1 << 55)
ascending = st.lists(steps, max_size=300).map(lambda found: np.cumsum(found, dtype=np.int64))
numbers = st.lists(st.integers(0, 1 << 17) | st.integers(0, LARGEST), max_size=300).map(
    lambda found: np.array(found, np.int64)
)


@given(numbers)
def test_packed_values_round_trip(values: np.ndarray) -> None:
    column = Packed.of(values)
    assert column.size == values.size
    assert column.all().tolist() == values.tolist()
    assert [column.item(row) for row in range(column.size)] == values.tolist()
    rows = np.arange(column.size)[::-3].copy()
    assert column.at(rows).tolist() == values[rows].tolist()
    assert column.part(5, 90).tolist() == values[5:90].tolist()


@given(numbers, st.lists(st.integers(0, 200), max_size=5))
def test_joined_pieces_equal_the_column_of_all_values(values: np.ndarray, cuts: list[int]) -> None:
    pieces = np.split(values, sorted(cut for cut in cuts if cut < values.size))
    joined, whole = Packed.joined(pieces, values.size + 7, ArrayAllocator()), Packed.of(values)
    for ours, theirs in zip(joined, whole, strict=True):
        assert ours.tolist() == theirs.tolist()


@given(ascending, st.lists(st.integers(-5, LARGEST), max_size=10), st.data())
def test_numbers_are_found_at_their_rows(values: np.ndarray, others: list[int], data: st.DataObject) -> None:
    column, rows = Packed.of(values), {value: row for row, value in enumerate(values.tolist())}
    near = data.draw(st.lists(st.sampled_from(values.tolist()), max_size=10)) if values.size else []
    wanted = [*others, *rows, *(value + more for value in near for more in (-1, 1) if value + more <= LARGEST)]
    expected = [rows.get(value, -1) for value in wanted]
    assert column.find_all(np.array(wanted, np.int64)).tolist() == expected
    assert [column.find(value) for value in wanted] == expected


def test_close_values_take_two_bytes_and_distant_ones_ten() -> None:
    near = Packed.of(np.arange(0, 1000 * BLOCK * 1000, 1000))
    assert near.nbytes == 1000 * BLOCK * 2 + 1000 * 8
    far = Packed.of(np.arange(1000 * BLOCK) * 1041)
    assert far.nbytes == near.nbytes + 1000 * BLOCK * 8
    edge = np.zeros(BLOCK, np.int64)
    for most, wide in ((0xFFFF, 0), (0x10000, BLOCK)):
        edge[5] = most
        assert Packed.of(edge).wide.size == wide


@pytest.mark.parametrize("limit", [None, 0])
def test_several_threads_pack_their_own_rows(limit: int | None) -> None:
    values = np.arange(40 * BLOCK)
    values[::7] *= 1 << 40
    packer = Packer(values.size, ArrayAllocator(limit, smallest=0))
    turns = threading.Barrier(4)

    def pack(first: int) -> None:
        turns.wait()
        for block in range(first, 40, 4):
            packer.put(block * BLOCK, values[block * BLOCK : (block + 1) * BLOCK])

    threads = [threading.Thread(target=pack, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert packer.packed(values.size).all().tolist() == values.tolist()
