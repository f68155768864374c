"""Search for complete operations after damage in a segment (FSEditLogOp.Reader resync).

An operation is complete if its checksum is correct, even if this program cannot decode it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from struct import Struct
from typing import NamedTuple

from journal.binary_codec import checked_frame
from journal.errors import CorruptOpError
from journal.primitives import Buffer

_LENGTH = Struct(">i")
_TXID = Struct(">q")
_MAX_JUMP = 1 << 24  # maximum number of missing transactions before readable transactions
_MIN_OP_SIZE = 17  # of an operation without a body
_TXID_AT = 5
_OPCODES = rb"[^\xff]"  # other software may have further opcodes


class ReadableRun(NamedTuple):
    """Consecutive complete operations with txids `first` .. `last`, in bytes `start` .. `end`."""

    first: int
    last: int
    start: int
    end: int


def op_follows(buffer: Buffer, position: int, min_txid: int | None) -> bool:
    """Return whether a complete operation with txid `min_txid` or later starts anywhere after `position`.

    The number of skipped bytes limits the possible txids, so that few checksums of random bytes must be computed.
    """
    highest = None if min_txid is None else min_txid + (len(buffer) - position) // _MIN_OP_SIZE + 1
    for start, txid in _candidates(buffer, position + 1, min_txid, highest):
        if min_txid is not None and txid - min_txid > (start - position) // _MIN_OP_SIZE + 1:
            continue
        if complete_op(buffer, start) is not None:
            return True
    return False


def readable_runs(buffer: Buffer, position: int, min_txid: int | None) -> Iterator[ReadableRun]:
    """Yield runs of complete operations at or after `position`; each run begins with txid `min_txid` or later."""
    highest = None if min_txid is None else min_txid + _MAX_JUMP
    while True:
        candidates = _candidates(buffer, position, min_txid, highest)
        found = next((start for start, _ in candidates if complete_op(buffer, start) is not None), None)
        if found is None:
            return
        run = _run_at(buffer, found)
        yield run
        position = run.end


def _run_at(buffer: Buffer, start: int) -> ReadableRun:
    position = start
    first = last = None
    while (decoded := complete_op(buffer, position)) is not None:
        txid, following = decoded
        if last is not None and txid != last + 1:
            break
        first, last = txid if first is None else first, txid
        position = following
    assert first is not None
    assert last is not None
    return ReadableRun(first, last, start, position)


def complete_op(buffer: Buffer, position: int) -> tuple[int, int] | None:
    """Return the txid and the end offset of the operation at `position`; None if the bytes are not an intact
    operation.
    """
    try:
        _, txid, end = checked_frame(buffer, position)
    except CorruptOpError:
        return None
    return txid, end


def _candidates(buffer: Buffer, position: int, min_txid: int | None, max_txid: int | None) -> Iterator[tuple[int, int]]:
    """Yield (position, txid) for each possible opcode, length and txid at or after `position`."""
    last_start = len(buffer) - _MIN_OP_SIZE
    # a length cannot exceed the buffer
    highest = b"[\x00-" + re.escape(bytes([min(len(buffer) >> 24, 0x7F)])) + b"]"
    length = rb"(?!\x00{3}[\x00-\x0b])" + highest + rb"[\x00-\xff]{3}"
    pattern = re.compile(b"(?=" + _OPCODES + length + _common_prefix(min_txid, max_txid) + b")", re.DOTALL)
    for match in takewhile(lambda found: found.start() <= last_start, pattern.finditer(buffer, position)):
        start = match.start()
        txid = _TXID.unpack_from(buffer, start + _TXID_AT)[0]
        if txid < (0 if min_txid is None else min_txid) or (max_txid is not None and txid > max_txid):
            continue
        if not 12 <= _LENGTH.unpack_from(buffer, start + 1)[0] <= len(buffer) - start - 5:
            continue
        yield start, txid


def _common_prefix(min_txid: int | None, highest: int | None) -> bytes:
    """Return a pattern of the leading bytes that the txids `min_txid` .. `highest` have in common."""
    if min_txid is None or highest is None or highest >= 1 << 63:
        return b""
    low, high = _TXID.pack(min_txid), _TXID.pack(highest)
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=True))))
    return re.escape(low[:shared])
