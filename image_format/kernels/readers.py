"""Kernels that read a whole message in one call, generated from the declarations in `fsimage.proto`.

A reader is a kernel with the arguments (buf, pos, end) for the message in `buf[pos:end]`. It returns the values of its
fields in their order, followed by a status. If a number occurs twice, its last value is returned. A number of fixed
width is returned as its position. A field of bytes or a message is returned as two values: position of its first byte,
and size; the position is -1 if the field is missing.

The status is `ALONE`, `MORE` or `DAMAGED`. A message without a field that `fsimage.proto` requires is `DAMAGED`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.message import Message

from image_format.kernels import tags
from image_format.kernels.jit import Kernel, lean_kernel
from image_format.kernels.wire import DELIMITED, VARINT, WIRE_TYPE, next_field
from image_format.proto import fsimage_pb2 as pb

ALONE = 0
"""The message is complete and contains only the fields that were read."""
MORE = 1
"""The message is complete and also contains other fields."""
DAMAGED = -1
"""The message is truncated, or a required field is missing."""


ABSENT = -1 << 63
"""Value of a missing number, for a reader that distinguishes a missing number from 0."""


def _reader(message: type[Message], **absent: int) -> Kernel:
    """Generate a reader.

    Args:
        absent: the fields to read, each with its value if missing; for bytes and messages, this value is the size.
    """
    fields = message.DESCRIPTOR.fields_by_name
    tag_of = getattr(tags, message.DESCRIPTOR.name)
    start: list[str] = []
    choices: list[str] = []
    results: list[str] = []
    required = 0
    for name, default in absent.items():
        tag = getattr(tag_of, name)
        choice = [f"        {'elif' if choices else 'if'} tag == {tag}:"]
        if tag & WIRE_TYPE == DELIMITED:
            names = [f"{name}_start", f"{name}_size"]
            start += [f"    {name}_start = np.int64(-1)", f"    {name}_size = np.int64({default})"]
            choice += [f"            {name}_start = start", f"            {name}_size = value"]
        else:
            names = [name]
            start += [f"    {name} = np.int64({default})"]
            choice += [f"            {name} = {'value' if tag & WIRE_TYPE == VARINT else 'start'}"]
        if fields[name].is_required:
            required |= 1 << fields[name].number
            choice += [f"            seen |= {1 << fields[name].number}"]
        choices += choice
        results += names
    function = f"read_{message.DESCRIPTOR.name}"
    lines = [
        f"def {function}(buf, pos, end):",
        *start,
        "    seen = np.int64(0)",
        f"    status = np.int64({ALONE})",
        "    while 0 <= pos < end:",
        "        tag, value, start, pos = next_field(buf, pos, end)",
        *choices,
        "        else:",
        f"            status = np.int64({MORE})",
        f"    if pos < 0 or seen & {required} != {required}:",
        f"        status = np.int64({DAMAGED})",
        f"    return {', '.join([*results, 'status'])}",
    ]
    names_of: dict[str, Any] = {"__name__": __name__, "np": np, "next_field": next_field}
    source = "\n".join(lines)
    exec(compile(source, __file__, "exec"), names_of)
    made = names_of[function]
    made.generated_source = source
    return lean_kernel(made)


read_inode = _reader(pb.INode, type=0, id=0)
"""(type, id, status)."""
read_block = _reader(pb.BlockProto, blockId=0, genStamp=0, numBytes=0)
"""(blockId, genStamp, numBytes, status)."""
read_redundancy = _reader(
    pb.INodeFile, replication=ABSENT, preferredBlockSize=0, storagePolicyID=0, blockType=0, erasureCodingPolicyID=ABSENT
)
"""(replication, preferredBlockSize, storagePolicyID, blockType, erasureCodingPolicyID, status) of an INodeFile."""
read_xattr = _reader(pb.XAttrCompactProto, name=-1, value=0)
"""(position of name, first byte and size of value, status)."""
read_type_quota = _reader(pb.QuotaByStorageTypeEntryProto, storageType=0, quota=0)
"""(storageType, quota, status)."""
read_parent = _reader(pb.DirEntry, parent=0)
"""(parent, status) of a DirEntry."""
read_reference = _reader(pb.INodeReference, referredId=0, name=0, dstSnapshotId=ABSENT, lastSnapshotId=ABSENT)
"""(referredId, first byte and size of name, dstSnapshotId, lastSnapshotId, status)."""
read_open_file = _reader(pb.FileUnderConstructionEntry, inodeId=ABSENT, fullPath=0)
"""(inodeId, first byte and size of fullPath, status)."""
read_diff_entry = _reader(pb.DiffEntry, type=0, inodeId=0, numOfDiff=0)
"""(type, inodeId, numOfDiff, status)."""
read_directory_diff = _reader(pb.DirectoryDiff, snapshotId=0, isSnapshotRoot=0, createdListSize=0)
"""(snapshotId, isSnapshotRoot, createdListSize, status); also reads the snapshotId of a FileDiff."""
read_created_name = _reader(pb.CreatedListEntry, name=0)
"""(first byte and size of name, status)."""
