"""Field kinds: codecs of a single value as bytes, as OEV XML and as JSON."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from journal import primitives
from journal.errors import CorruptOpError, OpEncodingError
from journal.primitives import PrimitiveReader
from journal.xml_element import XmlElement

Json = Any


class XmlSink(Protocol):
    """Receiver for the elements of one operation, in order."""

    def leaf(self, tag: str, text: str) -> None: ...
    def open(self, tag: str) -> None: ...
    def close(self, tag: str) -> None: ...


def xml_text(sink: XmlSink, tag: str, value: Any) -> None:
    """Write one element with `str(value)`."""
    sink.leaf(tag, str(value))


def _as_it_is(value: Any) -> Json:
    return value


def json_exactly(expected: type) -> Callable[[Json], Any]:
    """Return a function that checks a JSON value's type and raises TypeError for other types; a bool is not an int."""

    def check(value: Json) -> Any:
        if type(value) is not expected:
            raise TypeError(f"{str(value)[:40]!r} is not of type {expected.__name__}")
        return value

    return check


_json_string = json_exactly(str)


@dataclass(frozen=True, slots=True)
class FieldKind:
    """The codecs of one kind of field.

    `read` raises CorruptOpError, and `write` raises OpEncodingError. `from_xml` removes from the DATA element the
    children that `xml` wrote with the same tag. It raises MissingElementError for missing children, and EditsTextError
    for invalid children. `to_json` and `from_json` are inverse functions; `from_json` raises only errors that
    `op_from_json` catches.
    """

    name: str
    read: Callable[[PrimitiveReader], Any]
    write: Callable[[bytearray, Any], None]
    xml: Callable[[XmlSink, str, Any], None] = xml_text
    from_xml: Callable[[XmlElement, str], Any] = XmlElement.string
    to_json: Callable[[Any], Json] = _as_it_is
    from_json: Callable[[Json], Any] = _json_string


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """Consecutive fields that share one encoding in the file, such as one protobuf message.

    `read` returns the values of the fields in order; `write` accepts them in order.
    """

    name: str
    read: Callable[[PrimitiveReader], tuple[Any, ...]]
    write: Callable[..., None]


def _xml_bool(sink: XmlSink, tag: str, value: bool) -> None:
    sink.leaf(tag, "true" if value else "false")


def _bool_from_xml(element: XmlElement, tag: str) -> bool:
    return bool(element.index(tag, ("false", "true")))


def _number(
    name: str,
    read: Callable[[PrimitiveReader], int],
    write: Callable[[bytearray, int], None],
    xml: Callable[[XmlSink, str, Any], None] = xml_text,
) -> FieldKind:
    return FieldKind(name, read, write, xml, XmlElement.integer, _as_it_is, json_exactly(int))


BYTE = _number("byte", PrimitiveReader.i8, primitives.write_byte)
BOOL = FieldKind(
    "bool", PrimitiveReader.boolean, primitives.write_bool, _xml_bool, _bool_from_xml, _as_it_is, json_exactly(bool)
)
SHORT = _number("short", PrimitiveReader.i16, primitives.write_short)
INT = _number("int", PrimitiveReader.i32, primitives.write_int)
LONG = _number("long", PrimitiveReader.i64, primitives.write_long)
STR = FieldKind("STR", PrimitiveReader.string, primitives.write_str)


def _xml_mode(sink: XmlSink, tag: str, value: int) -> None:
    sink.leaf(tag, str(value & 0o1777))


MODE = _number("MODE", PrimitiveReader.u16, primitives.write_unsigned_short, _xml_mode)


def _read_nullable(reader: PrimitiveReader) -> str | None:
    return reader.string() or None


def _write_nullable(out: bytearray, value: str | None) -> None:
    primitives.write_str(out, value or "")


def _xml_nullable(sink: XmlSink, tag: str, value: str | None) -> None:
    if value is not None:
        sink.leaf(tag, value)


def _nullable_from_xml(element: XmlElement, tag: str) -> str | None:
    return element.optional_string(tag) or None


NULLABLE_STR = FieldKind("STR; empty for null", _read_nullable, _write_nullable, _xml_nullable, _nullable_from_xml)


_UUID = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _read_client_id(reader: PrimitiveReader) -> bytes:
    value = reader.bytes16()
    if len(value) not in (0, 16):
        raise CorruptOpError(f"an RPC client id has 0 or 16 bytes, not {len(value)}")
    return value


