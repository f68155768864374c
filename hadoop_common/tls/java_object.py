"""Parser of Java serialization as used in key stores: objects with plain fields, strings and byte arrays.

Chapter 6 of the Java Object Serialization Specification defines the format.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from hadoop_common.tls.errors import KeyStoreError

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _ARRAY, _END = 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x78
_FIRST_HANDLE = 0x7E0000
_SERIALIZABLE = 2
_SIZES = {"B": 1, "C": 2, "D": 8, "F": 4, "I": 4, "J": 8, "S": 2, "Z": 1}
_MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class JavaObject:
    """An object: its class name, and its fields with the fields of its superclasses."""

    kind: str
    fields: dict[str, Any]


@dataclass(slots=True)
class _Class:
    name: str
    fields: list[tuple[str, str]]
    parent: _Class | None = None


class ByteReader:
    """A reader of big-endian values, starting at `position`."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes; raise KeyStoreError if there are fewer."""
        taken = self.data[self.position : self.position + count]
        if len(taken) < count:
            raise KeyStoreError(
                f"the key store ends at byte {len(self.data)}; {count} bytes from byte {self.position} were expected"
            )
        self.position += count
        return taken

    def number(self, code: str) -> int:
        """Read a number with a format letter of `struct`."""
        return int(struct.unpack(f">{code}", self.take(struct.calcsize(f">{code}")))[0])

    def block(self) -> bytes:
        """Read bytes that are preceded by their count."""
        return self.take(self.number("I"))

    def text(self) -> str:
        """Read a string that DataOutput.writeUTF wrote."""
        begin = self.position
        try:
            return self.take(self.number("H")).decode("utf-8")
        except UnicodeDecodeError as fault:
            raise KeyStoreError(f"at byte {begin}: the text is not UTF-8") from fault


def read_object(reader: ByteReader) -> JavaObject:
    """Read the serialized object at the position of `reader` and advance past it.

    Raises:
        KeyStoreError: the data is not a supported object; the message gives the position.
    """
    begin = reader.position
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise KeyStoreError(f"at byte {begin}: not a serialized Java object, which begins with {_MAGIC.hex()}")
    found = _Objects(reader).read()
    if not isinstance(found, JavaObject):
        raise KeyStoreError(f"at byte {begin}: a serialized Java value that is not an object")
    return found


class _Objects:
    """The objects of one stream. Values are numbered; later values refer to an earlier value by its number."""

    def __init__(self, reader: ByteReader) -> None:
        self._reader = reader
        self._handles: list[Any] = []
        self._depth = 0

    def read(self) -> Any:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._fault(f"Java objects nested more than {_MAX_DEPTH} deep")
        tag = self._reader.number("B")
        if tag == _NULL:
            found = None
        elif tag == _REFERENCE:
            found = self._referred()
        elif tag == _STRING:
            found = self._new(self._reader.text())
        elif tag == _ARRAY:
            found = self._array()
        elif tag == _OBJECT:
            found = self._object()
        else:
            raise self._fault(f"a Java value with the tag {tag:#x}")
        self._depth -= 1
        return found

    def _array(self) -> bytes:
        kind = self._class()
        if kind is None or kind.name != "[B":
            raise self._fault("a Java array that is not a byte array")
        at = self._reserve()
        self._handles[at] = self._reader.block()
        return bytes(self._handles[at])

    def _object(self) -> JavaObject:
        kind = self._class()
        if kind is None:
            raise self._fault("a Java object without a class")
        found = JavaObject(kind.name, {})
        self._new(found)
        above: list[_Class] = []
        each: _Class | None = kind
        while each is not None:
            above.append(each)
            each = each.parent
        for level in reversed(above):
            for code, name in level.fields:
                found.fields[name] = self._reader.take(_SIZES[code]) if code in _SIZES else self.read()
        return found

    def _class(self) -> _Class | None:
        """Read a class description with its superclasses."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._fault(f"more than {_MAX_DEPTH} Java superclasses")
        tag = self._reader.number("B")
        if tag == _CLASS:
            found = self._described()
        elif tag == _NULL:
            found = None
        elif tag == _REFERENCE and isinstance(referred := self._referred(), _Class):
            found = referred
        else:
            raise self._fault("a value that is not the description of a Java class")
        self._depth -= 1
        return found

    def _described(self) -> _Class:
        name = self._reader.text()
        self._reader.take(8)  # serialVersionUID
        found = _Class(name, [])
        self._new(found)
        flags = self._reader.number("B")
        if flags != _SERIALIZABLE:
            raise self._fault(f"the Java class {name!a} has its own serialization (flags {flags})")
        for _ in range(self._reader.number("H")):
            code = chr(self._reader.number("B"))
            field = self._reader.text()
            if code in "[L":
                self.read()
            elif code not in _SIZES:
                raise self._fault(f"the field {field!a} of {name!a} is of the unknown type {code!a}")
            found.fields.append((code, field))
        if self._reader.number("B") != _END:
            raise self._fault(f"the Java class {name!a} has annotations")
        found.parent = self._class()
        return found

    def _new(self, value: Any) -> Any:
        self._handles.append(value)
        return value

    def _reserve(self) -> int:
        self._handles.append(None)
        return len(self._handles) - 1

    def _referred(self) -> Any:
        number = self._reader.number("I") - _FIRST_HANDLE
        if not 0 <= number < len(self._handles):
            raise self._fault("a reference to a missing Java value")
        return self._handles[number]

    def _fault(self, problem: str) -> KeyStoreError:
        return KeyStoreError(f"unsupported content before byte {self._reader.position}: {problem}")
