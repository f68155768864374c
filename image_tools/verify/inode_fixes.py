"""Correction of the records of INODE and of the section's header."""

from __future__ import annotations

import numpy as np

from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.java_numbers import UINT64
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from image_tools.verify.fixes import Fixes
from image_tools.verify.inodes import InodeArrays
from image_tools.verify.kernels import attribute_audit as bits
from image_tools.verify.strings import StringTableCheck

_NAMES = bits.USER | bits.GROUP | bits.ACL_NAME | bits.XATTR_NAME
_REWRITTEN = bits.KIND | bits.REPLICATION | bits.BOTH_REDUNDANCIES | bits.LAYOUT | bits.IMPOSSIBLE | bits.NAME
_BODIES = {pb.INode.FILE: "file", pb.INode.DIRECTORY: "directory", pb.INode.SYMLINK: "symlink"}
# Too many replicas only waste space; too few risk the loss of data.
_REPLICATION = 3
_BLOCK_SIZE = 134217728


def fix_inodes(inodes: InodeArrays, strings: StringTableCheck, fixes: Fixes) -> None:
    """Rewrite flagged records, drop records that a later record replaces, and correct the header.

    Raises:
        RecordError: a record cannot be decoded.
    """
    wanted = _REWRITTEN | (_NAMES if strings.moves else 0)
    flagged = inodes.flags & wanted != 0
    flagged[inodes.shadowed] = False
    for slot in np.flatnonzero(flagged).tolist():
        message = inodes.message(slot)
        _fix_record(message, int(inodes.flags[slot]))
        if strings.moves:
            strings.move(getattr(message, _BODIES[message.type]))
        fixes.replace("INODE", *inodes.span(slot), encode_delimited(message))
    for slot in inodes.shadowed.tolist():
        fixes.replace("INODE", *inodes.span(slot), b"")
    fix_header(inodes, fixes, inodes.count - inodes.shadowed.size)


def fix_header(inodes: InodeArrays, fixes: Fixes, count: int, *, last_id: int = 0) -> None:
    """Set the header's inode count, and raise lastInodeId to at least `last_id` and the largest id in use."""
    header = pb.INodeSection()
    header.CopyFrom(inodes.header)
    highest = int(inodes.ids[-1]) if inodes.ids.size else 0
    if header.numInodes != count:
        header.numInodes = count
    wanted = max(header.lastInodeId, highest, last_id)
    if header.lastInodeId != wanted:
        header.lastInodeId = wanted
    if header != inodes.header:
        fixes.replace("INODE", 0, inodes.records_start, encode_delimited(header))


def _fix_record(message: pb.INode, flags: int) -> None:
    if flags & bits.KIND:
        _fix_kind(message)
    if flags & bits.NAME:
        message.name = b"" if message.id == ROOT_INODE_ID else b"inode-%d" % message.id
    if message.type == pb.INode.FILE:
        _fix_file(message.file, flags)
    elif message.type == pb.INode.DIRECTORY and flags & bits.IMPOSSIBLE:
        for field in ("nsQuota", "dsQuota"):
            if (1 << 63) <= getattr(message.directory, field) < UINT64:
                setattr(message.directory, field, UINT64)


def _fix_kind(message: pb.INode) -> None:
    """Keep only the message of the record's type; if it is missing, set the type to match an existing message."""
    if message.HasField(_BODIES[message.type]):
        for kind, name in _BODIES.items():
            if kind != message.type:
                message.ClearField(name)
        return
    message.type = next(kind for kind, name in _BODIES.items() if message.HasField(name))


def _fix_file(file: pb.INodeFile, flags: int) -> None:
    if flags & bits.REPLICATION:
        file.replication = _REPLICATION
    if flags & bits.BOTH_REDUNDANCIES:
        file.ClearField("replication")
    if flags & bits.LAYOUT:
        file.blockType = pb.STRIPED
    if not flags & bits.IMPOSSIBLE:
        return
    if not 1 <= file.preferredBlockSize < 1 << 48:
        file.preferredBlockSize = _BLOCK_SIZE
    if file.storagePolicyID > 15:
        file.storagePolicyID = 0
    for block in file.blocks:
        if block.numBytes >> 63:
            block.numBytes = 0
        if block.genStamp >> 63:
            block.genStamp = 0