def _write_client_id(out: bytearray, value: bytes) -> None:
    if len(value) not in (0, 16):
        raise OpEncodingError(f"an RPC client id has 0 or 16 bytes, not {len(value)}")
    primitives.write_bytes16(out, value)


def _client_id_text(value: bytes) -> str:
    return str(uuid.UUID(bytes=value)) if value else ""


def _client_id_of(text: str) -> bytes:
    if text and _UUID.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is not an RPC client id")
    return uuid.UUID(text).bytes if text else b""


def _xml_client_id(sink: XmlSink, tag: str, value: bytes) -> None:
    sink.leaf(tag, _client_id_text(value))


def _client_id_from_xml(element: XmlElement, tag: str) -> bytes:
    found = element.one(tag)
    try:
        return _client_id_of(found.content())
    except ValueError as error:
        raise found.fault(str(error)) from None


CLIENT_ID = FieldKind(
    "client id", _read_client_id, _write_client_id, _xml_client_id, _client_id_from_xml, _client_id_text, _client_id_of
)

_RENAME_OPTION_NAMES = ("NONE", "OVERWRITE", "TO_TRASH")


def _read_rename_options(reader: PrimitiveReader) -> bytes:
    return _checked_options(reader.bytes32(), CorruptOpError)


def _write_rename_options(out: bytearray, value: bytes) -> None:
    primitives.write_bytes32(out, _checked_options(value, OpEncodingError))


def _checked_options(value: bytes, error: type[CorruptOpError] | type[OpEncodingError]) -> bytes:
    for option in value:
        if option >= len(_RENAME_OPTION_NAMES):
            raise error(f"unknown rename option {option}")
    return value


def _xml_rename_options(sink: XmlSink, tag: str, value: bytes) -> None:
    sink.leaf(tag, "|".join(_RENAME_OPTION_NAMES[option] for option in value))


def _rename_options_from_xml(element: XmlElement, tag: str) -> bytes:
    found = element.one(tag)
    text = found.content()
    try:
        return _options_from_json(text.split("|") if text else [])
    except ValueError:
        raise found.fault(f"unknown rename options {text[:40]!r}") from None


def _options_to_json(value: bytes) -> Json:
    return [_RENAME_OPTION_NAMES[option] for option in value]


def _options_from_json(value: Json) -> bytes:
    return bytes(_RENAME_OPTION_NAMES.index(name) for name in value)


RENAME_OPTIONS = FieldKind(
    "rename options",
    _read_rename_options,
    _write_rename_options,
    _xml_rename_options,
    _rename_options_from_xml,
    _options_to_json,
    _options_from_json,
)

_MAX_CONCAT_SOURCES = 1024 * 1024


def _read_str_list(reader: PrimitiveReader) -> tuple[str, ...]:
    size = reader.count(reader.i32(), 2, "strings")
    if size > _MAX_CONCAT_SOURCES:
        raise CorruptOpError(f"more than {_MAX_CONCAT_SOURCES} concat sources: {size}")
    return tuple(reader.string() for _ in range(size))


def _write_str_list(out: bytearray, value: tuple[str, ...]) -> None:
    if len(value) > _MAX_CONCAT_SOURCES:
        raise OpEncodingError(f"more than {_MAX_CONCAT_SOURCES} concat sources: {len(value)}")
    primitives.write_int(out, len(value))
    for text in value:
        primitives.write_str(out, text)


def _xml_str_list(sink: XmlSink, tag: str, value: tuple[str, ...]) -> None:
    sink.open(tag)
    for number, text in enumerate(value, 1):
        sink.leaf(f"SOURCE{number}", text)
    sink.close(tag)


def _str_list_from_xml(element: XmlElement, tag: str) -> tuple[str, ...]:
    sources = element.one(tag)
    found: list[str] = []
    while (text := sources.optional_string(f"SOURCE{len(found) + 1}")) is not None:
        found.append(text)
    return tuple(found)


def _str_list_from_json(value: Json) -> tuple[str, ...]:
    return tuple(map(_json_string, json_exactly(list)(value)))


STR_LIST = FieldKind(
    "STR list", _read_str_list, _write_str_list, _xml_str_list, _str_list_from_xml, list, _str_list_from_json
)
