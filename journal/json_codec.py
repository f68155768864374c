"""Operations as JSON lines: the layout version, then one object per operation with the catalogue's attribute names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from journal.edits_text import EditsDocument, check_txid
from journal.errors import EditsTextError
from journal.operation import EditOp, OpField
from journal.ops import by_name

# Errors that occur if the JSON is not an operation.
BAD_JSON = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
_LAYOUT = "layoutVersion"


def op_to_json(op: EditOp) -> str:
    """Return `{"opcode":"OP_MKDIR","txid":5,...}` on one line of ASCII; bytes are hexadecimal."""
    return json.dumps({"opcode": op.name, "txid": op.txid, **fields_to_json(op)}, separators=(",", ":"))


def fields_to_json(op: EditOp) -> dict[str, Any]:
    """Return the fields of `op` in order, as JSON values."""
    return {item.name: item.kind.to_json(getattr(op, item.name)) for item in op.fields}


def op_from_json(line: str) -> EditOp:
    """Return the operation in a line; missing members receive their default values.

    Raises:
        EditsTextError: the line is not an operation.
    """
    txid = None
    try:
        members = json.loads(line)
        cls = by_name(members.pop("opcode"))
        txid = check_txid(members.pop("txid"))
        fields = {item.name: item for item in cls.fields}
        return cls(txid=txid, **{name: field_from_json(fields[name], value) for name, value in members.items()})
    except BAD_JSON as error:
        raise EditsTextError(f"not an operation in JSON: {error!r}", txid=txid) from None


def field_from_json(item: OpField, value: Any) -> Any:
    """Return the value of a field, given the form that `fields_to_json` returns.

    Raises:
        ValueError: the field cannot have this value.
    """
    if value is None and item.default is None:
        return None
    try:
        return item.kind.from_json(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{item.name}: {error}") from None


def dump_json(ops: Iterable[EditOp], layout_version: int) -> Iterator[str]:
    """Yield the lines of a log, with their line feeds: `{"layoutVersion":-63}`, then the operations."""
    yield json.dumps({_LAYOUT: layout_version}, separators=(",", ":")) + "\n"
    for op in ops:
        yield op_to_json(op) + "\n"


def parse_json(lines: Iterable[bytes], *, file: str = "") -> EditsDocument:
    """Parse the output of `dump_json`, skipping empty lines.

    Raises:
        EditsTextError: the first line has no layout version, or, during iteration, a line is not an operation.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    number, first = next(numbered, (1, b""))
    try:
        header = json.loads(first)
        layout_version = header[_LAYOUT]
        if type(layout_version) is not int or len(header) != 1:
            raise ValueError(f"{_LAYOUT} is {layout_version!r}")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        problem = f'the first line does not have the form {{"{_LAYOUT}":-63}}: {error!r}'
        raise EditsTextError(problem, file=file, line=number) from None
    return EditsDocument(layout_version, _ops(numbered, file))


def _ops(numbered: Iterator[tuple[int, bytes]], file: str) -> Iterator[EditOp]:
    for number, line in numbered:
        try:
            yield op_from_json(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise EditsTextError(f"not UTF-8: {error}", file=file, line=number) from None
        except EditsTextError as error:
            raise error.in_file(file, line=number) from None
