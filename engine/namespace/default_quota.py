"""The namespace quota that Hadoop's loader gives to a directory that has only storage type quotas.

Replay maintains only quotas, not their usage. An image contains no usage, because a NameNode computes the usage when it
loads the image.
"""

from __future__ import annotations

from image_format.inode_table import InodeTable
from image_format.kernels.inode import DIRECTORY, DIRTY, UNKNOWN_FIELDS
from image_format.proto import fsimage_pb2 as pb

MAX_QUOTA = (1 << 63) - 1


def set_row_default(table: InodeTable, row: int) -> None:
    """Set the namespace quota of a directory that has only storage type quotas to the largest possible value."""
    limited = table.kind[row] == DIRECTORY and bool(table.feature(row).type_quotas)
    if limited and table.ns_quota[row] < 0 and table.ds_quota[row] < 0 and not table.flags[row] & UNKNOWN_FIELDS:
        table.ns_quota[row] = MAX_QUOTA
        table.flags[row] |= DIRTY


def set_record_default(directory: pb.INodeDirectory) -> bool:
    """Set this quota in the record of a directory in a snapshot; return whether the record changed."""
    if not (directory.typeQuotas.quotas and directory.nsQuota >> 63 and directory.dsQuota >> 63):
        return False
    directory.nsQuota = MAX_QUOTA
    return True
