"""Operations as JSON lines: one object an operation, with the attribute names of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from journal.errors import CorruptOpError
from journal.operation import EditOp
from journal.ops import by_name

__all__ = ["dump_json", "op_from_json", "op_to_json"]


def op_to_json(op: EditOp) -> str:
    """`{"opcode":"OP_MKDIR","txid":5,...}` on one line of ASCII; bytes are in hexadecimal."""
    members = {item.name: item.kind.to_json(getattr(op, item.name)) for item in op.fields}
    return json.dumps({"opcode": op.name, "txid": op.txid, **members}, separators=(",", ":"))


def op_from_json(line: str) -> EditOp:
    """The operation of one line; members that are left out take their defaults.

    Raises:
        CorruptOpError: the line is no such object.
    """
    try:
        members = json.loads(line)
        cls = by_name(members.pop("opcode"))
        kinds = {item.name: item.kind for item in cls.fields}
        txid = members.pop("txid")
        values = {name: kinds[name].from_json(value) for name, value in members.items()}
        return cls(txid=txid, **values)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptOpError(f"no operation in JSON: {error!r}") from None


def dump_json(ops: Iterable[EditOp]) -> Iterator[str]:
    """One line for each of `ops`, with its line feed."""
    for op in ops:
        yield op_to_json(op) + "\n"
