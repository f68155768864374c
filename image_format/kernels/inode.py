"""Kernels that decode INode records to rows of the inode table, and encode rows to records."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import kernel, lean_kernel
from image_format.kernels.prefetch import prefetch
from image_format.kernels.readers import MORE, read_block
from image_format.kernels.tables import put_number
from image_format.kernels.tags import BlockProto, FileUnderConstructionFeature, INode, INodeDirectory, INodeFile
from image_format.kernels.wire import copy_bytes, fixed64, next_field, put_varint, record_span, varint_size
from image_format.proto import fsimage_pb2 as pb

FILE: int = pb.INode.FILE
DIRECTORY: int = pb.INode.DIRECTORY
SYMLINK: int = pb.INode.SYMLINK

DIRTY = 1
"""Row flag: the row differs from the base record, or has no base record."""
FEATURES = 2
"""Row flag: the feature map has an ACL, xattrs, storage type quotas or a symlink target."""
UNKNOWN_FIELDS = 4
"""Row flag: the base record has a field that this version does not know."""
UNDER_CONSTRUCTION = 8
"""Row flag: the file is open for writing."""
DROPPED = 16
"""Row flag: the inode is deleted."""

LEASED = 1
"""Row mark: the file has a lease."""
LAST_COMPLETE = 2
"""Row mark: the file is open, and its last block is complete."""
OPENED = 4
"""Row mark: the directory's referenced children are among its links."""

NO_ACL = 8
"""Row mark: the inode has features, but no ACL."""
SPECIAL = 16
"""Row mark: the inode has or had snapshot diffs or references."""
HOLDS = 32
"""Row mark: the directory is snapshottable, or a directory below it was."""
ACL_DUE = 64
"""Row mark: the inode is new and receives its ACL when kernels return."""
COPIED = 128
"""Row mark: the newest snapshot diff contains a copy of the inode's attributes."""

INODE_DTYPE = np.dtype(
    [
        ("id", "i8"),
        ("parent", "i8"),  # row of the inode's directory, or -1
        ("moved", "i8"),  # of a directory: `directories_moved` of the replay directly after its move or deletion
        ("slot", "i8"),  # position in the base image, or -1
        ("name_offset", "i8"),
        ("mtime", "i8"),
        ("atime", "i8"),
        ("permission", "u8"),
        ("block_size", "i8"),
        ("ns_quota", "i8"),
        ("ds_quota", "i8"),
        ("blocks_offset", "i8"),
        ("name_length", "i4"),
        ("block_count", "i4"),
        ("block_capacity", "i4"),
        ("replication", "i4"),  # -1 if the field is missing
        ("client_name", "i4"),  # number in the table's pool, for files under construction only
        ("client_machine", "i4"),
        ("first_link", "i4"),  # first name of a directory, see engine.namespace.links; 0 if none
        ("growth", "i4"),  # of a directory: number of children gained since the base image
        ("entry", "i4"),  # of a directory: see engine.replay.kernels.base_children; 0 while unknown
        ("newest", "i4"),  # id of the newest snapshot diff, plus one; -1 if none, 0 while unknown
        ("born", "i4"),  # id of the diff that lists the name as created, plus one; -1 if none, 0 while unknown
        ("base_parent", "i4"),  # row of the inode's directory in the base image if it has a slot; -1 if unknown or none
        ("ec_policy", "i2"),  # -1 if the field is missing
        ("kind", "u1"),
        ("policy", "u1"),
        ("block_type", "u1"),
        ("flags", "u1"),
        ("marks", "u1"),  # state of replay, never part of a record
    ],
    align=True,
)
BLOCK_DTYPE = np.dtype([("id", "i8"), ("num_bytes", "i8"), ("genstamp", "i8")])

_APART = 8
"""Distance in rows from the prefetch of a row to the prefetch of its name and blocks, and from there to its use."""
_LINE = 64


