"""The changes of INODE and INODE_DIR, listed without much ordinary memory for each change."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.section_delta import (
    DirectoryDelta,
    InodeDelta,
    SectionCuts,
    directory_cuts,
    inode_cuts,
    merged_directories,
    merged_inodes,
    runs,
)
from image_format import array_allocator
from image_format.array_allocator import ArrayAllocator
from image_format.index import DirectoryChanges, ImageIndex
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message, read_record
from tests.image_format.image_support import delimited
from tests.image_format.index_support import ROOT, directory, file, write

COUNT = 1 << 14
_RECORD = 7
"""Size of each record of `index_of`."""


def index_of(slots: int) -> Any:
    offsets = Packed.of(np.arange(slots) * _RECORD + 3)
    end = np.zeros(3 + slots * _RECORD, np.uint8)
    return mock.Mock(offsets=offsets, slot_count=slots, inode_buffer=end, records_start=3)


def cuts_of(dropped: np.ndarray, changed: np.ndarray, allocator: ArrayAllocator) -> SectionCuts:
    """Return the cuts for marks of removed and of changed inodes; the new record of slot n has n bytes."""
    slots = np.flatnonzero(changed & ~dropped)
    spans = np.stack([slots * 100, slots * 101], axis=1)
    delta = InodeDelta(slots, np.zeros(0, np.uint8), spans, runs(dropped, allocator))
    return inode_cuts(index_of(dropped.size), delta, allocator)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30), st.integers(1, 8))
def test_cuts_are_changed_records_and_runs_of_removed_records(marks: list[tuple[bool, bool]], piece: int) -> None:
    dropped, changed = (np.array([each[i] for each in marks], np.bool_) for i in range(2))
    expected: list[tuple[int, int, int, int]] = []
    for slot, (is_dropped, is_changed) in enumerate(marks):
        start, end = 3 + slot * _RECORD, 3 + (slot + 1) * _RECORD
        if is_dropped and slot and marks[slot - 1][0]:
            expected[-1] = (expected[-1][0], end, 0, 0)
        elif is_dropped:
            expected.append((start, end, 0, 0))
        elif is_changed:
            expected.append((start, end, slot * 100, slot * 101))
    with mock.patch.object(array_allocator, "_PIECE", piece):
        cuts = cuts_of(dropped, changed, ArrayAllocator())
    assert [tuple(row) for row in np.concatenate([cuts.places, cuts.spans], axis=1).tolist()] == expected


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=20), st.data())
def test_ranges_of_slots_are_merged_as_the_whole_section(marks: list[tuple[bool, bool]], data: st.DataObject) -> None:
    """Each task of Spark merges a range of slots."""
    dropped, changed = (np.array([each[i] for each in marks], np.bool_) for i in range(2))
    index = index_of(dropped.size)
    index.inode_buffer[:] = np.arange(index.inode_buffer.size) % 251
    slots = np.flatnonzero(changed & ~dropped)
    # the records of the changed inodes are not in the order of the slots
    starts = 3 * (slots.size - 1 - np.arange(slots.size))
    new = np.arange(3 * slots.size, dtype=np.uint8)
    delta = InodeDelta(slots, new, np.stack([starts, starts + 3], axis=1), runs(dropped, ArrayAllocator()))
    edges = sorted({0, dropped.size, *data.draw(st.lists(st.integers(0, dropped.size), max_size=3))})

    def merged(delta: InodeDelta, first: int, behind: int) -> bytes:
        return b"".join(map(bytes, merged_inodes(index, delta, first, behind)))

    whole = merged(delta, 0, dropped.size)
    assert b"".join(merged(delta.between(*each), *each) for each in pairwise(edges)) == whole
    old = [index.inode_buffer[3 + _RECORD * slot :][:_RECORD].tobytes() for slot in range(dropped.size)]
    for slot, start in zip(slots.tolist(), starts.tolist(), strict=True):
        old[slot] = new[start : start + 3].tobytes()
    assert whole == b"".join(record for record, gone in zip(old, dropped.tolist(), strict=True) if not gone)


def test_cuts_take_no_memory_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_allocator, "_PIECE", 1 << 8)
    allocator = ArrayAllocator(0, smallest=1 << 13)
    marks = np.random.default_rng(1).integers(0, 3, COUNT)
    slots, index = np.flatnonzero(marks == 1), index_of(COUNT)
    spans, dropped = np.zeros((slots.size, 2), np.int64), marks == 2
    # loads the kernel
    inode_cuts(index, InodeDelta(slots[:1], spans[:0], spans[:1], spans[:0]), allocator)
    tracemalloc.start()
    try:
        cuts = inode_cuts(index, InodeDelta(slots, spans[:0], spans, runs(dropped, allocator)), allocator)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(cuts.places) > COUNT // 2
    assert most < 2 * COUNT


# ---- INODE_DIR ----

DIRECTORIES = 1 << 11
FIRST = ROOT + 1


def image_of_directories(folder: Path) -> Path:
    """Write an image with directories of one file each; the files' ids follow the directories' ids."""
    inodes = [directory(FIRST + number, b"d%d" % number) for number in range(DIRECTORIES)]
    inodes += [file(FIRST + DIRECTORIES + number, b"f") for number in range(DIRECTORIES)]
    children = [(ROOT, list(range(FIRST, FIRST + DIRECTORIES)))]
    children += [(FIRST + number, [FIRST + DIRECTORIES + number]) for number in range(DIRECTORIES)]
    entries = delimited([pb.DirEntry(parent=parent, children=held) for parent, held in children])
    return write(folder / "image", [directory(ROOT, b""), *inodes], entries)


def added_names(numbers: np.ndarray, dropped: list[tuple[int, int]]) -> DirectoryDelta:
    """Return the delta that adds a name to the directories with these numbers, in this order."""
    size = numbers.size
    changes = DirectoryChanges(
        FIRST + numbers,
        np.frombuffer(b"new", np.uint8),
        np.tile(np.array([[0, 3]]), (size, 1)),
        np.arange(size) + FIRST + 4 * DIRECTORIES,
        np.arange(size + 1),
    )
    none = np.zeros(0, np.int64)
    return DirectoryDelta(changes, {}, none, {}, np.array(dropped, np.int64).reshape(-1, 2))


def test_entries_are_replaced_removed_and_added_in_order(tmp_path: Path) -> None:
    """Directories beyond the last directory of the image are new."""
    kept, new = np.arange(7, DIRECTORIES, 3), np.arange(3) + 2 * DIRECTORIES
    numbers = np.random.default_rng(1).permutation(np.concatenate([kept, new]))
    with ImageFile.open(image_of_directories(tmp_path), verify_md5=False) as image:
        index = ImageIndex(image)
        # slot 0 is the root
        delta = added_names(numbers, [(1, 4), (6, 7)])
        with mock.patch.object(array_allocator, "_PIECE", 5):
            content = b"".join(merged_directories(index, delta))
            middle = int(index.directory_spans(np.array([FIRST + DIRECTORIES // 2]))[0, 0])
            parts = [*merged_directories(index, delta, 0, middle), *merged_directories(index, delta, middle)]
    assert b"".join(parts) == content
    found, position = [], 0
    while position < len(content):
        record = read_record(memoryview(content), position)
        entry, position = parse_message(pb.DirEntry, record), record.end
        found.append((entry.parent - FIRST, len(entry.children)))
    gone = {0, 1, 2, 5}
    expected = [(number, 1 + (number in kept)) for number in range(DIRECTORIES) if number not in gone]
    assert found == [(-1, DIRECTORIES), *expected, *((number, 1) for number in new.tolist())]


def test_changed_directories_take_little_memory_beyond_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_allocator, "_PIECE", 1 << 6)
    allocator = ArrayAllocator(0, tmp_path, smallest=1 << 10)
    with ImageFile.open(image_of_directories(tmp_path), verify_md5=False) as image:
        index = ImageIndex(image, allocator=allocator)
        # loads the kernels
        directory_cuts(index, added_names(np.arange(1), []), allocator)
        delta = added_names(np.arange(DIRECTORIES), [])
        tracemalloc.start()
        try:
            found = directory_cuts(index, delta, allocator)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(found.cuts.places) == DIRECTORIES
        assert most < 50 * DIRECTORIES
