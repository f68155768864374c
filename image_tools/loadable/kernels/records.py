"""Kernels that check records as Hadoop's protobuf parser does, by tables made from `fsimage.proto`.

`image_tools.loadable.tables` makes the tables and explains them.
"""

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError

from image_format.kernels.jit import kernel, lean_kernel, measured_by
from image_format.kernels.packed import find_packed
from image_format.kernels.records import DIFF_STATE, next_in_diffs
from image_format.kernels.tags import DiffEntry, DirEntry, INode, INodeFile
from image_format.kernels.wire import (
    DELIMITED,
    FIXED32,
    FIXED64,
    VARINT,
    VARINT_ERROR,
    WIRE_TYPE,
    octet,
    read_varint,
    skip_field,
)
from image_format.proto import fsimage_pb2 as pb
from image_tools.loadable.tables import (
    ENUM,
    EXTRA_SHIFT,
    KIND_MASK,
    KIND_SHIFT,
    MAX_FIELD,
    MESSAGE,
    MESSAGES,
    REPEATED_NUMBER,
    STORAGE_TYPE,
    quota_types,
)

MAX_DEPTH = 8
"""Messages in one another, and one more."""
PARSED = -1
"""What the kernels return where all records are right."""

_INT32 = (1 << 32) - 1
_INT16 = (1 << 16) - 1
_INT8 = (1 << 8) - 1
_STRIPED: int = pb.STRIPED
_SMALLEST_TAG = 1 << 3
_LARGEST_TAG = _INT32


@lean_kernel
def _behind_number(buf, pos, end, wire):
    """Position behind a number; `VARINT_ERROR` where the message ends before."""
    if wire == VARINT:
        _, pos = read_varint(buf, pos, end)
        return pos
    pos += 8 if wire == FIXED64 else 4
    return pos if pos <= end else VARINT_ERROR


@lean_kernel
def _parses(buf, pos, end, message, fields, required, stack):
    """Whether a parser takes the message in `pos`..`end`.

    Args:
        message: its number in the tables.
        fields: the codes, a row for each message and a column for each field's number.
        required: by message, a bit for each field that it must have.
        stack: `MAX_DEPTH` rows of three numbers, for this call's use.
    """
    depth = 0
    seen = np.int64(0)
    while True:
        if pos == end:
            if seen & required[message] != required[message]:
                return False
            if depth == 0:
                return True
            depth -= 1
            message = stack[depth, 0]
            end = stack[depth, 1]
            seen = stack[depth, 2]
            continue
        # most tags are a byte
        tag = np.int64(octet(buf, pos))
        if tag < 0x80:
            pos += 1
        else:
            tag, pos = read_varint(buf, pos, end)
        if pos < 0 or tag < _SMALLEST_TAG or tag > _LARGEST_TAG:
            return False
        number = tag >> 3
        wire = tag & WIRE_TYPE
        code = fields[message, number] if number <= MAX_FIELD else np.int64(0)
        known = code != 0 and code & WIRE_TYPE == wire
        kind = code >> KIND_SHIFT & KIND_MASK
        if wire == DELIMITED:
            length, pos = read_varint(buf, pos, end)
            if pos < 0 or length < 0 or length > end - pos:
                return False
            stop = pos + length
            if known and kind == MESSAGE:
                if depth == MAX_DEPTH:
                    return False
                stack[depth, 0] = message
                stack[depth, 1] = end
                stack[depth, 2] = seen | 1 << number
                depth += 1
                message = code >> EXTRA_SHIFT
                end = stop
                seen = np.int64(0)
                continue
            if code != 0 and kind == REPEATED_NUMBER:
                inner = code & WIRE_TYPE
                while 0 <= pos < stop:
                    pos = _behind_number(buf, pos, stop, inner)
                if pos < 0:
                    return False
            pos = stop
        elif wire == VARINT:
            value, pos = read_varint(buf, pos, end)
            if known and kind == ENUM:
                value &= _INT32
                known = value < 32 and code >> EXTRA_SHIFT >> value & 1 == 1
        elif wire in (FIXED64, FIXED32):
            pos = _behind_number(buf, pos, end, wire)
        else:
            return False
        if pos < 0:
            return False
        if known:
            seen |= 1 << number


@_parses.in_python
def _parses_in_python(buf, pos, end, message, fields, required, stack):
    try:
        found = MESSAGES[message].FromString(buf[pos:end].tobytes())
    except DecodeError:
        return False
    known = fields[STORAGE_TYPE] >> EXTRA_SHIFT
    return found.IsInitialized() and all(known >> storage_type & 1 for storage_type in quota_types(found))


@measured_by("buf")
@kernel
def first_unparsable(buf, pos, message, fields, required):
    """Offset of the first delimited record from `pos` on that a parser refuses, `PARSED` for none.

    Args:
        message, fields, required: as for `_parses`; all records are the same kind of message.
    """
    stack = np.empty((MAX_DEPTH, 3), np.int64)
    while pos < buf.size:
        start = pos
        length, pos = read_varint(buf, pos, buf.size)
        if pos < 0 or length < 0 or length > buf.size - pos:
            return start
        if not _parses(buf, pos, pos + length, message, fields, required, stack):
            return start
        pos += length
    return PARSED


