"""Columns of what few inodes have: `acls` and `xattrs`."""

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
            "Absolute path in the current tree; null for what only snapshots hold.",
            "fsimage.proto INodeSection.INode.name",
        ),
    )


ACLS = Table(
    "acls",
    "The ACL entries beyond the mode bits, a row each. The entries of an ACL's owner and others are the mode bits "
    "themselves and are not repeated here; its mask is in the mode's group bits.",
    (
        *_inode(),
        Column("index", pa.int32(), "Position in the ACL, from 0 on.", f"{_ACL}.entries", nullable=False),
        Column(
            "scope",
            pa.string(),
            "ACCESS, or DEFAULT for what new children of a directory get.",
            f"{_ACL}.entries, AclEntryScope",
            nullable=False,
        ),
        Column("type", pa.string(), "USER, GROUP, MASK or OTHER.", f"{_ACL}.entries, AclEntryType", nullable=False),
        Column(
            "name",
            pa.string(),
            "User or group; null for the owner's, the owning group's, the mask and others.",
            f"{_ACL}.entries, StringTableSection",
        ),
        Column("permission", pa.string(), "Such as r-x.", f"{_ACL}.entries, FsAction", nullable=False),
    ),
)

XATTRS = Table(
    "xattrs",
    "The extended attributes, a row each, those that HDFS itself keeps included.",
    (
        *_inode(),
        Column("index", pa.int32(), "Position among the inode's, from 0 on.", _XATTR, nullable=False),
        Column(
            "namespace",
            pa.string(),
            "USER, TRUSTED, SECURITY, SYSTEM or RAW.",
            f"{_XATTR}.name, XAttr.NameSpace",
            nullable=False,
        ),
        Column("name", pa.string(), "Name without the namespace.", f"{_XATTR}.name, StringTableSection"),
        Column("value", pa.binary(), "Value as it is; null for an attribute without one.", f"{_XATTR}.value"),
    ),
)
