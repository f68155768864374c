"""Rare features of inodes (ACL, xattrs, storage type quotas, symlink target), and their protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from hadoop_common.java_numbers import unsigned64
from image_format.kernels.inode import INODE_DTYPE
from image_format.proto import fsimage_pb2 as pb


@dataclass(slots=True)
class Features:
    """Features that few inodes have.

    Attributes:
        acl: `AclFeatureProto.entries`, each packed with string table serials; None if the feature is missing.
        xattrs: (`XAttrCompactProto.name` packed, value) in order; None if the feature is missing.
        type_quotas: map from `StorageTypeProto` number to quota in bytes, for directories only.
        target: target of a symlink.
    """

    acl: tuple[int, ...] | None = None
    xattrs: tuple[tuple[int, bytes | None], ...] | None = None
    type_quotas: dict[int, int] = field(default_factory=dict)
    target: bytes | None = None

    def empty(self) -> bool:
        """Return whether the inode has no features."""
        return self.acl is None and self.xattrs is None and not self.type_quotas and self.target is None

    def copy(self) -> Features:
        return Features(self.acl, self.xattrs, dict(self.type_quotas), self.target)


class RowCopy(NamedTuple):
    """Copy of an inode: the bytes of its row, and its features; a message is built only when it is needed."""

    data: bytes
    features: Features

    @property
    def entry(self) -> np.void:
        entry: np.void = np.frombuffer(self.data, INODE_DTYPE)[0]
        return entry


def read_lists(found: Features, body: pb.INodeFile | pb.INodeDirectory) -> None:
    if body.HasField("acl"):
        found.acl = tuple(body.acl.entries)
    if body.HasField("xAttrs"):
        found.xattrs = tuple((x.name, x.value if x.HasField("value") else None) for x in body.xAttrs.xAttrs)


def fill_lists(body: pb.INodeFile | pb.INodeDirectory, found: Features) -> None:
    if found.acl is not None:
        body.acl.SetInParent()
        body.acl.entries.extend(found.acl)
    if found.xattrs is not None:
        body.xAttrs.SetInParent()
        for name, value in found.xattrs:
            body.xAttrs.xAttrs.add(name=name, value=value)


def fill_directory(directory: pb.INodeDirectory, entry: np.void, found: Features) -> None:
    """Fill `directory` from a row and its features."""
    directory.modificationTime = unsigned64(int(entry["mtime"]))
    directory.nsQuota = unsigned64(int(entry["ns_quota"]))
    directory.dsQuota = unsigned64(int(entry["ds_quota"]))
    directory.permission = int(entry["permission"])
    fill_lists(directory, found)
    for storage_type, quota in found.type_quotas.items():
        directory.typeQuotas.SetInParent()
        # a NameNode does not write this quota into images
        if storage_type != pb.RAM_DISK:
            directory.typeQuotas.quotas.add(storageType=storage_type, quota=unsigned64(quota))


def has_unknown_fields(message: Message) -> bool:
    """Return whether `message`, or a message in it, has fields unknown to this version."""
    if len(UnknownFieldSet(message)):
        return True
    nested: Iterable[Message] = (
        item
        for descriptor, value in message.ListFields()
        if descriptor.message_type
        for item in (value if descriptor.is_repeated else [value])
    )
    return any(has_unknown_fields(item) for item in nested)
