"""Reads the delimited protobuf messages of a small section in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from image_format.errors import BufferOrigin, RecordError
from image_format.varint import Record, parse_message, read_record

M = TypeVar("M", bound=Message)


class MessageReader:
    """Reader of delimited messages of known types from a section.

    Args:
        section: the section's decompressed bytes; None is treated as empty.
    """

    def __init__(self, section: npt.NDArray[np.uint8] | None, place: BufferOrigin, position: int = 0) -> None:
        self._buffer = memoryview(b"") if section is None else section.data
        self._place = place
        self._pos = position

    @property
    def done(self) -> bool:
        return self._pos >= len(self._buffer)

    @property
    def position(self) -> int:
        """Offset of the next message."""
        return self._pos

    def _next(self) -> Record:
        record = read_record(self._buffer, self._pos, self._place)
        self._pos = record.end
        return record

    def read(self, kind: type[M]) -> M:
        """Return the next message.

        Raises:
            RecordError: the section has no more messages, or the bytes are not a message of that type.
        """
        return parse_message(kind, self._next(), self._place)

    def field_alone(self, tag: int) -> bytes | None:
        """Return the bytes of a message's only field if that field is short; otherwise None, without advancing.

        Args:
            tag: tag of the field, which is one byte.
        """
        start = self._pos
        head = self._buffer[start : start + 3].tobytes()
        if len(head) < 3 or head[0] > 0x7F or head[1] != tag or head[2] != head[0] - 2:
            return None
        end = start + 1 + head[0]
        if end > len(self._buffer):
            return None
        self._pos = end
        return bytes(self._buffer[start + 3 : end])

    def rest(self, kind: type[M], offsets: Iterable[int] | None = None) -> Iterator[M]:
        """Yield the messages at `offsets`, or all remaining messages.

        Raises:
            RecordError: see `read`.
        """
        if offsets is None:
            while not self.done:
                yield self.read(kind)
            return
        for offset in offsets:
            self._pos = offset
            yield self.read(kind)

    def finish(self) -> None:
        """Raise RecordError if bytes follow the last message."""
        if not self.done:
            raise self._place.error(RecordError, "bytes after the last record", self._pos)
