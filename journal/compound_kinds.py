"""Field kinds that hold more than one number or string: blocks, permissions and times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, NamedTuple

from journal import primitives
from journal.errors import CorruptOpError
from journal.kinds import Json, Kind, Part, XmlSink
from journal.primitives import Reader
from journal.values import Block, PermissionStatus

__all__ = [
    "BLOCK_ARRAY",
    "COMPACT_BLOCKS",
    "PERMISSION_STATUS",
    "TIMESTAMP_TWICE",
    "TRUNCATE_BLOCK",
    "json_of_tuple",
    "list_from_json",
    "list_to_json",
    "tuple_of_json",
]

_BLOCK = Struct(">qqq")
_MAX_BLOCKS = 1024 * 1024 * 64


def json_of_tuple(value: Any) -> Json:
    """A named tuple as an object, without absent members."""
    return {name: member for name, member in value._asdict().items() if member is not None}


def tuple_of_json(cls: Callable[..., Any]) -> Callable[[Json], Any]:
    """The inverse of `json_of_tuple` for named tuple `cls`."""
    return lambda value: cls(**value)


def list_to_json(value: Iterable[Any] | None) -> Json:
    return None if value is None else [json_of_tuple(item) for item in value]


def list_from_json(cls: Callable[..., NamedTuple]) -> Callable[[Json], Any]:
    return lambda value: None if value is None else tuple(cls(**item) for item in value)


# ---- blocks ----


def _read_block_array(reader: Reader) -> tuple[Block, ...]:
    size = reader.i32()
    if size == 0:
        return ()
    if size > _MAX_BLOCKS:
        raise CorruptOpError(f"{size} blocks are more than {_MAX_BLOCKS}")
    raw = reader.take(reader.count(size, _BLOCK.size, "blocks") * _BLOCK.size)
    return tuple(map(Block._make, _BLOCK.iter_unpack(raw)))


def _write_block_array(out: bytearray, value: tuple[Block, ...]) -> None:
    primitives.write_int(out, len(value))
    for block in value:
        for number in block:
            primitives.write_long(out, number)


def _read_compact_blocks(reader: Reader) -> tuple[Block, ...]:
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


BLOCK_ARRAY = Kind("BLOCKARR", _read_block_array, _write_block_array, _xml_blocks, list_to_json, list_from_json(Block))
COMPACT_BLOCKS = Kind(
    "CBLOCKS", _read_compact_blocks, _write_compact_blocks, _xml_blocks, list_to_json, list_from_json(Block)
)


def _read_truncate_block(reader: Reader) -> Block | None:
    blocks = _read_compact_blocks(reader)
    if len(blocks) > 1:
        raise CorruptOpError(f"a truncate names {len(blocks)} blocks, at most 1 is possible")
    return blocks[0] if blocks else None


def _write_truncate_block(out: bytearray, value: Block | None) -> None:
    _write_compact_blocks(out, () if value is None else (value,))


def _xml_truncate_block(sink: XmlSink, tag: str, value: Block | None) -> None:
    _xml_blocks(sink, tag, () if value is None else (value,))


TRUNCATE_BLOCK = Kind(
    "CBLOCKS of 0 or 1",
    _read_truncate_block,
    _write_truncate_block,
    _xml_truncate_block,
    lambda value: None if value is None else json_of_tuple(value),
    lambda value: None if value is None else Block(**value),
)

# ---- permissions and times ----


def _read_permissions(reader: Reader) -> PermissionStatus:
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


PERMISSION_STATUS = Kind(
    "PERM",
    _read_permissions,
    _write_permissions,
    _xml_permissions,
    json_of_tuple,
    tuple_of_json(PermissionStatus),
)


def _read_timestamp_twice(reader: Reader) -> tuple[int, int | None]:
    timestamp, again = reader.i64(), reader.i64()
    return timestamp, None if again == timestamp else again


def _write_timestamp_twice(out: bytearray, timestamp: int, again: int | None) -> None:
    primitives.write_long(out, timestamp)
    primitives.write_long(out, timestamp if again is None else again)


TIMESTAMP_TWICE = Part(
    "timestamp, and again in the slot of the access time", _read_timestamp_twice, _write_timestamp_twice
)
