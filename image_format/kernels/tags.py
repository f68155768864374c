"""Tags of the image's messages as constants for kernels, from the descriptors of `fsimage.proto`.

A tag is the number of a field with its wire type, as written: `INode.name` is 26. A repeated number is written in
packed form, but may be read in both forms: `DirEntry.children` is the tag of the packed form, and
`DirEntry.children_unpacked` is the tag of a single number. For varints, `tag | DELIMITED` is the packed form in both
cases.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from image_format.kernels.wire import DELIMITED, FIXED32, FIXED64, VARINT
from image_format.proto import fsimage_pb2 as pb

_WIRE_TYPES = {
    **dict.fromkeys((FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64), VARINT),
    **dict.fromkeys((FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_BOOL), VARINT),
    **dict.fromkeys((FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES), DELIMITED),
    FieldDescriptor.TYPE_MESSAGE: DELIMITED,
    FieldDescriptor.TYPE_FIXED32: FIXED32,
    FieldDescriptor.TYPE_FIXED64: FIXED64,
}


def _tags(message: type[Message]) -> Any:
    """Return a named tuple, which compiled code treats as constants; the compiler rejects an unknown field name."""
    tags = {}
    for field in message.DESCRIPTOR.fields:
        tags[field.name] = field.number << 3 | _WIRE_TYPES[field.type]
        if field.is_packed:
            tags[f"{field.name}_unpacked"] = tags[field.name]
            tags[field.name] = field.number << 3 | DELIMITED
    return namedtuple(message.DESCRIPTOR.name, tags)(**tags)


INode = _tags(pb.INode)
INodeFile = _tags(pb.INodeFile)
INodeDirectory = _tags(pb.INodeDirectory)
INodeSymlink = _tags(pb.INodeSymlink)
BlockProto = _tags(pb.BlockProto)
FileUnderConstructionEntry = _tags(pb.FileUnderConstructionEntry)
FileUnderConstructionFeature = _tags(pb.FileUnderConstructionFeature)
AclFeatureProto = _tags(pb.AclFeatureProto)
XAttrFeatureProto = _tags(pb.XAttrFeatureProto)
XAttrCompactProto = _tags(pb.XAttrCompactProto)
QuotaByStorageTypeFeatureProto = _tags(pb.QuotaByStorageTypeFeatureProto)
QuotaByStorageTypeEntryProto = _tags(pb.QuotaByStorageTypeEntryProto)
DirEntry = _tags(pb.DirEntry)
INodeReference = _tags(pb.INodeReference)
Snapshot = _tags(pb.Snapshot)
DiffEntry = _tags(pb.DiffEntry)
FileDiff = _tags(pb.FileDiff)
DirectoryDiff = _tags(pb.DirectoryDiff)
CreatedListEntry = _tags(pb.CreatedListEntry)
