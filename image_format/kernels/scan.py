"""Kernels that find where the records of INODE and INODE_DIR lie, and look names up in them."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.packed import find_packed, find_slot, packed_at
from image_format.kernels.prefetch import prefetch
from image_format.kernels.tags import DirEntry, INode, INodeDirectory
from image_format.kernels.wire import DELIMITED, WIRE_TYPE, fixed64, octet, read_varint, skip_field

MISSING = -1
"""A look-up found nothing."""
DAMAGED = -2
"""A look-up met bytes that are no record, or an id that has no record."""

_LONGEST_HEAD = 16
"""Bytes that a record may have before its name, all lengths and tags included."""
_PIECE = 4096
_AHEAD = 2048
"""Bytes that a walk has asked for before it reads them."""
_CHAIN = 8
"""Records in a row that are no chance."""


@lean_kernel
def _has_type_quotas(buf, pos):
    """Whether the INodeDirectory whose size stands at `pos` has typeQuotas."""
    length, pos = read_varint(buf, pos, buf.size)
    end = pos + length
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        if tag == INodeDirectory.typeQuotas:
            return True
        if pos >= 0:
            pos = skip_field(buf, pos, end, tag)
    return False


@lean_kernel
def _plain_file(buf, pos, size):
    """(inode id, end) of a file's record that is as Hadoop writes most; (0, `pos`) for all others, damaged or not.

    These are type, id below 2^35, name below 128 bytes and file, in this order and alone, in less than 16 KB.
    """
    if size - pos < _LONGEST_HEAD:
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
    """Where the first INode record from `pos` on seems to begin, `stop` where none does before.

    Some records that follow it up to the end of `buf` look like some as well; these are bytes that a name may have too.
    """
    while pos < stop:
        at = pos
        left = _CHAIN
        while left > 0 and 0 <= at < buf.size:
            at = _behind_inode(buf, at)
            left -= 1
        if at >= 0:
            return pos
        pos += 1
    return stop


@lean_kernel
def _behind_inode(buf, pos):
    """Position behind what begins as an INode record does: type, id and name; -1 for anything else."""
    length, pos = read_varint(buf, pos, buf.size)
    if pos < 0 or length < 6 or length > buf.size - pos:
        return np.int64(-1)
    end = pos + length
    if octet(buf, pos) != INode.type or octet(buf, pos + 1) > 3 or octet(buf, pos + 2) != INode.id:
        return np.int64(-1)
    inode_id, pos = read_varint(buf, pos + 3, end)
    if pos < 0 or inode_id <= 0 or pos == end or octet(buf, pos) != INode.name:
        return np.int64(-1)
    return end if skip_field(buf, pos + 1, end, INode.name) >= 0 else np.int64(-1)


@lean_kernel
def scan_inodes(buf, pos, stop, ids, offsets, count, quota_slots, quota_count):
    """Walk the delimited INode records of `buf` that begin before `stop`, from the one at `pos` on.

    Fills `ids` and `offsets` from row `count` on; `quota_slots` takes the rows of directories with storage type quotas,
    from `quota_count` on.

    Returns (rows filled, quota slots filled, position, damaged): position is behind the last record, where an array
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
        length, pos = read_varint(buf, pos, size)
        if pos < 0 or length <= 0 or length > size - pos:
            return count, quota_count, start, True
        end = pos + length
        typed = False
        limited = False
        while pos < end:
            tag, pos = read_varint(buf, pos, end)
            if pos < 0:
                return count, quota_count, start, True
            if tag == INode.id:
                inode_id, pos = read_varint(buf, pos, end)
            else:
                typed = typed or tag == INode.type
                body = pos
                pos = skip_field(buf, pos, end, tag)
                if tag == INode.directory and pos >= 0 and _has_type_quotas(buf, body):
                    limited = True
            if pos < 0:
                return count, quota_count, start, True
        if not typed or inode_id <= 0:
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
    """`scan_inodes` for the DirEntry records of INODE_DIR; ids are the parents'.

    Returns (rows filled, plain children in these entries, position, damaged).
    """
    size = buf.size
    children = 0
    while pos < size:
        if count == ids.size:
            return count, children, pos, False
        start = pos
        prefetch(buf, pos + _AHEAD)
        length, pos = read_varint(buf, pos, size)
        if pos < 0 or length <= 0 or length > size - pos:
            return count, children, start, True
        end = pos + length
        parent = 0
        while pos < end:
            tag, pos = read_varint(buf, pos, end)
            if pos < 0:
                return count, children, start, True
            if tag == DirEntry.parent:
                parent, pos = read_varint(buf, pos, end)
            else:
                body = pos
                pos = skip_field(buf, pos, end, tag)
                if tag == DirEntry.children_unpacked:
                    children += 1
                elif tag == DirEntry.children and pos >= 0:
                    _, body = read_varint(buf, body, end)
                    for i in range(body, pos):
                        children += octet(buf, i) < 0x80
            if pos < 0:
                return count, children, start, True
        if parent <= 0:
            return count, children, start, True
        ids[count] = parent
        offsets[count] = start
        count += 1
    return count, children, pos, False


