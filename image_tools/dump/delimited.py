"""An image as delimited rows, one an inode of the current tree (`hdfs oiv -p Delimited`)."""

from __future__ import annotations

from collections.abc import Iterator

from hadoop_common.inode_ids import ROOT_INODE_ID
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import ImageRecords
from image_tools.dump.tree import ImageTree
from image_tools.dump.values import Names, java_text, local_minutes, mode_symbols, signed32, signed64

__all__ = ["COLUMNS", "dump_delimited", "header_row"]

COLUMNS = (
    "Path",
    "Replication",
    "ModificationTime",
    "AccessTime",
    "PreferredBlockSize",
    "BlocksCount",
    "FileSize",
    "NSQUOTA",
    "DSQUOTA",
    "Permission",
    "UserName",
    "GroupName",
)


def header_row(delimiter: str) -> str:
    """The names of the columns, which the viewer of Hadoop 3.x prints first and that of 2.7 does not."""
    return delimiter.join(COLUMNS) + "\n"


def dump_delimited(records: ImageRecords, delimiter: str = "\t") -> Iterator[str]:
    """A row an inode as Hadoop 2.7.3 prints them, in the order of the INODE section.

    Times are minutes in the process's time zone, sizes are bytes, quotas are 0 for what is no directory. Nothing is
    escaped. An inode in the tree by a reference stands under its current path; what only snapshots hold has no row.

    Raises:
        RecordError: a record is damaged.
    """
    tree = ImageTree(records)
    names = Names(records.image.string_table())
    for inode in records.inodes():
        path = _path(tree, inode)
        if path is not None:
            yield delimiter.join((java_text(path), *_columns(inode, names))) + "\n"


def _path(tree: ImageTree, inode: pb.INode) -> bytes | None:
    if inode.id == ROOT_INODE_ID:
        return b"/"
    directory = tree.directory_path(int(tree.parents[tree.position(inode.id)]))
    return None if directory is None else directory + b"/" + inode.name


def _columns(inode: pb.INode, names: Names) -> tuple[str, ...]:
    replication = modified = accessed = block_size = blocks = size = ns_quota = ds_quota = permission = 0
    if inode.type == pb.INode.FILE:
        file = inode.file
        replication, block_size = signed32(file.replication), signed64(file.preferredBlockSize)
        modified, accessed, permission = file.modificationTime, file.accessTime, file.permission
        blocks, size = len(file.blocks), sum([block.numBytes for block in file.blocks])
    elif inode.type == pb.INode.DIRECTORY:
        directory = inode.directory
        modified, permission = directory.modificationTime, directory.permission
        ns_quota, ds_quota = signed64(directory.nsQuota), signed64(directory.dsQuota)
    else:
        link = inode.symlink
        modified, accessed, permission = link.modificationTime, link.accessTime, link.permission
    owner = names.owner(permission)
    return (
        str(replication),
        local_minutes(signed64(modified)),
        local_minutes(signed64(accessed)),
        str(block_size),
        str(blocks),
        str(size),
        str(ns_quota),
        str(ds_quota),
        mode_symbols(owner.mode),
        "null" if owner.user is None else java_text(owner.user),
        "null" if owner.group is None else java_text(owner.group),
    )