@lean_kernel
def _decode_file(buf, pos, end, row, blocks, block_count):
    """Fill `row` from an INodeFile; return (block count, flags), with flags -1 if damaged.

    A value that does not fit into a row is treated as an unknown field: the record may be copied, but not changed.
    """
    flags = 0
    while pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return block_count, -1
        if tag == INodeFile.blocks:
            block = blocks[block_count]
            block_id, genstamp, num_bytes, status = read_block(buf, start, pos)
            block["id"] = block_id
            block["genstamp"] = genstamp
            block["num_bytes"] = num_bytes
            if status < 0:
                return block_count, -1
            if status == MORE:
                flags |= UNKNOWN_FIELDS
            block_count += 1
        elif tag == INodeFile.modificationTime:
            row["mtime"] = value
        elif tag == INodeFile.accessTime:
            row["atime"] = value
        elif tag == INodeFile.preferredBlockSize:
            row["block_size"] = value
        elif tag == INodeFile.permission:
            row["permission"] = fixed64(buf, start)
        elif tag == INodeFile.replication and 0 <= value <= 0x7FFFFFFF:
            row["replication"] = value
        elif tag == INodeFile.storagePolicyID and 0 <= value <= 0xFF:
            row["policy"] = value
        elif tag == INodeFile.blockType and 0 <= value <= 1:
            row["block_type"] = value
        elif tag == INodeFile.erasureCodingPolicyID and 0 <= value <= 0xFF:
            row["ec_policy"] = value
        elif tag == INodeFile.fileUC:
            flags |= UNDER_CONSTRUCTION
        elif tag == INodeFile.acl or tag == INodeFile.xAttrs:
            flags |= FEATURES
        else:
            flags |= UNKNOWN_FIELDS
    return block_count, flags


@lean_kernel
def _decode_directory(buf, pos, end, row):
    """Fill `row` from an INodeDirectory; return its flags, or -1 if damaged."""
    flags = 0
    while pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return -1
        if tag == INodeDirectory.modificationTime:
            row["mtime"] = value
        elif tag == INodeDirectory.nsQuota:
            row["ns_quota"] = value
        elif tag == INodeDirectory.dsQuota:
            row["ds_quota"] = value
        elif tag == INodeDirectory.permission:
            row["permission"] = fixed64(buf, start)
        elif tag == INodeDirectory.acl or tag == INodeDirectory.xAttrs or tag == INodeDirectory.typeQuotas:
            flags |= FEATURES
        else:
            flags |= UNKNOWN_FIELDS
    return flags


@lean_kernel
def _clear(row):
    """Set every field to its default, because a damaged record may have left other values."""
    row["id"] = 0
    row["mtime"] = 0
    row["atime"] = 0
    row["permission"] = 0
    row["block_size"] = 0
    row["ns_quota"] = 0
    row["ds_quota"] = 0
    row["name_length"] = 0
    row["client_name"] = 0
    row["client_machine"] = 0
    row["policy"] = 0
    row["block_type"] = 0
    row["replication"] = -1
    row["ec_policy"] = -1
    row["slot"] = -1
    row["parent"] = -1
    row["base_parent"] = -1
    row["first_link"] = 0
    row["growth"] = 0
    row["entry"] = 0
    row["marks"] = 0


@lean_kernel
def decode_inode(buf, offset, rows, index, names, names_used, blocks, blocks_used):
    """Fill `rows[index]` from the delimited INode at `offset`.

    The caller provides space for the name and the blocks. A record has at most as many name bytes as its length. Its
    number of blocks is at most one more than a sixth of its length; with that many blocks, the last block is certainly
    damaged. Fields that Python reads (ACLs, xattrs, client names …) only set flags.

    Returns:
        (name bytes used, blocks used, flags), with flags -1 for a damaged record.
    """
    pos, end = record_span(buf, offset)
    if pos < 0:
        return names_used, blocks_used, -1
    row = rows[index]
    _clear(row)
    row["name_offset"] = names_used
    row["blocks_offset"] = blocks_used
    flags = 0
    kind = np.int64(0)
    body = 0
    while pos < end:
        tag, value, start, pos = next_field(buf, pos, end)
        if pos < 0:
            return names_used, blocks_used, -1
        found = 0
        if tag == INode.type:
            kind = value
        elif tag == INode.id:
            row["id"] = value
        elif tag == INode.name:
            copy_bytes(names, names_used, buf, start, value)
            row["name_offset"] = names_used
            row["name_length"] = value
            names_used += value
        elif tag == INode.file:
            blocks_used, found = _decode_file(buf, start, pos, row, blocks, blocks_used)
            body = FILE
        elif tag == INode.directory:
            found = _decode_directory(buf, start, pos, row)
            body = DIRECTORY
        elif tag == INode.symlink:
            found = FEATURES
            body = SYMLINK
        else:
            found = UNKNOWN_FIELDS
        if found < 0:
            return names_used, blocks_used, -1
        flags |= found
    count = blocks_used - row["blocks_offset"]
    row["block_count"] = count
    row["block_capacity"] = count
    row["flags"] = flags
    row["kind"] = body
    if kind != body or row["id"] <= 0:
        return names_used, blocks_used, -1
    return names_used, blocks_used, flags