@lean_kernel
def strictly_increasing(ids):
    """Whether each id is greater than the one before it."""
    size = ids.size
    start = 1
    while start < size:
        # whole pieces, which the compiler can take several at a time
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
    """Index of `inode_id` in the increasing array `ids`, or `MISSING`."""
    if ids.size == 0 or inode_id < ids[0] or inode_id > ids[-1]:
        return MISSING
    # Distinct ascending integers bound the place from both sides; in a dense image that leaves one candidate.
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
    """Fill `slots` with the number of the record of each of the increasing, packed `ids`.

    Args:
        buf, offsets: a section that `scan_inodes` walked, and where its records lie, packed.
    """
    for slot in range(offsets.low.size):
        length, pos = read_varint(buf, packed_at(offsets, slot), buf.size)
        end = pos + length
        inode_id = 0
        while pos < end:
            tag, pos = read_varint(buf, pos, end)
            if tag == INode.id:
                inode_id, pos = read_varint(buf, pos, end)
            else:
                pos = skip_field(buf, pos, end, tag)
        slots[find_packed(ids, inode_id)] = slot


@kernel
def find_ids(ids, wanted):
    """`find_id` for each of `wanted`."""
    found = np.empty(wanted.size, np.int64)
    for i in range(wanted.size):
        found[i] = find_id(ids, wanted[i])
    return found


@lean_kernel
def count_children(buf, offset):
    """(children, refChildren) of the DirEntry at `offset`, (-1, -1) where its bytes are damaged."""
    length, pos = read_varint(buf, offset, buf.size)
    end = pos + length
    children = 0
    references = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if pos < 0:
            return -1, -1
        start = pos
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            return -1, -1
        found = 0
        if tag & WIRE_TYPE == DELIMITED:
            _, start = read_varint(buf, start, end)
            for i in range(start, pos):
                found += octet(buf, i) < 0x80
        else:
            found = 1
        if tag | DELIMITED == DirEntry.children:
            children += found
        elif tag | DELIMITED == DirEntry.refChildren:
            references += found
    return children, references


@lean_kernel
def collect_children(buf, offset, children, references):
    """Fill the two arrays, sized by `count_children`; (fields that are unknown, damaged)."""
    length, pos = read_varint(buf, offset, buf.size)
    end = pos + length
    n = 0
    r = 0
    unknown = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        stop = skip_field(buf, pos, end, tag)
        if stop < 0:
            return unknown, True
        packed = tag | DELIMITED
        if packed == DirEntry.children or packed == DirEntry.refChildren:
            if tag == packed:
                _, pos = read_varint(buf, pos, end)
            while pos < stop:
                value, pos = read_varint(buf, pos, stop)
                if pos < 0:
                    return unknown, True
                if packed == DirEntry.children:
                    children[n] = value
                    n += 1
                else:
                    references[r] = value
                    r += 1
        elif tag != DirEntry.parent:
            unknown += 1
        pos = stop
    return unknown, False


@lean_kernel
def name_span(buf, offset):
    """(start, length) of INode.name in the delimited record at `offset`."""
    start, size = _plain_name(buf, offset)
    return (start, size) if size >= 0 else _any_name(buf, offset)


@lean_kernel
def _plain_name(buf, offset):
    """`name_span` of a record as Hadoop writes most: type, id, name and one field more; size -1 for all others."""
    none = np.int64(0), np.int64(-1)
    if buf.size - offset < _LONGEST_HEAD:
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
    """`name_span` of any record."""
    length, pos = read_varint(buf, offset, buf.size)
    end = pos + length
    start = pos
    size = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if tag == INode.name:
            size, start = read_varint(buf, pos, end)
        pos = skip_field(buf, pos, end, tag)
        if pos < 0:
            break
    return start, size


@lean_kernel
def compare_names(a, a_start, a_size, b, b_start, b_size):
    """Order of two names as Hadoop sorts them, byte by byte as signed values: negative, zero or positive."""
    size = min(a_size, b_size)
    i = 0
    # neighbours begin alike
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
    """(lower bound, whether it is there) of one name among `children`; the bound is `DAMAGED` for a lost child."""
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
    """Binary search of each name among `children`, which are sorted by name.

    Args:
        children: inode ids of the directory.
        ids, slots, offsets: of `IndexArrays`; buf: the INODE section.
        names, starts, sizes: the wanted names, as spans of one byte array.
        positions, found: results: lower bound, and whether the child there has that very name.

    Returns:
        False where a child has no record.
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
    """Index of the first child whose name does not follow its neighbour's, `MISSING` if none, `DAMAGED`."""
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
