"""New transaction ids for operations whose ids are not consecutive (`oev -f`, OfflineEditsBinaryLoader)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from journal.binary_codec import TERMINATOR, decode_op
from journal.operation import EditOp
from journal.primitives import Buffer
from journal.segment import HEADER_SIZE, check_padding, decode_header


def renumbered(ops: Iterable[EditOp]) -> Iterator[EditOp]:
    """Yield the operations with consecutive ids; the first keeps its id, or gets 1 if that is smaller."""
    txid: int | None = None
    for op in ops:
        txid = max(1, op.txid) if txid is None else txid + 1
        yield op if op.txid == txid else replace(op, txid=txid)


def unchecked_ops(content: Buffer, file: str) -> Iterator[EditOp]:
    """Yield the operations of a segment without checking their ids.

    Raises:
        CorruptHeaderError, UnsupportedLayoutError: see `decode_header`.
        CorruptOpError: an operation cannot be decoded, or bytes follow the terminator.
    """
    layout_version = decode_header(content, file=file)
    position = HEADER_SIZE
    while position < len(content):
        if content[position] == TERMINATOR:
            check_padding(content, position, file)
            return
        op, position = decode_op(content, position, layout_version, file=file)
        yield op
