"""Allocation of large arrays: in memory, in files, and the state after a full disk."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.array_allocator import ArrayAllocator, GrowableArray
from image_format.errors import ImageStorageError
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays
from image_format.key_tables import BytesTable, IdTable
from image_format.memory_limit import MemoryLimit
from image_format.packed import Packed
from image_format.reader import ImageFile
from tests.image_format.image_support import bytes_in_files, recorded_images

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def descriptors() -> int:
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def everything_in_files(folder: Path | None = None) -> ArrayAllocator:
    return ArrayAllocator(0, folder, smallest=0)


@pytest.fixture(params=[None, 0, 5000])
def allocator(request: pytest.FixtureRequest) -> ArrayAllocator:
    return ArrayAllocator(request.param, smallest=0)


def test_arrays_are_zero_and_can_be_written(allocator: ArrayAllocator) -> None:
    for shape in (0, 7, (5, 2), (0, 2)):
        array = allocator.zeros(shape, np.int64)
        assert array.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert not array.any()
        array[...] = 7
        assert (array == 7).all()
        assert array.flags.c_contiguous
        assert array.flags.aligned


def test_arrays_beyond_the_limit_are_in_unnamed_files(tmp_path: Path) -> None:
    allocator = ArrayAllocator(1000, tmp_path, smallest=100)
    first, small = allocator.zeros(900, np.uint8), allocator.zeros(99, np.uint8)
    assert (allocator.in_memory, bytes_in_files(allocator)) == (900, 0)
    second = allocator.zeros(800, np.uint8)
    assert (allocator.in_memory, bytes_in_files(allocator)) == (900, 800)
    assert list(tmp_path.iterdir()) == []
    del first
    third = allocator.zeros(1000, np.uint8)
    assert (allocator.in_memory, bytes_in_files(allocator)) == (1000, 800)
    del second, third, small
    assert (allocator.in_memory, bytes_in_files(allocator)) == (0, 0)


@pytest.mark.parametrize("looked_at", [False, True])
def test_growing_an_array_keeps_the_used_part(allocator: ArrayAllocator, looked_at: bool) -> None:
    growing = GrowableArray(allocator, np.int64, 100)
    array = growing.array
    array[:] = np.arange(100)
    for used in (100, 200, 400):
        view = growing.array[:used]
        expected = view.copy()
        if not looked_at:
            del view, array
        growing.grow(used, 2 * used)
        array = growing.array
        assert array.size >= 2 * used
        assert (array[:used] == expected).all()
        assert not array[used:].any()
        array[used : 2 * used] = 5
        if looked_at:
            assert (view == expected).all()


def test_an_array_does_not_grow_beyond_its_given_maximum(allocator: ArrayAllocator) -> None:
    growing = GrowableArray(allocator, np.int64, 100)
    growing.grow(0, 110, most=150)
    assert growing.array.size == 150


def test_growing_moves_an_array_from_memory_to_a_file(tmp_path: Path) -> None:
    allocator = ArrayAllocator(1000, tmp_path, smallest=0)
    growing = GrowableArray(allocator, np.uint8, 600)
    growing.array[:] = 3
    growing.grow(600, 700)
    assert (allocator.in_memory, bytes_in_files(allocator)) == (0, 1200)
    assert (growing.array[:600] == 3).all()


def test_released_arrays_leave_no_open_descriptors() -> None:
    before = descriptors()
    allocator = everything_in_files()
    kept = [allocator.zeros(10, np.int64) for _ in range(5)]
    growing = GrowableArray(allocator, np.int64, 10)
    for _ in range(5):
        growing.grow(10, 20)
    assert descriptors() > before
    del kept, growing
    assert descriptors() == before


@pytest.mark.parametrize("refused", ["posix_fallocate", "dup"])
def test_a_full_disk_raises_a_clear_error_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    allocator = everything_in_files(tmp_path)
    growing = GrowableArray(allocator, np.uint8, 10)
    growing.array[:] = 9
    before = descriptors()

    def refuse(*_: object) -> None:
        raise FULL

    with monkeypatch.context() as patched:
        patched.setattr(os, refused, refuse)
        with pytest.raises(ImageStorageError, match=r"beyond the memory limit into .*No space left") as caught:
            allocator.zeros(10, np.int64)
    assert "checkpointer.memory.dir" in caught.value.hint
    del caught
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(ImageStorageError):
            growing.grow(10, 20)
    assert (growing.array[:10] == 9).all()
    assert descriptors() == before
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ImageStorageError, match="absent"):
        MemoryLimit(0, tmp_path / "absent").allocator().zeros(1 << 20, np.uint8)


@given(
    st.lists(st.tuples(st.integers(1, 1 << 62), st.integers(0, 1 << 40)), max_size=60, unique_by=lambda pair: pair[0])
)
def test_an_id_table_in_files_behaves_like_a_dictionary(pairs: list[tuple[int, int]]) -> None:
    table = IdTable(everything_in_files())
    table.reserve(2000)
    for inode_id, row in pairs:
        table.add(inode_id, row)
    assert {inode_id: table.get(inode_id) for inode_id, _ in pairs} == dict(pairs)
    assert table.get(1 << 62 | 1) is None


@given(
    st.lists(st.binary(max_size=300), max_size=150, unique=True),
    st.sampled_from([None, 0, 4096, 20000]),
    st.integers(0, 150),
)
def test_a_bytes_table_numbers_keys_in_order_in_memory_or_files(
    keys: list[bytes], limit: int | None, behind: int
) -> None:
    """The first `behind` keys are added one by one, and the other keys in one call."""
    table = BytesTable(ArrayAllocator(limit, smallest=0))
    numbers = list(range(len(keys)))
    assert [table.add(key, 1) for key in keys[:behind]] == numbers[:behind]
    table.add_all(keys[behind:], [1] * len(keys[behind:]))
    assert [table.find(key, 1) for key in keys] == numbers
    assert [table.find(key, 2) for key in keys] == [-1] * len(keys)
    assert [table.key(number) for number in numbers] == keys


def test_a_bytes_table_refuses_strings_that_are_too_long() -> None:
    table = BytesTable(ArrayAllocator(None))
    with pytest.raises(ValueError, match="too long"):
        table.add_all([b"x", b"x" * 65536], [0, 0])
    assert (table.count, table.used) == (0, 0)


@pytest.mark.parametrize("path", recorded_images()[:4], ids=str)
def test_an_index_in_files_equals_an_index_in_memory(path: Path) -> None:
    with ImageFile.open(path) as image:
        plain, spilled = ImageIndex(image).arrays, ImageIndex(image, allocator=everything_in_files()).arrays
        for name in plain.__slots__:
            for ours, theirs in zip(columns(plain, name), columns(spilled, name), strict=True):
                assert np.array_equal(ours, theirs)


def columns(arrays: IndexArrays, name: str) -> tuple[np.ndarray, ...]:
    value = getattr(arrays, name)
    return tuple(value) if isinstance(value, Packed) else (value,)
