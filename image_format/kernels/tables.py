"""Hash tables that kernels and Python share: rows by inode id, and links by directory and name."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.wire import fixed64, octet

UNKNOWN = -2
"""Result for a key without a value; `NO_ROW`, -1, is a value."""

LINK_DTYPE = np.dtype(
    [
        ("name_offset", "i8"),
        ("directory", "i4"),
        ("row", "i4"),  # row of the child; -1 if the directory has no child with the name
        ("next", "i4"),  # next link of the same directory, plus one; 0 at the end
        ("name_length", "u2"),
        ("changed", "u1"),  # differs from the base image
    ],
    align=True,
)


@lean_kernel
def _spread(number):
    """Mix all bits of an int64, so that any of these bits can select a place."""
    mixed = np.uint64(number)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


# ---- numbers -------------------------------------------------------------------------------------------------


@lean_kernel
def place_of_number(slots, key):
    """Return the first place to search for a key; consecutive keys, as of new inodes, often share cache lines."""
    return (_spread(key >> 2) + np.uint64(key)) & np.uint64(slots.shape[0] - 1)


@lean_kernel
def find_number(slots, key):
    """Return the value of a positive `key` among pairs of key and value, or `UNKNOWN`.

    Args:
        slots: array of shape (n, 2), where n is a power of two; key 0 marks a free place, and at least one place is
            free.
    """
    mask = np.uint64(slots.shape[0] - 1)
    at = place_of_number(slots, key)
    while slots[at, 0] != 0:
        if slots[at, 0] == key:
            return slots[at, 1]
        at = (at + np.uint64(1)) & mask
    return np.int64(UNKNOWN)


@kernel
def find_numbers(slots, keys):
    """Return the result of `find_number` for each key."""
    found = np.empty(keys.size, np.int64)
    for i in range(keys.size):
        found[i] = find_number(slots, keys[i])
    return found


@lean_kernel
def put_number(slots, key, value):
    """Set the value of a positive `key`; the caller ensures that free places remain."""
    mask = np.uint64(slots.shape[0] - 1)
    at = place_of_number(slots, key)
    while slots[at, 0] != 0 and slots[at, 0] != key:
        at = (at + np.uint64(1)) & mask
    slots[at, 0] = key
    slots[at, 1] = value


@lean_kernel
def move_numbers(old, new):
    """Copy all pairs of `old` to the empty table `new`."""
    for i in range(old.shape[0]):
        if old[i, 0] != 0:
            put_number(new, old[i, 0], old[i, 1])


# ---- links ---------------------------------------------------------------------------------------------------


@lean_kernel
def hash_bytes(seed, buf, start, size):
    """Return a 64-bit hash of `seed` (a uint64) and a range of bytes."""
    mixed = seed
    at = start
    behind = start + size
    while behind - at >= 8:
        mixed = (mixed ^ fixed64(buf, at)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
        at += 8
    last = np.uint64(size)
    if size >= 8:
        # hash some bytes twice, which is faster than hashing byte by byte
        last = fixed64(buf, behind - 8)
    else:
        while at < behind:
            last = last << np.uint64(8) | np.uint64(octet(buf, at))
            at += 1
    mixed = (mixed ^ last) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    # A multiplication propagates a change only to higher bits. Without this step, the last bytes would affect few bits.
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(32))


@lean_kernel
def hash_name(directory, names, start, size):
    """Return a 31-bit hash of a directory's row and a name, in the upper half of a non-negative int64."""
    mixed = hash_bytes(np.uint64(_spread(directory + 1)), names, start, size)
    return np.int64((np.uint64(mixed) & np.uint64(0x7FFFFFFF)) << np.uint64(32))


@lean_kernel
def same_bytes(a, a_start, b, b_start, size):
    """Return whether two ranges of `size` bytes are equal."""
    i = 0
    while size - i >= 8:
        if fixed64(a, a_start + i) != fixed64(b, b_start + i):
            return False
        i += 8
    if size >= 8:
        return fixed64(a, a_start + size - 8) == fixed64(b, b_start + size - 8)
    while i < size:
        if octet(a, a_start + i) != octet(b, b_start + i):
            return False
        i += 1
    return True


@lean_kernel
def find_link(slots, links, arena, hashed, directory, names, start, size):
    """Return the number of the link with a directory's row and a name, or -1.

    Args:
        slots: each place has `hash_name` in the upper half and the number of a link plus one in the lower half, or 0 if
            it is free. The size is a power of two.
        links, arena: the links and the bytes of their names.
        hashed: `hash_name` of the directory and the name.
        names, start, size: the name.
    """
    mask = slots.size - 1
    at = (hashed >> 32) & mask
    while slots[at] != 0:
        slot = slots[at]
        if (slot >> 32) << 32 == hashed:
            number = (slot & 0xFFFFFFFF) - 1
            link = links[number]
            if (
                link["directory"] == directory
                and link["name_length"] == size
                and same_bytes(arena, link["name_offset"], names, start, size)
            ):
                return number
        at = (at + 1) & mask
    return np.int64(-1)


@lean_kernel
def find_name(slots, links, arena, directory, name):
    """Return the result of `find_link` for an array that contains only the name."""
    hashed = hash_name(directory, name, 0, name.size)
    return find_link(slots, links, arena, hashed, directory, name, 0, name.size)


@lean_kernel
def put_link(slots, hashed, number):
    """Add a link that the table does not contain yet; the caller ensures that free places remain."""
    mask = slots.size - 1
    at = (hashed >> 32) & mask
    while slots[at] != 0:
        at = (at + 1) & mask
    slots[at] = hashed | (number + 1)


@lean_kernel
def put_items(slots, items, arena, first, behind):
    """Add the links from number `first` to `behind` - 1, which the table does not contain yet."""
    for number in range(first, behind):
        item = items[number]
        hashed = hash_name(item["directory"], arena, item["name_offset"], np.int64(item["name_length"]))
        put_link(slots, hashed, number)


@lean_kernel
def move_links(old, new):
    """Copy all links of `old` to the empty table `new`."""
    for i in range(old.size):
        if old[i] != 0:
            put_link(new, (old[i] >> 32) << 32, (old[i] & 0xFFFFFFFF) - 1)
