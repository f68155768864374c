"""Templates for printing messages; with the same template, a kernel prints usual records and Python unusual records.

A template is a list of steps, each of which prints a string or a field. Fields have the names of the schema. In
conditions after a `decide_utf8` step, `name?` means that the bytes of a field are UTF-8. `name!`, which only Python
supports, means that a field is true. Steps print values as Hadoop's viewers do: numbers are signed as in Java, and
absent numbers have their default.
"""

from __future__ import annotations

import base64
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from hadoop_common.java_numbers import signed32, signed64, unsigned64
from image_tools.dump.kernels import program as kernel
from image_tools.dump.kernels.program import Program
from image_tools.dump.values import java_text, local_minutes

__all__ = [
    "CHECKED_FEATURES",
    "CHECKED_QUOTAS",
    "Escape",
    "PrintStep",
    "Program",
    "RecordTemplate",
    "WordFunction",
    "always_inside",
    "decide_utf8",
    "each",
    "inside",
    "literal",
    "put_count",
    "put_data",
    "put_date",
    "put_number",
    "put_path",
    "put_total",
    "put_word",
    "separate",
    "when",
]

Escape = Callable[[str], str]
WordFunction = Callable[[int], str]
"""Function that returns the word for an unsigned number, and raises RecordError for an unknown number."""

_Printer = Callable[[Any, bytes, list[str]], None]
"""Function that prints a message, given the message, the path of its inode, and the strings that precede it."""
ELEMENT = ""
"""Name of the element of a repeated number, used in place of a field's name."""
_SIZES = {
    FieldDescriptor.TYPE_UINT64: 64,
    FieldDescriptor.TYPE_UINT32: 32,
    FieldDescriptor.TYPE_FIXED64: 64,
    FieldDescriptor.TYPE_FIXED32: 32,
    FieldDescriptor.TYPE_INT64: 64,
    FieldDescriptor.TYPE_INT32: 32,
}
_SIGNED = (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_INT32)
_WIRE = {FieldDescriptor.TYPE_FIXED64: 1, FieldDescriptor.TYPE_FIXED32: 5}
_LENGTH = 2
_TEXTS = (FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_STRING)


@dataclass(frozen=True, slots=True)
class PrintStep:
    """A step of a template, created by the functions below.

    Attributes:
        op: operation of `kernels.program`.
        field: name of the field; `inner`: name of a field in its messages.
        text: printed string, or separator of elements.
        kind: kind of the number, for `word`.
        steps: steps for the message or for each element in the field.
        present, absent: fields that must exist, and fields that must not.
    """

    op: int
    field: str = ELEMENT
    inner: str = ""
    text: str = ""
    kind: str = ""
    steps: tuple[PrintStep, ...] = ()
    present: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()


def literal(text: str) -> PrintStep:
    return PrintStep(kernel.LITERAL, text=text)


def put_number(field: str = ELEMENT) -> PrintStep:
    """Return a step that prints a number: the value of `field`, or the element itself."""
    return PrintStep(kernel.NUMBER, field)


def put_data(field: str, form: int = kernel.DATA) -> PrintStep:
    """Return a step that prints bytes or a string, by default escaped and with U+FFFD for invalid UTF-8.

    The forms `HEX` and `BASE64` of `kernels.program` print bytes differently.
    """
    return PrintStep(form, field)


def put_word(kind: str, field: str = ELEMENT) -> PrintStep:
    """Return a step that prints the word for a number, or, for kind "", the name of an enumeration's value."""
    return PrintStep(kernel.WORD, field, kind=kind)


def put_date(field: str) -> PrintStep:
    """Return a step that prints milliseconds as a time to the minute in the process's time zone; 0 if absent."""
    return PrintStep(kernel.DATE, field)


def put_count(field: str) -> PrintStep:
    """Return a step that prints the number of messages."""
    return PrintStep(kernel.COUNT, field)


def put_total(field: str, inner: str) -> PrintStep:
    """Return a step that prints the sum of a field over all messages."""
    return PrintStep(kernel.TOTAL, field, inner)