@lean_kernel
def record_bytes(buf, offsets):
    """Return the total size of the delimited records at `offsets`; a record that exceeds the buffer counts as empty."""
    total = np.int64(0)
    for k in range(offsets.size):
        start, end = record_span(buf, offsets[k])
        total += end - start
    return total


@lean_kernel
def decode_inodes(buf, offsets, slots, rows, first, names, names_used, blocks, blocks_used, ids):
    """Fill the rows from `first` with the delimited INodes at `offsets`; no row may contain their ids yet.

    Args:
        slots, ids: position of each inode in the base image, and the slots of `IdTable`; the caller provides space
            (see `decode_inode`).

    Returns:
        (records decoded, name bytes used, blocks used): fewer records than `offsets` if the next record is damaged.
    """
    for k in range(offsets.size):
        if k + _APART < offsets.size:
            prefetch(buf, offsets[k + _APART])
        row = first + k
        names_after, blocks_after, flags = decode_inode(
            buf, offsets[k], rows, row, names, names_used, blocks, blocks_used
        )
        if flags < 0:
            return k, names_used, blocks_used
        names_used, blocks_used = names_after, blocks_after
        rows[row]["slot"] = slots[k]
        put_number(ids, rows[row]["id"], row)
    return offsets.size, names_used, blocks_used


@lean_kernel
def _block_size(block):
    return 3 + varint_size(block["id"]) + varint_size(block["genstamp"]) + varint_size(block["num_bytes"])


@lean_kernel
def _client_size(row, pool):
    """Return the size of the FileUnderConstructionFeature of `row`."""
    name = np.int64(pool[row["client_name"]]["name_length"])
    machine = np.int64(pool[row["client_machine"]]["name_length"])
    return 2 + varint_size(name) + name + varint_size(machine) + machine


@lean_kernel
def _body_size(row, blocks, pool, policies, block_types):
    """Return the size of the INodeFile or INodeDirectory of `row`."""
    if row["kind"] == DIRECTORY:
        return 12 + varint_size(row["mtime"]) + varint_size(row["ns_quota"]) + varint_size(row["ds_quota"])
    size = 12 + varint_size(row["mtime"]) + varint_size(row["atime"]) + varint_size(row["block_size"])
    if row["replication"] >= 0:
        size += 1 + varint_size(row["replication"])
    for i in range(row["block_count"]):
        inner = _block_size(blocks[row["blocks_offset"] + i])
        size += 1 + varint_size(inner) + inner
    if row["flags"] & UNDER_CONSTRUCTION:
        client = _client_size(row, pool)
        size += 1 + varint_size(client) + client
    if policies:
        size += 1 + varint_size(np.int64(row["policy"]))
    if block_types:
        size += 2
    if row["ec_policy"] >= 0:
        size += 1 + varint_size(np.int64(row["ec_policy"]))
    return size


@lean_kernel
def _prefetch_rows(rows, wanted, k, names, blocks):
    """Prefetch a later row, and the name and blocks of a nearer row, because edits touched rows in random order."""
    far = k + 2 * _APART
    if far < wanted.size:
        for byte in range(0, rows.itemsize, _LINE):
            prefetch(rows, wanted[far], byte)
    near = k + _APART
    if near < wanted.size:
        row = rows[wanted[near]]
        prefetch(names, row["name_offset"])
        prefetch(blocks, row["blocks_offset"])


@lean_kernel
def encoded_size(rows, wanted, names, blocks, pool, policies, block_types):
    """Return the number of bytes that `encode_inodes` writes for the rows `wanted`."""
    total = 0
    for k in range(wanted.size):
        _prefetch_rows(rows, wanted, k, names, blocks)
        row = rows[wanted[k]]
        body = _body_size(row, blocks, pool, policies, block_types)
        size = 5 + varint_size(row["id"]) + varint_size(np.int64(row["name_length"])) + row["name_length"]
        size += varint_size(body) + body
        total += varint_size(size) + size
    return total


@lean_kernel
def _put_fixed64(out, pos, value):
    for i in range(8):
        out[pos + i] = np.uint8((value >> np.uint64(8 * i)) & np.uint64(0xFF))
    return pos + 8


