"""One batch of edits as a NameNode streams it: decoded, and checked before any of it is kept."""

from __future__ import annotations

from journal.binary_codec import check_layout, decode_op
from journal.errors import CorruptOpError, TransactionGapError
from journal.operation import EditOp

_SOURCE = "the stream of edits"


def decode_batch(records: bytes, first_txid: int, count: int, layout_version: int) -> list[EditOp]:
    """The operations in `records`, which are exactly `count` and have the txids from `first_txid` on.

    Raises:
        CorruptOpError: an operation is cut, does not match its checksum, or the count is another one.
        TransactionGapError: a txid is not the one after its predecessor.
        UnsupportedLayoutError: the layout is unknown.
    """
    check_layout(layout_version, file=_SOURCE)
    found: list[EditOp] = []
    position = 0
    while position < len(records):
        expected = first_txid + len(found)
        op, following = decode_op(records, position, layout_version, file=_SOURCE)
        if op.txid != expected:
            raise TransactionGapError(expected, op.txid, file=_SOURCE, offset=position)
        found.append(op)
        position = following
    if len(found) != count or not found:
        problem = f"{len(found)} operations came where {count} were announced"
        raise CorruptOpError(problem, file=_SOURCE, offset=position, txid=first_txid)
    return found
