"""Kinds of fields with more than one number or string: blocks, permissions and times."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any

from hadoop_common.quantities import counted
from journal import primitives
from journal.errors import CorruptOpError
from journal.kinds import FieldGroup, FieldKind, Json, XmlSink
from journal.primitives import PrimitiveReader
from journal.values import Block, PermissionStatus
from journal.xml_element import XmlElement

_BLOCK = Struct(">qqq")
_MAX_BLOCKS = 1024 * 1024 * 64


def json_of_tuple(value: Any) -> Json:
    """Return a named tuple as a JSON object, without absent members."""
    return {name: member for name, member in value._asdict().items() if member is not None}


def tuple_of_json(cls: Callable[..., Any]) -> Callable[[Json], Any]:
    """Return the inverse of `json_of_tuple` for `cls`. It raises TypeError for unknown members or wrong types."""
    types = typing.get_type_hints(cls)

    def build(value: Json) -> Any:
        made = cls(**value)
        for name, member in zip(types, made, strict=True):
            if isinstance(member, bool) or not isinstance(member, types[name]):
                raise TypeError(f"{name} is {str(member)[:40]!r}")
        return made

    return build


def list_to_json(value: Iterable[Any] | None) -> Json:
    return None if value is None else [json_of_tuple(item) for item in value]


def list_from_json(cls: Callable[..., Any]) -> Callable[[Json], Any]:
    build = tuple_of_json(cls)
    return lambda value: tuple(map(build, value))


def _read_block_array(reader: PrimitiveReader) -> tuple[Block, ...]:
    size = reader.i32()
    if size == 0:
        return ()
    if size > _MAX_BLOCKS:
        raise CorruptOpError(f"more than {_MAX_BLOCKS} blocks: {size}")
    raw = reader.take(reader.count(size, _BLOCK.size, "blocks") * _BLOCK.size)
    return tuple(map(Block._make, _BLOCK.iter_unpack(raw)))


def _write_block_array(out: bytearray, value: tuple[Block, ...]) -> None:
    primitives.write_int(out, len(value))
    for block in value:
        for number in block:
            primitives.write_long(out, number)


def _read_compact_blocks(reader: PrimitiveReader) -> tuple[Block, ...]:
    size = reader.count(reader.vint(), 10, "blocks")
    blocks = []
    num_bytes = genstamp = 0
    for _ in range(size):
        block_id = reader.i64()
        num_bytes += reader.vlong()
        genstamp += reader.vlong()
        blocks.append(Block(block_id, num_bytes, genstamp))
    return tuple(blocks)


def _write_compact_blocks(out: bytearray, value: tuple[Block, ...]) -> None:
    primitives.write_vlong(out, len(value))
    num_bytes = genstamp = 0
    for block in value:
        primitives.write_long(out, block.block_id)
        primitives.write_vlong(out, block.num_bytes - num_bytes)
        primitives.write_vlong(out, block.genstamp - genstamp)
        _, num_bytes, genstamp = block


def _xml_blocks(sink: XmlSink, tag: str, value: tuple[Block, ...]) -> None:
    for block in value:
        sink.open(tag)
        sink.leaf("BLOCK_ID", str(block.block_id))
        sink.leaf("NUM_BYTES", str(block.num_bytes))
        sink.leaf("GENSTAMP", str(block.genstamp))
        sink.close(tag)


def _blocks_from_xml(element: XmlElement, tag: str) -> tuple[Block, ...]:
    return tuple(
        Block(item.integer("BLOCK_ID"), item.integer("NUM_BYTES"), item.integer("GENSTAMP"))
        for item in element.every(tag)
    )


BLOCK_ARRAY = FieldKind(
    "BLOCKARR",
    _read_block_array,
    _write_block_array,
    _xml_blocks,
    _blocks_from_xml,
    list_to_json,
    list_from_json(Block),
)
COMPACT_BLOCKS = FieldKind(
    "CBLOCKS",
    _read_compact_blocks,
    _write_compact_blocks,
    _xml_blocks,
    _blocks_from_xml,
    list_to_json,
    list_from_json(Block),
)


def _read_truncate_block(reader: PrimitiveReader) -> Block | None:
    blocks = _read_compact_blocks(reader)
    if len(blocks) > 1:
        raise CorruptOpError(f"a truncate has {counted(len(blocks), 'block')} instead of at most 1")
    return blocks[0] if blocks else None


def _write_truncate_block(out: bytearray, value: Block | None) -> None:
    _write_compact_blocks(out, () if value is None else (value,))


def _xml_truncate_block(sink: XmlSink, tag: str, value: Block | None) -> None:
    _xml_blocks(sink, tag, () if value is None else (value,))


def _truncate_block_from_xml(element: XmlElement, tag: str) -> Block | None:
    blocks = _blocks_from_xml(element, tag)
    if len(blocks) > 1:
        raise element.fault(f"a truncate has {counted(len(blocks), 'block')} instead of at most 1")
    return blocks[0] if blocks else None


TRUNCATE_BLOCK = FieldKind(
    "CBLOCKS of 0 or 1",
    _read_truncate_block,
    _write_truncate_block,
    _xml_truncate_block,
    _truncate_block_from_xml,
    lambda value: None if value is None else json_of_tuple(value),
    tuple_of_json(Block),
)


def _read_permissions(reader: PrimitiveReader) -> PermissionStatus:
    return PermissionStatus(reader.text(), reader.text(), reader.u16())


def _write_permissions(out: bytearray, value: PermissionStatus) -> None:
    primitives.write_text(out, value.user)
    primitives.write_text(out, value.group)
    primitives.write_unsigned_short(out, value.mode)


def _xml_permissions(sink: XmlSink, tag: str, value: PermissionStatus) -> None:
    sink.open(tag)
    sink.leaf("USERNAME", value.user)
    sink.leaf("GROUPNAME", value.group)
    sink.leaf("MODE", str(value.mode & 0o1777))
    sink.close(tag)


def _permissions_from_xml(element: XmlElement, tag: str) -> PermissionStatus:
    found = element.one(tag)
    return PermissionStatus(found.string("USERNAME"), found.string("GROUPNAME"), found.integer("MODE"))


PERMISSION_STATUS = FieldKind(
    "PERM",
    _read_permissions,
    _write_permissions,
    _xml_permissions,
    _permissions_from_xml,
    json_of_tuple,
    tuple_of_json(PermissionStatus),
)


def _read_timestamp_twice(reader: PrimitiveReader) -> tuple[int, int | None]:
    timestamp, again = reader.i64(), reader.i64()
    return timestamp, None if again == timestamp else again


def _write_timestamp_twice(out: bytearray, timestamp: int, again: int | None) -> None:
    primitives.write_long(out, timestamp)
    primitives.write_long(out, timestamp if again is None else again)


TIMESTAMP_TWICE = FieldGroup("timestamp, repeated as the access time", _read_timestamp_twice, _write_timestamp_twice)
