"""Primitive encodings of operations (Java's DataOutput, Hadoop's Text, WritableUtils, DeprecatedUTF8)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from mmap import mmap
from struct import Struct

from hadoop_common.java_utf8 import decode_java_utf8
from journal.errors import CorruptOpError, OpEncodingError

Buffer = bytes | bytearray | memoryview | mmap

_BYTE = Struct(">b")
_UINT16 = Struct(">H")
_SHORT = Struct(">h")
_INT = Struct(">i")
_LONG = Struct(">q")
_UNIT = Struct("<H")
_LEADS = ((0x80, 0, 1), (0xE0, 0xC0, 2), (0xF0, 0xE0, 3), (0xF8, 0xF0, 4))
"""Classes of first bytes: mask, expected bits, and the number of bytes of the character."""
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1


def decode_cesu8(raw: bytes) -> str:
    """Decode DeprecatedUTF8 (UTF-8 for each UTF-16 unit); surrogate pairs are joined, and lone surrogates remain.

    Malformed sequences are decoded to the same characters as in Hadoop's UTF8.readChars.

    Raises:
        ValueError: Hadoop refuses `raw`.
    """
    if raw.isascii():
        return raw.decode("ascii")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        try:
            units = raw.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")
        except UnicodeDecodeError:
            units = b"".join(_UNIT.pack(unit) for unit in _units(raw))
        return units.decode("utf-16-le", "surrogatepass")


def _units(raw: bytes) -> Iterator[int]:
    """Yield UTF-16 units as UTF8.readChars does: the first byte determines the length; the other bytes are not
    checked.
    """
    position = 0
    while position < len(raw):
        lead = raw[position]
        length = next((size for mask, marks, size in _LEADS if lead & mask == marks), 0)
        if not length or position + length > len(raw):
            raise ValueError(f"byte {lead:#04x} at position {position} does not begin a character")
        code = lead & (0x7F >> length if length > 1 else 0x7F)
        for byte in raw[position + 1 : position + length]:
            code = code << 6 | byte & 0x3F
        position += length
        if length < 4:
            yield code
        else:
            yield (code >> 10) + 0xD7C0
            yield (code & 0x3FF) + 0xDC00


def encode_cesu8(text: str) -> bytes:
    """Encode DeprecatedUTF8, the inverse of `decode_cesu8`: three bytes for each surrogate."""
    if text.isascii():
        return text.encode("ascii")
    return _ASTRAL.sub(_surrogates, text).encode("utf-8", "surrogatepass")


def _surrogates(match: re.Match[str]) -> str:
    code = ord(match[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


class PrimitiveReader:
    """Reader of primitives in `buffer[position:limit]`; every method advances `position`.

    Every method raises CorruptOpError, without a position, if the bytes end early or are invalid.
    """

    __slots__ = ("buffer", "limit", "position")

    def __init__(self, buffer: Buffer, position: int = 0, limit: int | None = None) -> None:
        self.buffer = buffer
        self.position = position
        self.limit = len(buffer) if limit is None else limit

    @property
    def remaining(self) -> int:
        return self.limit - self.position

    def take(self, size: int) -> bytes:
        start = self.position
        end = start + size
        if size < 0 or end > self.limit:
            raise CorruptOpError(f"{size} bytes expected, but {self.limit - start} are left")
        self.position = end
        return bytes(self.buffer[start:end])

    def i8(self) -> int:
        return self._fixed(_BYTE)

    def u8(self) -> int:
        position = self.position
        if position >= self.limit:
            raise CorruptOpError("1 byte expected, but 0 are left")
        self.position = position + 1
        return self.buffer[position]

    def boolean(self) -> bool:
        return self.u8() != 0

    def i16(self) -> int:
        return self._fixed(_SHORT)

    def u16(self) -> int:
        return self._fixed(_UINT16)

    def i32(self) -> int:
        return self._fixed(_INT)

    def i64(self) -> int:
        position = self.position
        end = position + 8
        if end > self.limit:
            raise CorruptOpError(f"8 bytes expected, but {self.limit - position} are left")
        self.position = end
        value: int = _LONG.unpack_from(self.buffer, position)[0]
        return value

    def _fixed(self, form: Struct) -> int:
        position = self.position
        end = position + form.size
        if end > self.limit:
            raise CorruptOpError(f"{form.size} bytes expected, but {self.limit - position} are left")
        self.position = end
        value: int = form.unpack_from(self.buffer, position)[0]
        return value

    def string(self) -> str:
        """Read STR: a 16-bit byte length and DeprecatedUTF8."""
        buffer = self.buffer
        start = self.position + 2
        limit = self.limit
        if start > limit:
            raise CorruptOpError(f"2 bytes expected, but {limit - self.position} are left")
        end = start + _UINT16.unpack_from(buffer, start - 2)[0]
        if end > limit:
            raise CorruptOpError(f"a string of {end - start} bytes, but {limit - start} are left")
        self.position = end
        raw = bytes(buffer[start:end])
        try:
            return decode_cesu8(raw)
        except ValueError as error:
            raise CorruptOpError(f"a string is not UTF-8: {error}") from None

    def text(self) -> str:
        """Read TEXT: a VINT byte length and UTF-8."""
        return decode_java_utf8(self.take(self.vint()))

    def vlong(self) -> int:
        """Read VLONG of WritableUtils: -112..127 in one byte, other values as a length byte and the magnitude."""
        first = self.i8()
        if first >= -112:
            return first
        if first >= -120:
            return self._magnitude(-112 - first)
        return ~self._magnitude(-120 - first)

    def _magnitude(self, size: int) -> int:
        value = int.from_bytes(self.take(size), "big")
        if value > _LONG_MAX:
            raise CorruptOpError("a variable-length number is beyond 64 bits")
        return value

    def vint(self) -> int:
        """Read VINT: a VLONG within 32 bits."""
        value = self.vlong()
        if not -(1 << 31) <= value < 1 << 31:
            raise CorruptOpError(f"variable-length number {value} is beyond 32 bits")
        return value

    def count(self, size: int, smallest: int, what: str) -> int:
        """Return `size` if `size` elements of at least `smallest` bytes each fit in the remaining input."""
        if size < 0 or size * smallest > self.limit - self.position:
            raise CorruptOpError(f"{size} {what} do not fit in the {self.limit - self.position} bytes left")
        return size

    def bytes16(self) -> bytes:
        """Read BYTES: a 16-bit length and the bytes."""
        return self.take(self.u16())

    def bytes32(self) -> bytes:
        """Read BytesWritable: a 32-bit length and the bytes."""
        return self.take(self.i32())

    def varint(self) -> int:
        """Read a protobuf varint of at most 32 bits."""
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise CorruptOpError("a protobuf length has more than 5 bytes")
        if value >= 1 << 31:
            raise CorruptOpError(f"protobuf length {value} is beyond 31 bits")
        return value

    def delimited(self) -> bytes:
        """Read a varint length and a protobuf message of this length; return the message's bytes."""
        return self.take(self.varint())


