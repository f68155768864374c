"""Common parts of the XML and JSON readers: a document of operations, checks of their fields, and consecutive txids
(`--fix-txids`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from journal.errors import OpEncodingError
from journal.operation import EditOp
from journal.ops import OPERATIONS

_HINT = "Write the layout version that the text names, or a newer version."


class EditsDocument(NamedTuple):
    """An edit log in text form: its layout version and its operations, which are parsed during iteration."""

    layout_version: int
    ops: Iterator[EditOp]


def check_txid(txid: Any) -> int:
    """Check `txid`, a value from XML or JSON, and return it.

    Raises:
        ValueError: the value is not a transaction id.
    """
    if type(txid) is not int or not 0 <= txid < 1 << 63:
        raise ValueError(f"{str(txid)[:40]} is not a transaction id")
    return txid


def fields_without_xml() -> dict[str, tuple[str, ...]]:
    """Return the fields for which OEV XML has no element, by operation name; conversion through XML loses them."""
    lost = {cls.name: tuple(item.name for item in cls.fields if item.tag is None) for cls in OPERATIONS.values()}
    return {name: fields for name, fields in lost.items() if fields}


def fitting(ops: Iterable[EditOp], layout_version: int) -> Iterator[EditOp]:
    """Yield `ops` after checking that `layout_version` can store each operation completely.

    Raises:
        OpEncodingError: the layout lacks the operation, a field that does not have its default value, or a value that
            newer layouts added to a field.
    """
    for op in ops:
        if not op.present_in(layout_version):
            problem = f"layout version {layout_version} has no {op.name}, which was added in {op.since}"
            raise OpEncodingError(problem, txid=op.txid, hint=_HINT)
        for item in op.fields:
            value = getattr(op, item.name)
            if not item.present_in(layout_version) and value != item.default:
                problem = f"layout version {layout_version} has no {item.name} in {op.name}, which is {value!r}"
                raise OpEncodingError(problem, txid=op.txid, hint=_HINT)
            if (since := item.values_since.get(value)) is not None and layout_version > since:
                problem = f"layout version {layout_version} has no {item.name} {value} in {op.name}, added in {since}"
                raise OpEncodingError(problem, txid=op.txid, hint=_HINT)
        yield op


def existing_values(ops: Iterable[EditOp]) -> Iterator[EditOp]:
    """Yield `ops` after checking that their values exist in Hadoop.

    Edits of a NameNode may contain further values, for example the storage policies of a vendor, which replay accepts.

    Raises:
        OpEncodingError: no layout has the value of a field.
    """
    for op in ops:
        for item in op.fields:
            if item.values_since and (value := getattr(op, item.name)) not in item.values_since:
                problem = f"{op.name} has the {item.name} {value}, which does not exist"
                raise OpEncodingError(problem, txid=op.txid, hint="Hadoop has no such value; correct the operation.")
        yield op


def renumbered(ops: Iterable[EditOp]) -> Iterator[EditOp]:
    """Yield the operations with consecutive txids, beginning with the first operation's txid, but not below 1."""
    txid: int | None = None
    for op in ops:
        txid = max(1, op.txid) if txid is None else txid + 1
        yield op if op.txid == txid else replace(op, txid=txid)
