"""Kernels that check records as Hadoop's protobuf parser does, driven by tables made from `fsimage.proto`.

`image_tools.loadable.tables` creates and documents the tables.
"""

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError

from hadoop_common.storage_policies import POLICY_IDS
from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK
from image_format.kernels.jit import kernel, lean_kernel, measured_by
from image_format.kernels.packed import find_packed, packed_at
from image_format.kernels.readers import ABSENT, read_redundancy, read_reference
from image_format.kernels.records import DIFF_STATE, FILE_DIFF, next_in_diffs
from image_format.kernels.tags import BlockProto, DirEntry, FileDiff, INode, INodeDirectory, INodeFile
from image_format.kernels.wire import (
    DELIMITED,
    FIXED32,
    FIXED64,
    VARINT,
    VARINT_ERROR,
    WIRE_TYPE,
    fixed64,
    next_field,
    octet,
    read_varint,
    record_span,
)
from image_format.proto import fsimage_pb2 as pb
from image_tools.loadable.kernels.shapes import (
    COLUMNS,
    LONGEST_VARINT,
    ROWS,
    WORDS,
    inlined_kernel,
    kind_of_shape,
    note_shape,
    shape_row,
)
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
"""Maximum depth of nested messages, plus one."""
PARSED = -1
"""Result of the kernels if all records are valid."""

_INT32 = (1 << 32) - 1
_INT16 = (1 << 16) - 1
_INT8 = (1 << 8) - 1
_STRIPED: int = pb.STRIPED
_CONTIGUOUS: int = pb.CONTIGUOUS
_SLASH = ord("/")
_WORD = 8
_CONTINUED = np.uint64(0x8080808080808080)
"""In eight bytes of a varint, the bits that mark all bytes except its last."""
_BYTE_NUMBERS = np.uint64(0x0001020304050607)
"""Factor that moves the number of the byte whose lowest bit is set into the highest byte."""
_SMALLEST_TAG = 1 << 3
_LARGEST_TAG = _INT32


@lean_kernel
def _behind_number(buf, pos, end, wire):
    """Return the position after a number, `VARINT_ERROR` if the message ends earlier."""
    if wire == VARINT:
        _, pos = read_varint(buf, pos, end)
        return pos
    pos += 8 if wire == FIXED64 else 4
    return pos if pos <= end else VARINT_ERROR


