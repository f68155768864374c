"""The messages of `fsimage.proto` as numeric tables, with which kernels check whether a parser would accept a record.

A message's number is its position in `MESSAGES`. A field's code contains its wire type in the lowest three bits and its
kind in the next three. The higher bits contain the number of its message type, or a bit for each value of its enum. The
code of an unused field number is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from image_format.kernels.wire import DELIMITED, FIXED32, FIXED64, VARINT
from image_format.layout import supports
from image_format.proto import fsimage_pb2 as pb
from image_format.storage_policies import TYPES_SINCE

PLAIN, MESSAGE, ENUM, REPEATED_NUMBER = 1, 2, 3, 4
"""Kinds of fields; a repeated number may be packed or not."""
KIND_SHIFT, EXTRA_SHIFT, KIND_MASK = 3, 6, 7
MAX_FIELD = 15
"""The highest field number in the tables."""

Fields = npt.NDArray[np.int64]

_WIRE_TYPES = {
    FieldDescriptor.TYPE_STRING: DELIMITED,
    FieldDescriptor.TYPE_BYTES: DELIMITED,
    FieldDescriptor.TYPE_MESSAGE: DELIMITED,
    FieldDescriptor.TYPE_FIXED32: FIXED32,
    FieldDescriptor.TYPE_FIXED64: FIXED64,
}

MESSAGES: tuple[type[Message], ...] = tuple(
    found for name in pb.DESCRIPTOR.message_types_by_name if issubclass(found := getattr(pb, name), Message)
)
_NUMBERS = {each.DESCRIPTOR.name: number for number, each in enumerate(MESSAGES)}


def number_of(message: type[Message]) -> int:
    """Return the number of a message in the tables."""
    return _NUMBERS[message.DESCRIPTOR.name]


def _code(field: Any) -> int:
    wire, kind, extra = _WIRE_TYPES.get(field.type, VARINT), PLAIN, 0
    # Nested message types belong to the FileSummary, which is not a record.
    if field.message_type is not None and field.message_type.name in _NUMBERS:
        kind, extra = MESSAGE, _NUMBERS[field.message_type.name]
    elif field.enum_type is not None:
        kind = ENUM
        for value in field.enum_type.values:
            extra |= 1 << value.number
    elif field.is_repeated and wire != DELIMITED:
        kind = REPEATED_NUMBER
    return wire | kind << KIND_SHIFT | extra << EXTRA_SHIFT


def _tables() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    fields = np.zeros((len(MESSAGES), MAX_FIELD + 1), np.int64)
    required = np.zeros(len(MESSAGES), np.int64)
    for number, message in enumerate(MESSAGES):
        for field in message.DESCRIPTOR.fields:
            fields[number, field.number] = _code(field)
            required[number] |= int(field.is_required) << field.number
    return fields, required


FIELDS, REQUIRED = _tables()
"""Codes by message and field number; bit masks of the required fields by message."""

STORAGE_TYPE = number_of(pb.QuotaByStorageTypeEntryProto), pb.QuotaByStorageTypeEntryProto.STORAGETYPE_FIELD_NUMBER
"""Index of the code of a quota's storage type in `FIELDS`."""


def fields_of(layout_version: int) -> npt.NDArray[np.int64]:
    """Return `FIELDS` for the releases of a layout, which may not know all storage types."""
    fields = FIELDS.copy()
    for name, since in TYPES_SINCE.items():
        if not supports(since, layout_version):
            fields[STORAGE_TYPE] &= ~(1 << pb.StorageTypeProto.Value(name) << EXTRA_SHIFT)
    return fields


def quota_types(record: Message) -> Iterator[int]:
    """Yield the storage types of the quotas in the record of an inode, a snapshot, or a directory's diff."""
    directory: Any = record
    if isinstance(record, pb.Snapshot):
        directory = record.root.directory
    elif isinstance(record, pb.INode):
        directory = record.directory
    elif isinstance(record, pb.DirectoryDiff):
        directory = record.snapshotCopy
    if isinstance(directory, pb.INodeDirectory):
        yield from (quota.storageType for quota in directory.typeQuotas.quotas)
