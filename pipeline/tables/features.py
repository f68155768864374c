"""Columns of the tables of rare features: `acls` and `xattrs`."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import Column, Table

_ID = "fsimage.proto INodeSection.INode.id"
_ACL = "fsimage.proto INodeSection.INode{File,Directory}.acl"
_XATTR = "fsimage.proto INodeSection.INode{File,Directory}.xAttrs"


def _inode() -> tuple[Column, Column]:
    return (
        Column("inode_id", pa.int64(), "Inode id.", _ID, nullable=False),
        Column(
            "path",
            pa.string(),
            "Absolute path in the current tree; null for inodes only in snapshots.",
            "fsimage.proto INodeSection.INode.name",
        ),
    )


ACLS = Table(
    "acls",
    "The ACL entries in addition to the mode bits, a row each. The mode bits contain the entries of the owner and of "
    "others, which have no row; the group bits contain the mask.",
    (
        *_inode(),
        Column("index", pa.int32(), "Position in the ACL, from 0.", f"{_ACL}.entries", nullable=False),
        Column(
            "scope",
            pa.string(),
            "ACCESS, or DEFAULT for entries that new children of a directory inherit.",
            f"{_ACL}.entries, AclEntryScope",
            nullable=False,
        ),
        Column("type", pa.string(), "USER, GROUP, MASK or OTHER.", f"{_ACL}.entries, AclEntryType", nullable=False),
        Column(
            "name",
            pa.string(),
            "User or group; null for owner, owning group, mask and others.",
            f"{_ACL}.entries, StringTableSection",
        ),
        Column("permission", pa.string(), "Permission, e.g. r-x.", f"{_ACL}.entries, FsAction", nullable=False),
    ),
)

XATTRS = Table(
    "xattrs",
    "The extended attributes, a row each, including those of HDFS itself.",
    (
        *_inode(),
        Column("index", pa.int32(), "Position among the inode's attributes, from 0.", _XATTR, nullable=False),
        Column(
            "namespace",
            pa.string(),
            "USER, TRUSTED, SECURITY, SYSTEM or RAW.",
            f"{_XATTR}.name, XAttr.NameSpace",
            nullable=False,
        ),
        Column("name", pa.string(), "Name without the namespace.", f"{_XATTR}.name, StringTableSection"),
        Column("value", pa.binary(), "Value in bytes; null for an attribute without a value.", f"{_XATTR}.value"),
    ),
)
