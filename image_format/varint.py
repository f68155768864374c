"""Base-128 varints and length-delimited messages (protobuf encoding), in plain Python."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from image_format.errors import BufferOrigin, RecordError

MAX_VARINT_LENGTH = 10
_NOWHERE = BufferOrigin()
_M = TypeVar("_M", bound=Message)


class Record(NamedTuple):
    """Delimited message: `offset` of its length prefix, `body` without the prefix, and `end` after the message."""

    offset: int
    body: memoryview
    end: int


def encode_varint(value: int) -> bytes:
    """Encode an unsigned integer below 2**64.

    Raises:
        ValueError: value is negative or too large.
    """
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} does not fit an unsigned 64-bit varint")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_varint(data: memoryview | bytes, offset: int = 0, place: BufferOrigin = _NOWHERE) -> tuple[int, int]:
    """Decode the unsigned varint at `offset`; return (value below 2**64, offset after the varint).

    Bits beyond the 64th are ignored, as in protobuf.

    Raises:
        RecordError: the buffer ends within the varint, or the varint is longer than ten bytes.
    """
    value = 0
    end = len(data)
    for index in range(MAX_VARINT_LENGTH):
        position = offset + index
        if position >= end:
            raise place.error(RecordError, "the data ends within a varint", offset)
        byte = data[position]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position + 1
    raise place.error(RecordError, f"a varint has more than {MAX_VARINT_LENGTH} bytes", offset)


def read_record(data: memoryview, offset: int = 0, place: BufferOrigin = _NOWHERE) -> Record:
    """Return the delimited message whose length prefix is at `offset`.

    Raises:
        RecordError: the prefix is damaged, or the message exceeds the buffer.
    """
    length, start = decode_varint(data, offset, place)
    if length > len(data) - start:
        message = f"a record of {length} bytes does not fit the {len(data) - start} bytes left"
        raise place.error(RecordError, message, offset)
    return Record(offset, data[start : start + length], start + length)


def iter_records(data: memoryview, offset: int = 0, place: BufferOrigin = _NOWHERE) -> Iterator[Record]:
    """Yield all delimited messages from `offset` to the end of the buffer.

    Raises:
        RecordError: a record is truncated, or its length prefix is damaged.
    """
    while offset < len(data):
        record = read_record(data, offset, place)
        yield record
        offset = record.end


def parse_message(kind: type[_M], record: Record, place: BufferOrigin = _NOWHERE) -> _M:
    """Parse a record as a message of `kind`, keeping unknown fields.

    Raises:
        RecordError: the bytes are not a message of `kind`, a required field is missing, or a string is not UTF-8.
    """
    message = kind()
    try:
        message.ParseFromString(bytes(record.body))
    except DecodeError as error:
        name = kind.DESCRIPTOR.name
        raise place.error(RecordError, f"not a valid {name} message: {error}", record.offset) from error
    # Python's protobuf does not check required fields, and returns text that is not UTF-8 as bytes
    if not message.IsInitialized():
        raise place.error(RecordError, f"{kind.DESCRIPTOR.name} lacks a required field", record.offset)
    if damaged := _damaged_text(message):
        raise place.error(RecordError, f"{damaged} is not UTF-8", record.offset)
    return message


@functools.cache
def _fields_with_text(kind: Descriptor) -> tuple[FieldDescriptor, ...]:
    """Return the fields of a message that are strings or messages that contain strings at any depth."""
    return tuple(
        item
        for item in kind.fields
        if item.type == FieldDescriptor.TYPE_STRING or (item.message_type and _fields_with_text(item.message_type))
    )


def _damaged_text(message: Message) -> str:
    """Return the name of a string field that is not UTF-8, or "" if all string fields are."""
    for item in _fields_with_text(message.DESCRIPTOR):
        if not item.is_repeated and not message.HasField(item.name):
            continue
        value = getattr(message, item.name)
        for element in value if item.is_repeated else (value,):
            if isinstance(element, bytes):
                return item.full_name.partition(".")[2]
            if isinstance(element, Message) and (damaged := _damaged_text(element)):
                return damaged
    return ""


def serialize(message: Message) -> bytes:
    """Return the bytes of a message without a length prefix.

    Raises:
        ValueError: a required field is not set.
    """
    try:
        return message.SerializeToString()
    except EncodeError as error:
        raise ValueError(f"{message.DESCRIPTOR.name} is not complete: {error}") from error


def encode_delimited(message: Message) -> bytes:
    """Return a message preceded by its length as a varint.

    Raises:
        ValueError: a required field is not set.
    """
    body = serialize(message)
    return encode_varint(len(body)) + body
