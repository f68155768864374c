"""Kernels that index the records of INODE and INODE_DIR, and find names in them."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.packed import find_packed, find_slot, packed_at
from image_format.kernels.prefetch import prefetch
from image_format.kernels.readers import read_inode
from image_format.kernels.tags import DirEntry, INode, INodeDirectory
from image_format.kernels.wire import DELIMITED, fixed64, next_field, octet, read_varint, record_span

MISSING = -1
"""A look-up found nothing."""
DAMAGED = -2
"""A look-up found damaged bytes or an id without a record."""

_MAX_HEAD = 16
"""Maximum number of bytes in a record before its name, including all lengths and tags."""
_PIECE = 4096
_AHEAD = 2048
"""Number of bytes between the position of a walk and the cache line that it prefetches."""
_CHAIN = 8
"""Number of consecutive valid records that prove a record boundary."""


@lean_kernel
def _has_type_quotas(buf, pos, end):
    """Return whether the INodeDirectory in `buf[pos:end]` has typeQuotas."""
    while 0 <= pos < end:
        tag, _, _, pos = next_field(buf, pos, end)
        if tag == INodeDirectory.typeQuotas:
            return True
    return False


@lean_kernel
def _plain_file(buf, pos, size):
    """Return (inode id, end) of a file's record in Hadoop's most frequent form, or (0, `pos`) for any other record.

    This form consists of type, id below 2^35, name below 128 bytes and file, in this order, and takes less than 16 KB.
    A damaged record does not have this form.
    """
    if size - pos < _MAX_HEAD:
        return np.int64(0), pos
    length = np.int64(octet(buf, pos))
    at = pos + 1
    if length >= 0x80:
        high = np.int64(octet(buf, at))
        length = (length & 0x7F) | high << 7
        at += 1
        if high >= 0x80:
            return np.int64(0), pos
    end = at + length
    if (
        end > size
        or length < 6
        or octet(buf, at) != INode.type
        or octet(buf, at + 1) >= 0x80
        or octet(buf, at + 2) != INode.id
    ):
        return np.int64(0), pos
    byte = np.int64(octet(buf, at + 3))
    at += 4
    inode_id = byte & 0x7F
    shift = 7
    while byte >= 0x80 and shift < 35:
        byte = np.int64(octet(buf, at))
        inode_id |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    name = np.int64(octet(buf, at + 1))
    at += 2
    if byte >= 0x80 or octet(buf, at - 2) != INode.name or name >= 0x80 or at + name + 3 > end:
        return np.int64(0), pos
    at += name
    body = np.int64(octet(buf, at + 1))
    if octet(buf, at) != INode.file:
        return np.int64(0), pos
    at += 2
    if body >= 0x80:
        high = np.int64(octet(buf, at))
        body = (body & 0x7F) | high << 7
        at += 1
        if high >= 0x80:
            return np.int64(0), pos
    if at + body != end or inode_id == 0:
        return np.int64(0), pos
    return inode_id, end


@lean_kernel
def find_record(buf, pos, stop):
    """Return the first position from `pos` at which an INode record seems to begin, or `stop`.

    The records that follow must also look like INode records, because a name may contain the same bytes as one record.
    """
    while pos < stop:
        at = pos
        left = _CHAIN
        while left > 0 and 0 <= at < buf.size:
            at = _after_inode(buf, at)
            left -= 1
        if at >= 0:
            return pos
        pos += 1
    return stop


@lean_kernel
def _after_inode(buf, pos):
    """Return the position after a record that begins with type, id and name as an INode does, otherwise -1."""
    pos, end = record_span(buf, pos)
    if end - pos < 6 or octet(buf, pos) != INode.type or octet(buf, pos + 1) > 3 or octet(buf, pos + 2) != INode.id:
        return np.int64(-1)
    inode_id, pos = read_varint(buf, pos + 3, end)
    if pos < 0 or inode_id <= 0 or pos == end or octet(buf, pos) != INode.name:
        return np.int64(-1)
    _, _, _, pos = next_field(buf, pos, end)
    return end if pos >= 0 else np.int64(-1)


@lean_kernel
def scan_inodes(buf, pos, stop, ids, offsets, count, quota_slots, quota_count):
    """Index the delimited INode records of `buf` that begin at or after `pos` and before `stop`.

    Fill `ids` and `offsets` from row `count`, and `quota_slots`, the rows of directories with storage type quotas,
    from `quota_count`.

    Returns:
        (rows filled, quota slots filled, position, damaged): the position is after the last record, where an array
        was full, or where the damaged record starts.
    """
    size = buf.size
    while pos < stop:
        if count == ids.size or quota_count == quota_slots.size:
            return count, quota_count, pos, False
        start = pos
        prefetch(buf, pos + _AHEAD)
        inode_id, pos = _plain_file(buf, pos, size)
        if inode_id > 0:
            ids[count] = inode_id
            offsets[count] = start
            count += 1
            continue
        pos, end = record_span(buf, pos)
        typed = False
        limited = False
        while 0 <= pos < end:
            tag, value, body, pos = next_field(buf, pos, end)
            if tag == INode.id:
                inode_id = value
            typed = typed or tag == INode.type
            if tag == INode.directory and _has_type_quotas(buf, body, pos):
                limited = True
        if pos < 0 or not typed or inode_id <= 0:
            return count, quota_count, start, True
        if limited:
            quota_slots[quota_count] = count
            quota_count += 1
        ids[count] = inode_id
        offsets[count] = start
        count += 1
    return count, quota_count, pos, False


@lean_kernel
def scan_directories(buf, pos, ids, offsets, count):
    """Index the DirEntry records of INODE_DIR by parent, as `scan_inodes` indexes inodes.

    Returns:
        (rows filled, number of plain children in these entries, position, damaged).
    """
    size = buf.size
    children = 0
    while pos < size:
        if count == ids.size:
            return count, children, pos, False
        start = pos
        prefetch(buf, pos + _AHEAD)
        pos, end = record_span(buf, pos)
        parent = np.int64(0)
        while 0 <= pos < end:
            tag, value, body, pos = next_field(buf, pos, end)
            if tag == DirEntry.parent:
                parent = value
            elif tag == DirEntry.children_unpacked:
                children += 1
            elif tag == DirEntry.children:
                for i in range(body, pos):
                    children += octet(buf, i) < 0x80
        if pos < 0 or parent <= 0:
            return count, children, start, True
        ids[count] = parent
        offsets[count] = start
        count += 1
    return count, children, pos, False


@lean_kernel
def strictly_increasing(ids):
    """Return whether each id is greater than the previous id."""
    size = ids.size
    start = 1
    while start < size:
        # the compiler can vectorise the loop over a complete piece
        stop = min(size, start + _PIECE)
        falls = False
        for i in range(start, stop):
            falls |= ids[np.uint64(i)] <= ids[np.uint64(i - 1)]
        if falls:
            return False
        start = stop
    return True


@lean_kernel
def find_id(ids, inode_id):
    """Return the index of `inode_id` in the increasing array `ids`, or `MISSING`."""
    if ids.size == 0 or inode_id < ids[0] or inode_id > ids[-1]:
        return MISSING
    # Distinct ascending integers limit the index from both sides; a dense image leaves only one candidate.
    low = max(0, ids.size - 1 - (ids[-1] - inode_id))
    high = min(ids.size - 1, inode_id - ids[0])
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < inode_id:
            low = middle + 1
        else:
            high = middle
    return low if ids[low] == inode_id else MISSING


@lean_kernel
def place_slots(buf, offsets, ids, slots):
    """Fill `slots` with the record number of each of the increasing, packed `ids`.

    Args:
        buf, offsets: a section that `scan_inodes` has walked, and the packed offsets of its records.
    """
    for slot in range(offsets.low.size):
        pos, end = record_span(buf, packed_at(offsets, slot))
        _, inode_id, _ = read_inode(buf, pos, end)
        slots[find_packed(ids, inode_id)] = slot


@kernel
def find_ids(ids, wanted):
    """Return the result of `find_id` for each id of `wanted`."""
    found = np.empty(wanted.size, np.int64)
    for i in range(wanted.size):
        found[i] = find_id(ids, wanted[i])
    return found


@lean_kernel
def count_children(buf, offset):
    """Return the numbers (children, refChildren) of the DirEntry at `offset`, or (-1, -1) if it is damaged."""
    children = 0
    references = 0
    pos, end = record_span(buf, offset)
    while 0 <= pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        found = 0
        for i in range(start, pos):
            found += octet(buf, i) < 0x80
        if tag | DELIMITED == DirEntry.children:
            children += found
        elif tag | DELIMITED == DirEntry.refChildren:
            references += found
    return (children, references) if pos >= 0 else (-1, -1)


@lean_kernel
def collect_children(buf, offset, children, references):
    """Fill the two arrays, sized by `count_children`; return (number of unknown fields, damaged)."""
    pos, end = record_span(buf, offset)
    child = 0
    reference = 0
    unknown = 0
    while 0 <= pos < end:
        tag, _, at, pos = next_field(buf, pos, end)
        field = tag | DELIMITED
        if field != DirEntry.children and field != DirEntry.refChildren:
            unknown += tag != DirEntry.parent
            continue
        while at < pos:
            value, at = read_varint(buf, at, pos)
            if at < 0:
                return unknown, True
            if field == DirEntry.children:
                children[child] = value
                child += 1
            else:
                references[reference] = value
                reference += 1
    return unknown, pos < 0


@lean_kernel
def name_span(buf, offset):
    """Return (start, length) of INode.name in the delimited record at `offset`."""
    start, size = _plain_name(buf, offset)
    return (start, size) if size >= 0 else _any_name(buf, offset)


@lean_kernel
def _plain_name(buf, offset):
    """Return the result of `name_span` for a record in Hadoop's most frequent form; size -1 for any other record.

    This form consists of type, id, name and one more field.
    """
    none = np.int64(0), np.int64(-1)
    if buf.size - offset < _MAX_HEAD:
        return none
    length = np.int64(octet(buf, offset))
    pos = offset + 1
    if length >= 0x80:
        high = np.int64(octet(buf, pos))
        length = (length & 0x7F) | high << 7
        pos += 1
        if high >= 0x80:
            return none
    end = pos + length
    if octet(buf, pos) != INode.type or octet(buf, pos + 1) >= 0x80 or octet(buf, pos + 2) != INode.id:
        return none
    pos += 3
    last = pos + 4
    while pos < last and octet(buf, pos) >= 0x80:
        pos += 1
    size = np.int64(octet(buf, pos + 2))
    start = np.int64(pos + 3)
    if octet(buf, pos) >= 0x80 or octet(buf, pos + 1) != INode.name or size >= 0x80:
        return none
    pos = start + size
    if pos + 3 > end or end > buf.size:
        return none
    body = np.int64(octet(buf, pos + 1))
    tag = octet(buf, pos)
    pos += 2
    if body >= 0x80:
        high = np.int64(octet(buf, pos))
        body = (body & 0x7F) | high << 7
        pos += 1
        if high >= 0x80:
            return none
    if (tag != INode.file and tag != INode.directory) or pos + body != end:
        return none
    return start, size


@lean_kernel
def _any_name(buf, offset):
    """Return the result of `name_span` for any record."""
    pos, end = record_span(buf, offset)
    start = pos
    size = np.int64(0)
    while 0 <= pos < end:
        tag, value, at, pos = next_field(buf, pos, end)
        if tag == INode.name and pos >= 0:
            start = at
            size = value
    return start, size


@lean_kernel
def compare_names(a, a_start, a_size, b, b_start, b_size):
    """Compare two names by signed bytes, as Hadoop sorts them; return a negative number, zero or a positive number."""
    size = min(a_size, b_size)
    i = 0
    # neighbouring names often share a prefix
    while i + 8 <= size and fixed64(a, a_start + i) == fixed64(b, b_start + i):
        i += 8
    while i < size:
        x = octet(a, a_start + i)
        y = octet(b, b_start + i)
        if x != y:
            return np.int64(x ^ np.uint8(0x80)) - np.int64(y ^ np.uint8(0x80))
        i += 1
    return a_size - b_size


@lean_kernel
def locate_name(children, ids, slots, offsets, buf, names, start, size):
    """Return (lower bound, found) of one name among `children`; the bound is `DAMAGED` if a child has no record."""
    low = 0
    high = children.size
    hit = False
    while low < high:
        middle = (low + high) >> 1
        slot = find_slot(ids, slots, children[middle])
        if slot < 0:
            return DAMAGED, False
        child_start, child_size = name_span(buf, packed_at(offsets, slot))
        order = compare_names(buf, child_start, child_size, names, start, size)
        if order < 0:
            low = middle + 1
        else:
            high = middle
            hit = hit or order == 0
    return low, hit


@lean_kernel
def locate_names(children, ids, slots, offsets, buf, names, starts, sizes, positions, found):
    """Search for each name among `children`, which are sorted by name.

    Args:
        children: inode ids of the directory.
        ids, slots, offsets, buf: columns of `IndexArrays`, and the INODE section.
        names, starts, sizes: the wanted names, as spans of one byte array.
        positions, found: results: the lower bound, and whether the child at this position has the same name.

    Returns:
        False if a child has no record.
    """
    for k in range(starts.size):
        position, hit = locate_name(children, ids, slots, offsets, buf, names, starts[k], sizes[k])
        if position < 0:
            return False
        positions[k] = position
        found[k] = hit
    return True


@lean_kernel
def children_in_order(children, ids, slots, offsets, buf):
    """Return the index of the first child that is out of name order, or `MISSING` or `DAMAGED`."""
    last_start = 0
    last_size = 0
    for k in range(children.size):
        slot = find_slot(ids, slots, children[k])
        if slot < 0:
            return DAMAGED
        start, size = name_span(buf, packed_at(offsets, slot))
        if k > 0 and compare_names(buf, last_start, last_size, buf, start, size) >= 0:
            return k
        last_start = start
        last_size = size
    return MISSING