def put_path(field: str) -> PrintStep:
    """Return a step that prints the path of an inode, whose name is in a field."""
    return PrintStep(kernel.PATH, field)


def separate() -> PrintStep:
    """Return a step that prints a comma unless an opening bracket precedes."""
    return PrintStep(kernel.SEPARATE)


def decide_utf8(field: str) -> PrintStep:
    """Return a step that determines whether a field's bytes are UTF-8, for `name?` conditions."""
    return PrintStep(kernel.TELL, field)


def inside(field: str, *steps: PrintStep) -> PrintStep:
    """Return a step that prints the message in a field, or nothing if the message is absent."""
    return replace(PrintStep(kernel.INSIDE, field, steps=steps), present=frozenset([field]))


def always_inside(field: str, *steps: PrintStep) -> PrintStep:
    """Return a step for Python only that prints the message in a field, or default values if the message is absent."""
    return PrintStep(kernel.INSIDE, field, steps=steps)


def each(field: str, *steps: PrintStep, between: str = "") -> PrintStep:
    return replace(PrintStep(kernel.EACH, field, text=between, steps=steps), present=frozenset([field]))


def when(*steps: PrintStep, present: Iterable[str] = (), absent: Iterable[str] = ()) -> tuple[PrintStep, ...]:
    """Add conditions to steps: fields that must exist, and fields that must not."""
    there, lacking = frozenset(present), frozenset(absent)
    return tuple(replace(step, present=step.present | there, absent=step.absent | lacking) for step in steps)


CHECKED_FEATURES = (inside("acl", each("entries")), inside("xAttrs", each("xAttrs")))
"""Steps that print nothing, but detect damaged ACLs and xattrs, for templates that do not print them."""
CHECKED_QUOTAS = inside("typeQuotas", each("quotas"))
"""Steps that print nothing, but detect damaged quotas, for templates that do not print them."""


