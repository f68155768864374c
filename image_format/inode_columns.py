"""Decodes INode records to columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from image_format.errors import BufferOrigin, RecordError
from image_format.kernels.inode_columns import COLUMNS, decode_columns

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]


class InodeColumns(NamedTuple):
    """Int64 arrays by field, in the order of the records; a field is 0 if the kind of inode lacks it.

    Attributes:
        kind: FILE, DIRECTORY or SYMLINK of `kernels.inode`.
        permission: bits of the fixed64 of owner, group and mode (`permission.unpack_permission`).
        length: bytes in all blocks.
        mtime, atime: milliseconds since 1970.
        replication: 0 if the record contains no replication, for example for a striped file.
        block_size: preferred size in bytes.
        storage_policy, ec_policy: ids in a file's record, or -1; directories store these ids as xattrs.
        ns_quota, ds_quota: quotas of directories, or -1 if a directory has no quota.
        name_start, name_size: offset and size of the local name in the section, in bytes.
        has_xattrs: 1 for a directory with extended attributes.
    """

    id: Ids
    kind: Ids
    permission: Ids
    length: Ids
    mtime: Ids
    atime: Ids
    replication: Ids
    block_size: Ids
    block_count: Ids
    storage_policy: Ids
    ec_policy: Ids
    ns_quota: Ids
    ds_quota: Ids
    name_start: Ids
    name_size: Ids
    has_xattrs: Ids


def read_inode_columns(buffer: Bytes, offsets: Ids, place: BufferOrigin) -> InodeColumns:
    """Decode the delimited INode records at `offsets` of an INODE section.

    Raises:
        RecordError: a record is damaged.
    """
    out = np.empty((COLUMNS, offsets.size), np.int64)
    damaged = int(decode_columns(buffer, offsets, out))
    if damaged >= 0:
        raise place.error(RecordError, "no inode record", int(offsets[damaged]))
    return InodeColumns(*out)