@lean_kernel
def _parses(buf, pos, end, message, fields, required, stack):
    """Return whether a parser accepts the message in `buf[pos:end]`.

    Args:
        message: number of the message in the tables.
        fields: the codes, a row for each message and a column for each field's number.
        required: a bit for each required field, by message.
        stack: scratch, `MAX_DEPTH` rows of three numbers.
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
        # most tags have one byte
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
    """Return the offset of the first delimited record from `pos` that a parser refuses, or `PARSED`.

    Args:
        message, fields, required: see `_parses`; all records are the same kind of message.
    """
    stack = np.empty((MAX_DEPTH, 3), np.int64)
    while pos < buf.size:
        start, end = record_span(buf, pos)
        if start < 0 or not _parses(buf, start, end, message, fields, required, stack):
            return pos
        pos = end
    return PARSED


@inlined_kernel
def _loads_values(replication, block_size, storage_policy, block_type, policy, policies, storage_policies, rules):
    """Return whether a loader accepts these values of an INodeFile; see `first_unloadable_inode`."""
    if block_size < 0 or block_size > rules[2] or storage_policies[storage_policy & _INT8] == 0:
        return False
    if replication != ABSENT:
        replication &= _INT16
    if policies.size == 0:
        return rules[0] <= replication <= rules[1]
    if policy != ABSENT:
        return block_type == _STRIPED and policies[policy & _INT8] != 0
    return block_type != _STRIPED and replication <= rules[1]


@lean_kernel
def _loads_file(buf, pos, end, policies, storage_policies, rules):
    """Return whether a loader accepts the values of an INodeFile that parses; see `first_unloadable_inode`."""
    replication, block_size, storage_policy, block_type, policy, status = read_redundancy(buf, pos, end)
    return status >= 0 and _loads_values(
        replication, block_size, storage_policy, block_type, policy, policies, storage_policies, rules
    )


@lean_kernel
def _loads_copy(buf, pos, end, policies, rules):
    """Return whether a loader accepts the copy of a file in a FileDiff that parses; see `first_unloadable_diff`.

    Unlike for an INodeFile, the block type decides whether the replication or the policy is read.
    """
    while 0 <= pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if tag != FileDiff.snapshotCopy or pos < 0:
            continue
        replication, block_size, storage_policy, block_type, policy, status = read_redundancy(buf, start, pos)
        if status < 0 or block_size < 0 or block_size > rules[2] or storage_policy & _INT8 >= POLICY_IDS:
            return False
        if policies.size and block_type == _STRIPED:
            if policies[0 if policy == ABSENT else policy & _INT8] == 0:
                return False
            continue
        replication = 0 if replication == ABSENT else replication & _INT16
        if replication < rules[0] or replication > rules[1]:
            return False
    return pos >= 0


@measured_by("buf")
@kernel
def first_unloadable_diff(buf, messages, fields, required, policies, rules):
    """Find the first record of SNAPSHOT_DIFF that a parser refuses, or that contains a file that no loader accepts.

    If a section ends within a list, the fault is at its end.

    Args:
        messages: the numbers of the four kinds of records.
        policies, rules: see `first_unloadable_inode`.

    Returns:
        (offset or `PARSED`, whether a parser accepts the record).
    """
    stack = np.empty((MAX_DEPTH, 3), np.int64)
    state = np.zeros(DIFF_STATE, np.int64)
    pos = np.int64(0)
    while pos < buf.size:
        start, end = record_span(buf, pos)
        if start < 0:
            return pos, False
        kind, damaged = next_in_diffs(buf, start, end, state)
        if damaged or not _parses(buf, start, end, messages[kind], fields, required, stack):
            return pos, False
        if kind == FILE_DIFF and not _loads_copy(buf, start, end, policies, rules):
            return pos, True
        pos = end
    if state[1] != 0 or state[2] != 0:
        return pos, False
    return PARSED, True


@lean_kernel
def _loads_inode(buf, pos, end, policies, storage_policies, rules):
    """Return (whether a loader accepts an INode that a parser accepts, its type)."""
    kind = np.int64(0)
    loads = True
    while 0 <= pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if tag == INode.type and FILE <= value <= SYMLINK:
            kind = value
        elif tag == INode.file and pos >= 0:
            loads = loads and _loads_file(buf, start, pos, policies, storage_policies, rules)
    return loads and pos >= 0, kind


@inlined_kernel
def _number_of(buf, pos, end, tag):
    """Return (number, next position) of a varint field with this tag; the position is negative for another field."""
    if pos < 0 or pos >= end or octet(buf, pos) != tag:
        return np.int64(0), np.int64(VARINT_ERROR)
    return read_varint(buf, pos + 1, end)


@inlined_kernel
def _after_bytes(buf, pos, end):
    """Return the position after the varint that follows the tag at `pos`, negative if it does not end before `end`."""
    for at in range(pos + 1, min(end, pos + 1 + LONGEST_VARINT)):
        if octet(buf, at) < 0x80:
            return at + 1
    return np.int64(VARINT_ERROR)


@inlined_kernel
def _after_number(buf, pos, end, tag):
    """Return the position after a varint field with this tag, negative for another field."""
    if pos < 0 or pos >= end or octet(buf, pos) != tag:
        return np.int64(VARINT_ERROR)
    if end - pos > _WORD:
        # a branch for each byte would take longer
        ends = ~fixed64(buf, pos + 1) & _CONTINUED
        if ends != 0:
            first = (ends & (~ends + np.uint64(1))) >> np.uint64(7)
            return pos + 2 + np.int64(first * _BYTE_NUMBERS >> np.uint64(56))
    return _after_bytes(buf, pos, end)


@_after_number.in_python
def _after_number_in_python(buf, pos, end, tag):
    if pos < 0 or pos >= end or octet(buf, pos) != tag:
        return VARINT_ERROR
    return _after_bytes(buf, pos, end)


@inlined_kernel
def _inside(buf, pos, end, tag):
    """Return (start, end) of a delimited field with this tag; both are negative for another field."""
    size, start = _number_of(buf, pos, end, tag)
    if start < 0 or size < 0 or size > end - start:
        return np.int64(VARINT_ERROR), np.int64(VARINT_ERROR)
    return start, start + size


@inlined_kernel
def _after_blocks(buf, pos, end):
    """Return the position after the blocks of an INodeFile; negative for a block in a form that no NameNode writes."""
    while 0 <= pos < end and octet(buf, pos) == INodeFile.blocks:
        inner, pos = _inside(buf, pos, end, INodeFile.blocks)
        inner = _after_number(buf, inner, pos, BlockProto.blockId)
        inner = _after_number(buf, inner, pos, BlockProto.genStamp)
        inner = _after_number(buf, inner, pos, BlockProto.numBytes)
        if inner != pos:
            return np.int64(VARINT_ERROR)
    return pos


@inlined_kernel
def load_usual_inode(buf, pos, end, policies, storage_policies, rules):
    """Return the type of an INode that loads and has only the fields of most inodes, 0 for any other record.

    The record is in the form that NameNodes write: a directory, or a file of blocks, without further features. This
    check takes a quarter of the time of `_parses` and `_loads_inode`, which decide about all other records.
    """
    kind, pos = _number_of(buf, pos, end, INode.type)
    pos = _after_number(buf, pos, end, INode.id)
    _, pos = _inside(buf, pos, end, INode.name)
    if kind == FILE:
        pos, stop = _inside(buf, pos, end, INode.file)
        replication, pos = _number_of(buf, pos, stop, INodeFile.replication)
        pos = _after_number(buf, pos, stop, INodeFile.modificationTime)
        pos = _after_number(buf, pos, stop, INodeFile.accessTime)
        block_size, pos = _number_of(buf, pos, stop, INodeFile.preferredBlockSize)
        if pos < 0 or stop != end or end - pos <= 8 or octet(buf, pos) != INodeFile.permission:
            return np.int64(0)
        pos = _after_blocks(buf, pos + 9, end)
        storage_policy = np.int64(0)
        if 0 <= pos < end and octet(buf, pos) == INodeFile.storagePolicyID:
            storage_policy, pos = _number_of(buf, pos, end, INodeFile.storagePolicyID)
        block_type = np.int64(0)
        if 0 <= pos < end:
            block_type, pos = _number_of(buf, pos, end, INodeFile.blockType)
        usual = pos == end and block_type == _CONTIGUOUS
        loads = _loads_values(replication, block_size, storage_policy, 0, ABSENT, policies, storage_policies, rules)
        return np.int64(kind) if usual and loads else np.int64(0)
    if kind == DIRECTORY:
        pos, stop = _inside(buf, pos, end, INode.directory)
        pos = _after_number(buf, pos, stop, INodeDirectory.modificationTime)
        pos = _after_number(buf, pos, stop, INodeDirectory.nsQuota)
        pos = _after_number(buf, pos, stop, INodeDirectory.dsQuota)
        usual = pos >= 0 and stop == end and end - pos == 9 and octet(buf, pos) == INodeDirectory.permission
        return np.int64(kind) if usual else np.int64(0)
    return np.int64(0)


@measured_by("buf")
@kernel
def first_unloadable_inode(buf, pos, message, fields, required, policies, storage_policies, rules, kinds):
    """Find the first record of INODE that a parser refuses, or that contains a value that no loader accepts.

    `INodeFile.HeaderFormat` of Hadoop checks these values.

    Args:
        policies: whether the erasure coding policy is known, by id; empty if the layout has none.
        storage_policies: whether a file may have the storage policy, by id.
        rules: smallest replication (without policies), largest replication, largest block size.
        kinds: array of zeros; result: the type of each record in two bits, as many types as fit.

    Returns:
        (offset or `PARSED`, whether a parser accepts the record).
    """
    stack = np.empty((MAX_DEPTH, 3), np.int64)
    table = np.zeros((ROWS, COLUMNS), np.int64)
    values = np.empty((ROWS, WORDS), np.uint64)
    masks = np.empty((ROWS, WORDS), np.uint64)
    count = 0
    while pos < buf.size:
        start, end = record_span(buf, pos)
        if start < 0:
            return pos, False
        row = shape_row(buf, start, end)
        kind = kind_of_shape(buf, start, end, row, table, values, masks)
        if kind == 0:
            kind = load_usual_inode(buf, start, end, policies, storage_policies, rules)
            if kind != 0:
                note_shape(buf, start, end, kind, row, table, values, masks)
        if kind == 0:
            if not _parses(buf, start, end, message, fields, required, stack):
                return pos, False
            loads, kind = _loads_inode(buf, start, end, policies, storage_policies, rules)
            if not loads:
                return pos, True
        if count >> 2 < kinds.size:
            kinds[count >> 2] |= kind << 2 * (count & 3)
        count += 1
        pos = end
    return PARSED, True


@measured_by("found")
@kernel
def put_kinds(kinds, number, found, rows):
    """Store the first `rows` types of `found` from `number` on; both arrays have two bits for each type."""
    for i in range(rows):
        kind = found[i >> 2] >> 2 * (i & 3) & 3
        kinds[number + i >> 2] |= kind << 2 * (number + i & 3)


@measured_by("buf")
@kernel
def first_lost_child(buf, ids, references):
    """Return (offset, child) of the first entry of INODE_DIR with a child that does not exist; (`PARSED`, 0) if none.

    Args:
        buf: records that a parser accepts.
        ids: ids of all inodes, ascending and packed.
        references: the number of records in INODE_REFERENCE.
    """
    record = np.int64(0)
    row = np.int64(0)
    while record < buf.size:
        pos, end = record_span(buf, record)
        while pos < end:
            tag, _, at, pos = next_field(buf, pos, end)
            field = tag | DELIMITED
            while (field == DirEntry.children or field == DirEntry.refChildren) and at < pos:
                child, at = read_varint(buf, at, pos)
                if field == DirEntry.children:
                    # Children were usually created one after the other.
                    row += 1
                    if row >= ids.low.size or packed_at(ids, row) != child:
                        row = find_packed(ids, child)
                    lost = row < 0
                else:
                    lost = child < 0 or child >= references
                if lost:
                    return record, child
        record = end
    return PARSED, np.int64(0)


@lean_kernel
def _is_name(buf, start, size):
    """Return whether an inode can have the name: not empty, without a slash."""
    for at in range(start, start + size):
        if octet(buf, at) == _SLASH:
            return False
    return start >= 0 and size > 0


@lean_kernel
def is_reference(buf, pos, end):
    """Return whether an INodeReference is of a kind that a NameNode writes: a present place, or a name in snapshots.

    A NameNode reads a record that lost its dstSnapshotId as a name in snapshots.
    """
    _, name, size, present, last, status = read_reference(buf, pos, end)
    if status < 0:
        return False
    if present == ABSENT:
        return last != ABSENT and _is_name(buf, name, size)
    return last == ABSENT and name < 0


@measured_by("buf")
@kernel
def first_odd_reference(buf):
    """Return the offset of the first record in `buf` that is not a reference, or `PARSED` for references only."""
    pos = np.int64(0)
    while pos < buf.size:
        start, end = record_span(buf, pos)
        if not is_reference(buf, start, end):
            return pos
        pos = end
    return PARSED
