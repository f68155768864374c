"""Frames of Hadoop IPC: a 32-bit length, then length-delimited protobuf messages (RpcHeader.proto)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from hadoop_rpc.errors import RpcProtocolError

MAX_FRAME = 128 << 20
"""Largest frame in bytes, unless a server limits it (`ipc.maximum.response.length` of Hadoop 3)."""

M = TypeVar("M", bound=Message)
_LENGTH = struct.Struct(">i")
_MAX_VARINT = 5
_WITH_STRINGS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE)


def frame(*parts: bytes) -> bytes:
    return b"".join((_LENGTH.pack(sum(map(len, parts))), *parts))


def delimited(message: Message | bytes) -> bytes:
    """Return a message preceded by its length as a varint."""
    body = message if isinstance(message, bytes) else message.SerializeToString()
    length = len(body)
    prefix = bytearray()
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + body


def parse(kind: type[M], body: bytes) -> M:
    """Parse a message and reject strings that are not UTF-8, for which protobuf would return bytes.

    Raises:
        DecodeError: `body` is not a message of `kind`.
    """
    message = kind()
    message.ParseFromString(body)
    _check_strings(message)
    return message


def _check_strings(message: Message) -> None:
    for field, value in message.ListFields():
        if field.type not in _WITH_STRINGS:
            continue
        for each in value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (value,):
            if isinstance(each, Message):
                _check_strings(each)
            elif isinstance(each, bytes):
                raise DecodeError(f"{field.name} is not UTF-8: {each[:100]!r}")


class RpcFrameBuffer:
    """A buffer that reassembles frames from received bytes.

    Attributes:
        limit: maximum frame size in bytes.
        limited_by: configuration key of the limit, for errors.
    """

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.limit = limit
        self.limited_by = ""
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def feed(self, data: bytes) -> None:
        self._data += data

    def take(self, count: int) -> bytes | None:
        """Return the next `count` raw bytes, or None while fewer bytes are available."""
        if len(self._data) < count:
            return None
        with memoryview(self._data) as data:
            taken = bytes(data[:count])
        del self._data[:count]
        return taken

    def peek(self, count: int) -> bytes:
        """Return up to `count` of the next bytes without consuming them."""
        return bytes(self._data[:count])

    def next_frame(self) -> bytes | None:
        """Return the next complete frame without its length, or None while it is incomplete.

        Raises:
            RpcProtocolError: the length is negative or above the limit.
        """
        if len(self._data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._data)
        if not 0 <= length <= self.limit:
            key = f" ({self.limited_by})" if self.limited_by else ""
            raise RpcProtocolError(f"a frame of {length} bytes was announced, expected 0 to {self.limit}{key}")
        if len(self._data) < _LENGTH.size + length:
            return None
        self.take(_LENGTH.size)
        return self.take(length)


class DelimitedReader:
    """A reader of the delimited messages of one frame."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def done(self) -> bool:
        return self._position == len(self._data)

    def read(self, kind: type[M], limit: int = MAX_FRAME) -> M:
        """Return the next message, of type `kind` and at most `limit` bytes.

        Raises:
            RpcProtocolError: the message is truncated, too long or malformed.
        """
        start, name = self._position, kind.DESCRIPTOR.name
        body = self.read_bytes()
        if len(body) > limit:
            raise RpcProtocolError(f"a {name} has {len(body)} bytes, expected {limit} at most")
        try:
            return parse(kind, body)
        except DecodeError as fault:
            raise RpcProtocolError(f"byte {start} of a frame does not begin a {name}: {fault}") from fault

    def read_bytes(self) -> bytes:
        """Return the body of the next message.

        Raises:
            RpcProtocolError: the message is truncated.
        """
        length = self._read_length()
        end = self._position + length
        if end > len(self._data):
            raise RpcProtocolError(
                f"a message of {length} bytes at byte {self._position} exceeds a frame of {len(self._data)} bytes"
            )
        body = self._data[self._position : end]
        self._position = end
        return body

    def _read_length(self) -> int:
        value = 0
        for index in range(_MAX_VARINT):
            if self._position >= len(self._data):
                break
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value
        raise RpcProtocolError(f"byte {self._position} of a frame does not end a message length")