class RecordTemplate:
    """A compiled template.

    Attributes:
        kinds: functions that return words, by the number of the kind in `program`.

    Args:
        message: type of the records.
        escape: escapes a string, each character independently.
        words: functions by kind, except for enumerations.
    """

    def __init__(
        self, message: type[Message], steps: Sequence[PrintStep], *, escape: Escape, words: Mapping[str, WordFunction]
    ) -> None:
        self._steps = tuple(_joined(steps))
        self._escape = escape
        self._words = words
        self._shapes: list[Any] = [message.DESCRIPTOR]
        self.kinds: list[WordFunction] = []
        self._kind_numbers: dict[str, int] = {}
        self._rows: list[list[int]] = []
        self._literals = bytearray()

    # ---- for the kernel ------------------------------------------------------------------------------------

    @functools.cached_property
    def program(self) -> Program:
        """The program for the kernel; messages may be nested twice, and once more in a repeated field."""
        self._add(self._steps, self._shapes[0], 0)
        return self._program()

    def _add(self, steps: Iterable[PrintStep], message: Any, level: int) -> None:
        for step in steps:
            row = [0] * kernel.ARGUMENTS
            self._rows.append(row)
            field = message if isinstance(message, FieldDescriptor) else message.fields_by_name.get(step.field)
            row[kernel.OP] = step.op
            row[kernel.FIELD] = level * kernel.WIDTH
            if field is not None and field is not message:
                row[kernel.FIELD] += field.number
            if isinstance(message, Descriptor):
                row[kernel.PRESENT] = _bits(message, step.present)
                row[kernel.ABSENT] = _bits(message, step.absent)
            row[kernel.START] = len(self._literals)
            self._literals += step.text.encode()
            row[kernel.STOP] = len(self._literals)
            self._add_field(step, field, row, level)
            row[kernel.BEHIND] = len(self._rows)

    def _add_field(self, step: PrintStep, field: Any, row: list[int], level: int) -> None:
        if field is None:
            if step.field:
                raise KeyError(step.field)
            return
        if step.op == kernel.NUMBER and _SIZES[field.type] == 32:
            row[kernel.OP] = kernel.NUMBER32
        elif step.op == kernel.DATA and field.type == FieldDescriptor.TYPE_STRING:
            row[kernel.OP] = kernel.STRING
        elif step.op == kernel.WORD:
            row[kernel.SHAPE] = self._kind(step.kind, field)
        elif step.op in (kernel.COUNT, kernel.TOTAL):
            row[kernel.SHAPE] = self._shape(field.message_type)
            row[kernel.START] = field.message_type.fields_by_name[step.inner].number if step.inner else 0
        elif step.op == kernel.INSIDE:
            row[kernel.SHAPE] = self._shape(field.message_type)
            self._add(step.steps, field.message_type, level + 1)
        elif step.op == kernel.EACH:
            inner = field.message_type
            row[kernel.SHAPE] = -_repeats(field) if inner is None else self._shape(inner)
            self._add(step.steps, inner or field, 3)

    def _shape(self, message: Any) -> int:
        if message not in self._shapes:
            self._shapes.append(message)
        return self._shapes.index(message)

    def _kind(self, kind: str, field: Any) -> int:
        name = kind or field.enum_type.full_name
        if name not in self._kind_numbers:
            self._kind_numbers[name] = len(self.kinds)
            self.kinds.append(self._words[kind] if kind else _enumeration(field))
        return self._kind_numbers[name]

    def _program(self) -> Program:
        shape = len(self._shapes), kernel.WIDTH
        tags, repeats, required = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape[0], np.int64)
        for row, message in enumerate(self._shapes):
            for field in message.fields:
                wire = _LENGTH if field.is_repeated or field.type in _TEXTS else _WIRE.get(field.type, 0)
                wire = _LENGTH if field.message_type is not None else wire
                tags[row, field.number] = field.number << 3 | wire
                repeats[row, field.number] = _repeats(field)
                required[row] |= field.is_required << field.number
        texts = [self._escaped(chr(code)) if code < 0x80 else b"" for code in range(256)]
        texts += [self._escaped(character) for character in "\ufffe\uffff"]
        bounds = np.cumsum([0, *map(len, texts)])
        return Program(
            np.array(self._rows, np.int64),
            _octets(self._literals),
            tags,
            repeats,
            required,
            bounds.astype(np.int64),
            _octets(b"".join(texts)),
        )

    def _escaped(self, character: str) -> bytes:
        escaped = self._escape(character)
        return b"" if escaped == character else escaped.encode()

    # ---- in Python -----------------------------------------------------------------------------------------

    def render(self, message: Message, path: bytes = b"") -> str:
        """Print a message; `path` is the path of the inode.

        Raises:
            RecordError: a number is unknown.
        """
        out: list[str] = []
        self._print(message, path, out)
        return "".join(out)

    @functools.cached_property
    def _print(self) -> _Printer:
        return self._printer_of(self._steps, self._shapes[0])

    def _printer_of(self, steps: Iterable[PrintStep], message: Any) -> _Printer:
        """Return a function that prints steps; it tests a condition shared by adjacent steps only once."""
        groups = [
            (
                tuple(_presence(message, name) for name in present),
                tuple(_presence(message, name) for name in absent),
                tuple(self._printer(step, message) for step in group if step.op != kernel.TELL),
            )
            for (present, absent), group in itertools.groupby(steps, lambda step: (step.present, step.absent))
        ]

        def print_groups(value: Any, path: bytes, out: list[str]) -> None:
            for present, absent, printers in groups:
                for has in present:
                    if not has(value):
                        break
                else:
                    for has in absent:
                        if has(value):
                            break
                    else:
                        for printer in printers:
                            printer(value, path, out)

        return print_groups

    def _printer(self, step: PrintStep, message: Any) -> _Printer:
        match step.op:
            case kernel.LITERAL:
                text = step.text
                return lambda _value, _path, out: out.append(text)
            case kernel.SEPARATE:
                return _print_comma
            case kernel.PATH:
                return lambda _value, path, out: out.append(self._escape(java_text(path)))
        field = message if isinstance(message, FieldDescriptor) else message.fields_by_name[step.field]
        # An element is the value itself.
        get: Callable[[Any], Any] = (lambda value: value) if field is message else operator.attrgetter(field.name)
        if step.op == kernel.INSIDE:
            inner = self._printer_of(step.steps, field.message_type)
            return lambda value, path, out: inner(get(value), path, out)
        if step.op == kernel.EACH:
            return _repeated(get, self._printer_of(step.steps, field.message_type or field), step.text)
        word = self._word(step, field)
        return lambda value, _path, out: out.append(word(get(value)))

    def _word(self, step: PrintStep, field: Any) -> Callable[[Any], str]:
        """Return the function that formats the value of a field for a step."""
        match step.op:
            case kernel.NUMBER if field.type in _SIGNED:
                return str
            case kernel.NUMBER:
                signed = signed64 if _SIZES[field.type] == 64 else signed32
                return lambda value: str(signed(value))
            case kernel.WORD:
                return self.kinds[self._kind(step.kind, field)]
            case kernel.DATE:
                return lambda value: local_minutes(signed64(value))
            case kernel.COUNT:
                return lambda value: str(len(value))
            case kernel.TOTAL:
                inner = step.inner
                return lambda value: str(signed64(unsigned64(sum([getattr(item, inner) for item in value]))))
            case kernel.HEX:
                return lambda value: bytes(value).hex()
            case kernel.BASE64:
                return lambda value: base64.b64encode(value).decode("ascii")
        return lambda value: self._escape(java_text(value))