def _pack(out: bytearray, form: Struct, value: int, what: str) -> None:
    try:
        out += form.pack(value)
    except struct.error:
        raise OpEncodingError(f"{value!r} does not fit in {what}") from None


def write_byte(out: bytearray, value: int) -> None:
    _pack(out, _BYTE, value, "a signed byte")


def write_bool(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def write_short(out: bytearray, value: int) -> None:
    _pack(out, _SHORT, value, "a 16-bit number")


def write_unsigned_short(out: bytearray, value: int) -> None:
    _pack(out, _UINT16, value, "an unsigned 16-bit number")


def write_int(out: bytearray, value: int) -> None:
    _pack(out, _INT, value, "a 32-bit number")


def write_long(out: bytearray, value: int) -> None:
    _pack(out, _LONG, value, "a 64-bit number")


def write_str(out: bytearray, value: str) -> None:
    """Write STR; refuse a string of more than 65535 bytes, because Hadoop would truncate it."""
    write_bytes16(out, encode_cesu8(value))


def write_bytes16(out: bytearray, value: bytes) -> None:
    if len(value) > 0xFFFF:
        raise OpEncodingError(f"a string of {len(value)} bytes exceeds the limit of 65535 bytes")
    out += _UINT16.pack(len(value))
    out += value


def write_bytes32(out: bytearray, value: bytes) -> None:
    write_int(out, len(value))
    out += value


def write_text(out: bytearray, value: str) -> None:
    try:
        raw = value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise OpEncodingError(f"a text field cannot contain this string: {error}") from None
    write_vint(out, len(raw))
    out += raw


def write_vlong(out: bytearray, value: int) -> None:
    """Write VLONG in its shortest form, as Hadoop does."""
    if -112 <= value <= 127:
        out += _BYTE.pack(value)
        return
    if not _LONG_MIN <= value <= _LONG_MAX:
        raise OpEncodingError(f"{value} does not fit in a 64-bit number")
    magnitude = value if value >= 0 else ~value
    size = (magnitude.bit_length() + 7) // 8
    out += _BYTE.pack((-112 if value >= 0 else -120) - size)
    out += magnitude.to_bytes(size, "big")


def write_vint(out: bytearray, value: int) -> None:
    """Write VINT: a VLONG that must fit in 32 bits."""
    if not -(1 << 31) <= value < 1 << 31:
        raise OpEncodingError(f"{value} does not fit in a 32-bit number")
    write_vlong(out, value)


def write_varint(out: bytearray, value: int) -> None:
    """Write a protobuf varint; `value` must not be negative."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_delimited(out: bytearray, message: bytes) -> None:
    """Write the length of a protobuf message as a varint, and then the message."""
    write_varint(out, len(message))
    out += message
