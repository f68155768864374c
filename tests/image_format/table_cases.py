"""Arguments for the kernels over tables of names and numbers, packed columns, merged directories and paths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from image_format.kernels import changes, inode, packed, tables, tags
from image_format.packed import Packed
from tests.image_format.inode_cases import (
    DIRECTORIES,
    ENTRY_OFFSETS,
    IDS,
    LOST_CHILD,
    NAMES,
    NO_SLOTS,
    OFFSETS,
    PACKED_IDS,
    PACKED_OFFSETS,
    REVERSED,
    SECTION,
    SORTED_ENTRY,
    SPANS,
    UNSORTED_ENTRY,
    WRONG,
)
from tests.image_format.kernel_values import Arguments, numbers, octets, zeros

NEAR = np.arange(0, 260, 2, dtype=np.int64)
FAR = np.concatenate([NEAR, NEAR[:70] * 5000 + 1000])
COLUMNS = Packed.of(NEAR), Packed.of(FAR)
LONG = octets(b"part-00001.parquet", b"part-00002.parquet", b"part-00001.parquet")
LONG_SPANS = [(0, 18), (18, 18), (36, 18), (0, 8), (36, 8), (2, 0), (38, 7), (2, 7)]


def linked() -> tuple[np.ndarray, np.ndarray]:
    """Return (slots, links) that contain all names except the last, in directory 0."""
    slots, links = zeros(16), np.zeros(len(SPANS) - 1, tables.LINK_DTYPE)
    for number, (start, size) in enumerate(SPANS[:-1].tolist()):
        links[number] = (start, 0, number, 0, size, 0)
        tables.put_link(slots, tables.hash_name(0, NAMES, start, size), number)
    return slots, links


SLOTS, LINKS = linked()
PAIRS = np.zeros((8, 2), np.int64)
for key in (3, 5, 6, 1 << 40):
    tables.put_number(PAIRS, key, key % 100)
CHANGED_ROWS, CHANGED_LINKS = np.zeros(5, inode.INODE_DTYPE), np.zeros(6, tables.LINK_DTYPE)
for key, (slot, flags) in enumerate(
    [(3, inode.DIRTY), (-1, inode.DIRTY), (1, 0), (0, inode.DROPPED), (-1, inode.DIRTY)]
):
    CHANGED_ROWS[key]["id"], CHANGED_ROWS[key]["slot"], CHANGED_ROWS[key]["flags"] = 20 - key % 3, slot, flags
for key, (directory, changed) in enumerate([(4, 1), (0, 1), (3, 1), (4, 0), (0, 1), (4, 1)]):
    CHANGED_LINKS[key] = (7 * key, directory, key - 1, 0, key, changed)


def counted() -> np.ndarray:
    starts = zeros(5)
    changes.count_changed_names(CHANGED_LINKS, 6, CHANGED_ROWS, starts)
    return starts


TABLE_CASES: dict[str, list[Callable[[], Arguments]]] = {
    "changes.count_dirty": [lambda n=n: (CHANGED_ROWS, n) for n in (0, 5)],
    "changes.list_dirty": [
        lambda: (CHANGED_ROWS, 5, zeros(1), zeros(2)),
        lambda: (CHANGED_ROWS, 0, zeros(0), zeros(0)),
    ],
    "changes.count_changed_names": [lambda n=n: (CHANGED_LINKS, n, CHANGED_ROWS, zeros(5)) for n in (0, 6)],
    "changes.list_changed_names": [
        lambda: (CHANGED_LINKS, 6, CHANGED_ROWS, counted(), zeros(2), zeros(3), np.zeros((4, 2), np.int64), zeros(4))
    ],
    "tables._spread": [lambda n=n: (n,) for n in (0, 1, 1 << 62)],
    "tables.place_of_number": [lambda n=n: (PAIRS, n) for n in (0, 1, 9, 1 << 62)],
    "tables.find_numbers": [lambda: (np.array([[0, 0], [0, 0], [5, 7], [0, 0]]), numbers(5, 6))],
    "tables.find_number": [lambda n=n: (PAIRS, n) for n in range(8)],
    "tables.put_number": [lambda n=n: (PAIRS.copy(), n, 5) for n in (3, 4, 7)],
    "tables.move_numbers": [lambda: (PAIRS, np.zeros((16, 2), np.int64))],
    "tables.hash_bytes": [lambda s=s: (np.uint64(7), LONG, *s) for s in LONG_SPANS],
    "tables.same_bytes": [
        lambda s=s, t=t: (LONG, s[0], LONG, t[0], min(s[1], t[1])) for s in LONG_SPANS for t in LONG_SPANS
    ],
    "tables.hash_name": [lambda s=s, d=d: (d, NAMES, *s) for s in SPANS.tolist() for d in (0, 1, 1 << 30)],
    "tables.find_link": [
        lambda s=s, d=d: (SLOTS, LINKS, NAMES, tables.hash_name(d, NAMES, *s), d, NAMES, *s)
        for s in SPANS.tolist()
        for d in (0, 1)
    ],
    "tables.find_name": [
        lambda s=s, d=d: (SLOTS, LINKS, NAMES, d, NAMES[s[0] : s[0] + s[1]]) for s in SPANS.tolist() for d in (0, 1)
    ],
    "tables.put_link": [lambda: (SLOTS.copy(), tables.hash_name(5, NAMES, 0, 1), 5)],
    "tables.put_items": [
        lambda: (zeros(16), LINKS, NAMES, 0, LINKS.size),
        lambda: (zeros(16), LINKS, NAMES, 2, 3),
        lambda: (zeros(16), LINKS, NAMES, 1, 1),
    ],
    "tables.move_links": [lambda: (SLOTS, zeros(32))],
    "packed.packed_at": [lambda c=c, i=i: (c, i) for c in COLUMNS for i in (0, 63, 64, c.size - 1)],
    "packed._first_of": [lambda c=c: (c, c.size - 1 >> 6) for c in COLUMNS],
    "packed.find_packed": [
        *(
            lambda c=c, i=i, more=more: (c, c.item(i) + more)
            for c in COLUMNS
            for i in (0, 63, 64, c.size - 1)
            for more in (-1, 0, 1)
        ),
        lambda: (Packed.of(zeros(0)), 1),
    ],
    "packed.find_packed_all": [lambda c=c: (c, numbers(0, c.item(70), c.item(9), 1 << 50)) for c in COLUMNS],
    "packed.find_slot": [
        *(lambda i=i, slots=slots: (PACKED_IDS, slots, i) for i in range(8) for slots in (NO_SLOTS, REVERSED))
    ],
    "packed.is_in_slot": [
        lambda at=at, slots=slots: (PACKED_IDS, slots, 6, at) for at in (-1, 3, 4, 5) for slots in (NO_SLOTS, REVERSED)
    ],
    "packed.find_slot_near": [
        lambda i=i, slots=slots: (PACKED_IDS, slots, i, 2) for i in (3, 4, 5) for slots in (NO_SLOTS, REVERSED)
    ],
    "packed.pack_blocks": [
        lambda v=v: (
            v,
            np.zeros(v.size, np.uint16),
            zeros(-(-v.size // packed.BLOCK)),
            zeros(-(-v.size // packed.BLOCK) * packed.BLOCK),
        )
        for v in (zeros(0), NEAR, FAR, FAR[::-1].copy(), FAR[:65])
    ],
    "packed.unpack": [lambda c=c: (c, 60, zeros(20)) for c in COLUMNS],
    "packed.unpack_at": [lambda c=c: (c, numbers(70, 0, 64)) for c in COLUMNS],
    "index_update.shift_offsets": [
        lambda cut=cut, cuts=cuts, spans=spans: (
            numbers(2, 10, 15, 30, 44),
            np.array(cuts).reshape(-1, 2),
            np.array(spans).reshape(-1, 2),
            cut,
            3,
            np.zeros(5, np.bool_),
            zeros(5),
        )
        for cut, cuts, spans in (
            (0, (), ()),
            (0, ((2, 10), (15, 44)), ((0, 3), (3, 3))),
            (0, ((2, 10), (10, 15), (44, 50)), ((5, 5), (0, 30), (7, 8))),
            (1, ((0, 2), (10, 15)), ((0, 3), (3, 3))),
        )
    ],
    "merge.record_ends": [lambda: (DIRECTORIES, numbers(0, ENTRY_OFFSETS[1])), lambda: (WRONG, zeros(0))],
    "merge.splice": [
        lambda size=size, origin=origin: (
            SECTION[origin : origin + 30],
            origin,
            np.array([[3, 9], [9, 9], [20, 40]]),
            NAMES,
            np.array([[0, 4], [4, 8], [2, 2]]),
            numbers(0, origin + 1, 0),
            np.zeros(size, np.uint8),
        )
        for size in (5, 12, 1000)
        for origin in (0, 2)
    ],
    "merge.sort_names": [
        lambda: (NAMES, SPANS, 0, np.zeros((2, 5), np.int64)),
        lambda: (NAMES, SPANS, 3, np.zeros((2, 2), np.int64)),
        lambda: (NAMES, SPANS, 0, np.zeros((2, 0), np.int64)),
    ],
    "merge.measure_entries": [
        lambda: (DIRECTORIES, numbers(0, -1, ENTRY_OFFSETS[1]), numbers(0, 2, 2, 9)),
        lambda: (WRONG, zeros(1), numbers(0, 3)),
        lambda: (WRONG, zeros(0), zeros(1)),
    ],
    "merge._locate_children": [
        lambda c=c, slots=slots: (*(numbers(*c), len(c), PACKED_IDS, slots, PACKED_OFFSETS, SECTION, zeros(5)),)
        for c in ((), (2, 3, 4, 6), (3, 2), (2, 77))
        for slots in (NO_SLOTS, REVERSED)
    ],
    "merge._merge_children": [
        lambda c=c, order=order: (
            *(numbers(*c), OFFSETS[np.searchsorted(IDS, c)], len(c), SECTION),
            *(NAMES, SPANS, numbers(0, 40, 41, 42, 43), numbers(*order), zeros(9)),
        )
        for c in ((), (2, 3, 4, 6), (3, 2), (3, 3))
        for order in ((), (4, 0, 1, 2, 3), (3,))
    ],
    "merge._put_entry": [
        lambda c=c: (np.zeros(99, np.uint8), 3, 1 << 20, numbers(*c), len(c)) for c in ((), (2, 300, 1 << 40))
    ],
    "merge.merge_directories": [
        lambda done=done, given=given, section=section, starts=starts, slots=slots: (
            *(numbers(1, 6, 9), section, numbers(*starts), numbers(2, 0, 1)),
            *(NAMES, SPANS, numbers(0, 40, 41, 42, 43), numbers(0, 3, 4, 5)),
            *(PACKED_IDS, slots, PACKED_OFFSETS, SECTION, done, numbers(*given)),
            *(np.zeros((3, 9), np.int64), np.zeros((2, 3), np.int64), np.zeros(300, np.uint8)),
            np.zeros((3, 2), np.int64),
        )
        for done, given, section, starts, slots in (
            (0, (), SORTED_ENTRY, (0, -1, -1), NO_SLOTS),
            (1, (), SORTED_ENTRY, (0, -1, -1), REVERSED),
            # an unsorted entry, without and with the order of its children
            (0, (), UNSORTED_ENTRY, (0, -1, -1), NO_SLOTS),
            (1, (2, 3, 4, 6), UNSORTED_ENTRY, (0, -1, -1), NO_SLOTS),
            (0, (), DIRECTORIES, (0, ENTRY_OFFSETS[1], -1), NO_SLOTS),
            # a child that is not an inode, and a damaged entry
            (0, (), LOST_CHILD, (0, -1, -1), NO_SLOTS),
            (0, (), WRONG, (0, -1, -1), NO_SLOTS),
        )
    ],
    "directory_tree.place_children": [
        *(
            lambda field=field, referred=referred: (
                *(DIRECTORIES, numbers(7, 8), ENTRY_OFFSETS, field),
                *(PACKED_IDS, NO_SLOTS, referred, zeros(5)),
            )
            for field, referred in (
                (tags.DirEntry.children, zeros(0)),
                (tags.DirEntry.refChildren, np.full(501, 4)),
                (tags.DirEntry.refChildren, numbers(2, 3)),
            )
        ),
        lambda: (WRONG, numbers(7), zeros(1), tags.DirEntry.children, PACKED_IDS, NO_SLOTS, zeros(0), zeros(5)),
        lambda: (
            *(DIRECTORIES[:-1], numbers(7, 8), ENTRY_OFFSETS, tags.DirEntry.refChildren),
            *(PACKED_IDS, NO_SLOTS, np.full(501, 4), zeros(5)),
        ),
    ],
    "directory_tree.directory_lengths": [
        lambda parents=parents, root=root: (numbers(*parents), numbers(0, 1, 2, 3), root, zeros(4), zeros(4))
        for parents, root in (((-1, 0, 1, 1), 0), ((-1, 3, 1, 2), 0), ((-1, -1, 1, 0), 0), ((-1, 0, 1, 1), -1))
    ],
    "directory_tree.add_upwards": [
        lambda: (numbers(-1, 0, 1), numbers(0, 1, 2), np.arange(6).reshape(3, 2)),
        lambda: (numbers(1, -1, -1), numbers(1, 2, 0), np.arange(6).reshape(3, 2)),
    ],
    "directory_tree.fill_directory_paths": [
        lambda: (
            *(NAMES, numbers(-1, 0, 1, -1), numbers(0, 0, 1, 4), numbers(0, 1, 2, 1)),
            *(0, numbers(0, 1, 2, 3), numbers(0, 0, 2, 7, 7), np.zeros(7, np.uint8)),
        )
    ],
    "directory_tree.fill_paths": [
        lambda: (
            *(NAMES, numbers(-1, 1, 2), numbers(0, 0, 2, 7), octets(b"/a/a/ab")),
            *(numbers(0, 1, 3), numbers(0, 2, 1), zeros(4), np.zeros(13, np.uint8)),
        )
    ],
    "directory_tree.fill_names": [lambda: (NAMES, numbers(0, 1, 3), numbers(0, 2, 1), zeros(4), np.zeros(3, np.uint8))],
}
