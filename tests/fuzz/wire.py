"""Splits and rejoins the protobuf wire format, so that a mutation deep inside does not break the enclosing lengths."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from image_format.varint import decode_varint, encode_varint

Mutate = Callable[[bytes], bytes]
"""A function of the fuzzer that changes some bytes."""

INTERESTING = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    0x7FFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)
_MAX_DEPTH = 5

_Item = TypeVar("_Item")


class Field(NamedTuple):
    """A field of a message; `value` excludes the tag and the length."""

    tag: int
    value: bytes

    def encode(self) -> bytes:
        size = encode_varint(len(self.value)) if self.tag & 7 == 2 else b""
        return encode_varint(self.tag) + size + self.value


def split_records(body: bytes) -> list[bytes]:
    """Return the delimited messages without their lengths; remaining bytes are one record."""
    records, position = [], 0
    while position < len(body):
        try:
            size, start = decode_varint(body, position)
        except Exception:  # the remaining bytes
            size, start = len(body), position
        records.append(body[start : start + size])
        position = start + size
    return records


def mutate_records(body: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Change, drop, repeat or move one of the delimited messages in `body`."""
    records = split_records(body)
    if not records or rng.random() < 0.1:
        return mutate(body)
    number = rng.randrange(len(records))
    choice = rng.random()
    if choice < 0.7:
        records[number] = mutate_message(records[number], rng, mutate)
    else:
        _rearrange(records, number, choice, rng)
    return b"".join(encode_varint(len(record)) + record for record in records)


def mutate_message(body: bytes, rng: random.Random, mutate: Mutate, depth: int = 0) -> bytes:
    """Change one field of a message, at any depth, and the lengths around it."""
    fields = _split_message(body)
    if not fields or depth == _MAX_DEPTH or rng.random() < 0.1:
        return mutate(body)
    number = rng.randrange(len(fields))
    choice = rng.random()
    if choice < 0.75:
        fields[number] = _mutate_field(fields[number], rng, mutate, depth)
    else:
        _rearrange(fields, number, choice, rng)
    return b"".join(field.encode() for field in fields)


def _mutate_field(field: Field, rng: random.Random, mutate: Mutate, depth: int) -> Field:
    wire = field.tag & 7
    if rng.random() < 0.1:
        return field._replace(tag=max(8, rng.choice([field.tag ^ 1, field.tag + 8, 8 * rng.randrange(1, 20) + wire])))
    if wire == 0:
        value, _ = decode_varint(field.value)
        near = (value + rng.choice([-1, 1, 1 << 32, 1 << 40])) % (1 << 64)
        return field._replace(value=encode_varint(rng.choice([near, rng.choice(INTERESTING)])))
    if wire == 2:
        deeper = rng.random() < 0.7
        return field._replace(
            value=mutate_message(field.value, rng, mutate, depth + 1) if deeper else mutate(field.value)
        )
    return field._replace(value=rng.randbytes(len(field.value)))


def _rearrange(items: list[_Item], number: int, choice: float, rng: random.Random) -> None:
    if choice < 0.8:
        del items[number]
    elif choice < 0.9:
        items.insert(rng.randrange(len(items) + 1), items[number])
    else:
        other = rng.randrange(len(items))
        items[number], items[other] = items[other], items[number]


def _split_message(body: bytes) -> list[Field]:
    """Return the fields of a message, or an empty list if `body` is not a message."""
    fields, position = [], 0
    try:
        while position < len(body):
            tag, position = decode_varint(body, position)
            start = position
            size = {0: None, 1: 8, 2: None, 5: 4}[tag & 7]
            if tag & 7 == 0:
                _, position = decode_varint(body, position)
            else:
                if size is None:
                    size, start = decode_varint(body, position)
                position = start + size
            if position > len(body):
                return []
            fields.append(Field(tag, body[start:position]))
    except Exception:  # not a message
        return []
    return fields