@lean_kernel
def _put_string(out, pos, pool, arena, number):
    length = np.int64(pool[number]["name_length"])
    pos = put_varint(out, pos, length)
    copy_bytes(out, pos, arena, pool[number]["name_offset"], length)
    return pos + length


@lean_kernel
def _put_file(out, pos, row, blocks, pool, arena, policies, block_types):
    if row["replication"] >= 0:
        out[pos] = INodeFile.replication
        pos = put_varint(out, pos + 1, np.int64(row["replication"]))
    out[pos] = INodeFile.modificationTime
    pos = put_varint(out, pos + 1, row["mtime"])
    out[pos] = INodeFile.accessTime
    pos = put_varint(out, pos + 1, row["atime"])
    out[pos] = INodeFile.preferredBlockSize
    pos = put_varint(out, pos + 1, row["block_size"])
    out[pos] = INodeFile.permission
    pos = _put_fixed64(out, pos + 1, row["permission"])
    for i in range(row["block_count"]):
        block = blocks[row["blocks_offset"] + i]
        out[pos] = INodeFile.blocks
        pos = put_varint(out, pos + 1, _block_size(block))
        out[pos] = BlockProto.blockId
        pos = put_varint(out, pos + 1, block["id"])
        out[pos] = BlockProto.genStamp
        pos = put_varint(out, pos + 1, block["genstamp"])
        out[pos] = BlockProto.numBytes
        pos = put_varint(out, pos + 1, block["num_bytes"])
    if row["flags"] & UNDER_CONSTRUCTION:
        out[pos] = INodeFile.fileUC
        pos = put_varint(out, pos + 1, _client_size(row, pool))
        out[pos] = FileUnderConstructionFeature.clientName
        pos = _put_string(out, pos + 1, pool, arena, row["client_name"])
        out[pos] = FileUnderConstructionFeature.clientMachine
        pos = _put_string(out, pos + 1, pool, arena, row["client_machine"])
    if policies:
        out[pos] = INodeFile.storagePolicyID
        pos = put_varint(out, pos + 1, np.int64(row["policy"]))
    if block_types:
        out[pos] = INodeFile.blockType
        out[pos + 1] = row["block_type"]
        pos += 2
    if row["ec_policy"] >= 0:
        out[pos] = INodeFile.erasureCodingPolicyID
        pos = put_varint(out, pos + 1, np.int64(row["ec_policy"]))
    return pos


@lean_kernel
def _put_directory(out, pos, row):
    out[pos] = INodeDirectory.modificationTime
    pos = put_varint(out, pos + 1, row["mtime"])
    out[pos] = INodeDirectory.nsQuota
    pos = put_varint(out, pos + 1, row["ns_quota"])
    out[pos] = INodeDirectory.dsQuota
    pos = put_varint(out, pos + 1, row["ds_quota"])
    out[pos] = INodeDirectory.permission
    return _put_fixed64(out, pos + 1, row["permission"])


@kernel
def encode_inodes(rows, wanted, names, blocks, pool, arena, policies, block_types, out, starts):
    """Write the delimited INode records of plain files and directories, in the field order of Hadoop's writer.

    Args:
        rows, names, blocks, wanted: the table, and the numbers of the rows to write, which have no FEATURES.
        pool, arena: client names and machines; see `BytesTable`.
        policies, block_types: whether INodeFile has storagePolicyID and blockType.
        out, starts: results: `encoded_size` bytes; the offset of each record, and the end.
    """
    pos = 0
    for k in range(wanted.size):
        starts[k] = pos
        _prefetch_rows(rows, wanted, k, names, blocks)
        row = rows[wanted[k]]
        body = _body_size(row, blocks, pool, policies, block_types)
        name_length = np.int64(row["name_length"])
        size = 5 + varint_size(row["id"]) + varint_size(name_length) + name_length + varint_size(body) + body
        pos = put_varint(out, pos, size)
        out[pos] = INode.type
        out[pos + 1] = row["kind"]
        out[pos + 2] = INode.id
        pos = put_varint(out, pos + 3, row["id"])
        out[pos] = INode.name
        pos = put_varint(out, pos + 1, name_length)
        copy_bytes(out, pos, names, row["name_offset"], name_length)
        pos += name_length
        out[pos] = INode.file if row["kind"] == FILE else INode.directory
        pos = put_varint(out, pos + 1, body)
        if row["kind"] == FILE:
            pos = _put_file(out, pos, row, blocks, pool, arena, policies, block_types)
        else:
            pos = _put_directory(out, pos, row)
    starts[wanted.size] = pos