@measured_by("buf")
@kernel
def first_unparsable_diff(buf, messages, fields, required):
    """`first_unparsable` for SNAPSHOT_DIFF; `messages` has the numbers of its four kinds of records.

    A section that ends within a list has its fault at the end.
    """
    stack = np.empty((MAX_DEPTH, 3), np.int64)
    state = np.zeros(DIFF_STATE, np.int64)
    pos = np.int64(0)
    while pos < buf.size:
        start = pos
        length, pos = read_varint(buf, pos, buf.size)
        if pos < 0 or length < 0 or length > buf.size - pos:
            return start
        kind, damaged = next_in_diffs(buf, pos, pos + length, state)
        if damaged or not _parses(buf, pos, pos + length, messages[kind], fields, required, stack):
            return start
        pos += length
    return PARSED if state[1] == 0 and state[2] == 0 else pos


@lean_kernel
def _loads_file(buf, pos, end, policies, storage_policies, rules):
    """Whether a loader takes the values of an INodeFile that a parser takes; see `first_unloadable_inode`."""
    replication = np.int64(-1)
    block_size = np.int64(0)
    storage_policy = np.int64(0)
    block_type = np.int64(0)
    policy = np.int64(-1)
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if tag & WIRE_TYPE != VARINT:
            pos = skip_field(buf, pos, end, tag)
        else:
            value, pos = read_varint(buf, pos, end)
            if tag == INodeFile.replication:
                replication = value & _INT16
            elif tag == INodeFile.preferredBlockSize:
                block_size = value
            elif tag == INodeFile.storagePolicyID:
                storage_policy = value & _INT8
            elif tag == INodeFile.blockType:
                block_type = value
            elif tag == INodeFile.erasureCodingPolicyID:
                policy = value & _INT8
        if pos < 0:
            return False
    if block_size < 0 or block_size > rules[2] or storage_policies[storage_policy] == 0:
        return False
    if policies.size == 0:
        return rules[0] <= replication <= rules[1]
    if policy >= 0:
        return block_type == _STRIPED and policies[policy] != 0
    return block_type != _STRIPED and replication <= rules[1]


@lean_kernel
def _loads_inode(buf, pos, end, policies, storage_policies, rules):
    """(whether a loader takes an INode that a parser takes, its type)."""
    kind = np.int64(0)
    loads = True
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        if tag == INode.type:
            kind, pos = read_varint(buf, pos, end)
        else:
            start = pos
            pos = skip_field(buf, pos, end, tag)
            if tag == INode.file and pos >= 0:
                _, start = read_varint(buf, start, end)
                loads = loads and _loads_file(buf, start, pos, policies, storage_policies, rules)
        if pos < 0:
            return False, kind
    return loads, kind


@measured_by("buf")
@kernel
def first_unloadable_inode(buf, pos, message, fields, required, policies, storage_policies, rules, kinds):
    """`first_unparsable` for INODE, or the first record with a value that no loader takes (INodeFile.HeaderFormat).

    Args:
        policies: by id, whether the erasure coding policy is known; empty where the layout has none.
        storage_policies: by id, whether a file may have the storage policy.
        rules: smallest replication (where there are no policies), largest one, largest block size.
        kinds: zeros; takes the type of each record in two bits, as many as there is room for.

    Returns:
        (offset or `PARSED`, whether a parser takes the record).
    """
    stack = np.empty((MAX_DEPTH, 3), np.int64)
    count = 0
    while pos < buf.size:
        start = pos
        length, pos = read_varint(buf, pos, buf.size)
        if pos < 0 or length < 0 or length > buf.size - pos:
            return start, False
        end = pos + length
        if not _parses(buf, pos, end, message, fields, required, stack):
            return start, False
        loads, kind = _loads_inode(buf, pos, end, policies, storage_policies, rules)
        if not loads:
            return start, True
        if count >> 2 < kinds.size:
            kinds[count >> 2] |= kind << 2 * (count & 3)
        count += 1
        pos = end
    return PARSED, True


@kernel
def diff_kinds(buf, offsets, kinds):
    """Fill `kinds` with the type of the DiffEntry at each of `offsets`."""
    for i in range(offsets.size):
        length, pos = read_varint(buf, offsets[i], buf.size)
        end = pos + length
        while 0 <= pos < end:
            tag, pos = read_varint(buf, pos, end)
            if tag == DiffEntry.type:
                kinds[i], pos = read_varint(buf, pos, end)
            elif pos >= 0:
                pos = skip_field(buf, pos, end, tag)


@lean_kernel
def _lost(buf, pos, end, tag, ids, references):
    """The first child of an entry's field that does not exist, -1 for none; arguments as in `first_lost_child`."""
    while pos < end:
        child, pos = read_varint(buf, pos, end)
        if tag | DELIMITED == DirEntry.children:
            if find_packed(ids, child) < 0:
                return child
        elif child < 0 or child >= references:
            return child
    return np.int64(-1)


@measured_by("buf")
@kernel
def first_lost_child(buf, ids, references):
    """(offset, child) of the first entry of INODE_DIR with a child that does not exist; (`PARSED`, 0) for none.

    Args:
        buf: records that a parser takes.
        ids: of all inodes, ascending and packed.
        references: how many records INODE_REFERENCE has.
    """
    pos = np.int64(0)
    while pos < buf.size:
        start = pos
        length, pos = read_varint(buf, pos, buf.size)
        end = pos + length
        while pos < end:
            tag, pos = read_varint(buf, pos, end)
            body = pos
            pos = skip_field(buf, pos, end, tag)
            children = tag | DELIMITED
            if children == DirEntry.children or children == DirEntry.refChildren:
                if tag == children:
                    _, body = read_varint(buf, body, end)
                lost = _lost(buf, body, pos, tag, ids, references)
                if lost >= 0 or lost < -1:
                    return start, lost
    return PARSED, np.int64(0)
