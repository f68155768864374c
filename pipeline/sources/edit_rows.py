"""Rows of the `edits` table: maps fields of operations to columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from journal.json_codec import op_to_json
from journal.op_times import op_time
from journal.operation import EditOp
from journal.ops import NO_CALL_ID, OPERATIONS, CloseOp, ConcatDeleteOp, UpdateMasterKeyOp
from pipeline.schema import Table

_Getter = Callable[[EditOp], Any]


class EditRow(NamedTuple):
    """A transaction and its `approximate_time` in ms since 1970, or None for a segment without any time."""

    op: EditOp
    approximate: int | None


def record_batch(rows: Sequence[EditRow], table: Table, segment: str) -> pa.RecordBatch:
    """Convert `rows` of one segment to a batch with the columns of `table`."""
    arrays = []
    for column in table.columns:
        if column.name == "segment":
            values: list[Any] = [segment] * len(rows)
        elif column.name == "approximate_time":
            values = [_micros(row.approximate) for row in rows]
        else:
            getters = _getters(column.name)
            values = [getters[row.op.opcode](row.op) for row in rows]
        arrays.append(_strings(values) if column.type == pa.string() else pa.array(values, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow_schema())


def _strings(values: list[str | None]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if value is None else _unicode(value) for value in values], pa.string())


def _unicode(value: str) -> str:
    """Replace unpaired surrogates, which Java's encoding allows and UTF-8 does not, with U+FFFD."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _micros(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds * 1000


@functools.cache
def _getters(column: str) -> dict[int, _Getter]:
    """Return the getter of a column's value for each opcode."""
    if column in _COMMON:
        return dict.fromkeys(OPERATIONS, _COMMON[column])
    return {opcode: _getter(column, operation) for opcode, operation in OPERATIONS.items()}


def _fields(op: EditOp) -> str:
    if isinstance(op, UpdateMasterKeyOp):
        op = replace(op, key=op.key._replace(key=None))
    return op_to_json(op)


_COMMON: dict[str, _Getter] = {
    "txid": attrgetter("txid"),
    "op": attrgetter("name"),
    "opcode": attrgetter("opcode"),
    "time": lambda op: _micros(op_time(op)),
    "fields": _fields,
}

# The source fields of each column; the value comes from the first field that an operation has.
_SOURCES: dict[str, tuple[str, ...]] = {
    "path": ("path", "src", "trg", "snapshot_root", "directive.path"),
    "target": ("dst", "target"),
    "inode_id": ("inode_id",),
    "owner": ("permissions.user", "username"),
    "group": ("permissions.group", "groupname"),
    "permission": ("permissions.mode", "mode"),
    "client_name": ("client_name", "new_holder"),
    "client_machine": ("client_machine",),
    "length": ("blocks",),
    "block_count": ("blocks",),
    "replication": ("replication",),
    "rpc_client_id": ("rpc_client_id",),
    "rpc_call_id": ("rpc_call_id",),
}


def _getter(column: str, operation: type[EditOp]) -> _Getter:
    if operation is ConcatDeleteOp and column == "target":
        return attrgetter("trg")
    if operation is CloseOp and column == "inode_id":  # Hadoop writes 0, and the inode already exists.
        return _nothing
    present = {item.name for item in operation.fields}
    source = next((each for each in _SOURCES[column] if each.split(".")[0] in present), None)
    if source is None:
        return _nothing
    get = attrgetter(source)
    if column == "length":
        return lambda op: _int64(sum(block.num_bytes for block in get(op)))
    if column == "block_count":
        return lambda op: len(get(op))
    if column == "rpc_call_id":
        return lambda op: None if get(op) == NO_CALL_ID else get(op)
    if column in _EMPTY_IS_NULL:
        return lambda op: get(op) or None
    return get


_EMPTY_IS_NULL = {"inode_id", "client_name", "client_machine", "rpc_client_id"}


def _int64(value: int) -> int | None:
    return value if -(1 << 63) <= value < 1 << 63 else None


def _nothing(op: EditOp) -> None:
    return None