def _print_comma(_value: Any, _path: bytes, out: list[str]) -> None:
    if out[-1][-1:] not in "[{":
        out.append(",")


def _repeated(get: Callable[[Any], Any], inner: _Printer, between: str) -> _Printer:
    def print_elements(value: Any, path: bytes, out: list[str]) -> None:
        for index, element in enumerate(get(value)):
            if index and between:
                out.append(between)
            inner(element, path, out)

    return print_elements


def _presence(message: Any, name: str) -> Callable[[Any], bool]:
    """Return a test for a field of a message."""
    if name.endswith("!"):
        return operator.attrgetter(name[:-1])
    if name.endswith("?"):
        get = operator.attrgetter(name[:-1])
        return lambda value: _is_utf8(get(value))
    if message.fields_by_name[name].is_repeated:
        return operator.attrgetter(name)
    return lambda value: bool(value.HasField(name))


def _joined(steps: Iterable[PrintStep]) -> Iterator[PrintStep]:
    """Combine adjacent literal strings of steps."""
    waiting: PrintStep | None = None
    for step in steps:
        inner = replace(step, steps=tuple(_joined(step.steps)))
        if waiting is not None:
            if inner.op == kernel.LITERAL and (inner.present, inner.absent) == (waiting.present, waiting.absent):
                waiting = replace(waiting, text=waiting.text + inner.text)
                continue
            yield waiting
            waiting = None
        if inner.op == kernel.LITERAL:
            waiting = inner
        else:
            yield inner
    if waiting is not None:
        yield waiting


def _is_utf8(value: bytes | str) -> bool:
    if isinstance(value, str):
        return True
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _bits(message: Descriptor, names: Iterable[str]) -> int:
    numbers = [kernel.IS_TEXT if name.endswith("?") else message.fields_by_name[name].number for name in names]
    return sum(1 << number for number in numbers)


def _repeats(field: FieldDescriptor) -> int:
    if not field.is_repeated:
        return kernel.SINGLE
    if field.message_type is not None:
        return kernel.MESSAGES
    return kernel.PACKED32 if field.type == FieldDescriptor.TYPE_FIXED32 else kernel.PACKED_NUMBERS


def _enumeration(field: Any) -> WordFunction:
    values = field.enum_type.values_by_number
    return lambda value: str(values[value].name)


def _octets(data: bytes | bytearray) -> kernel.Bytes:
    return np.frombuffer(bytes(data), np.uint8).copy()
