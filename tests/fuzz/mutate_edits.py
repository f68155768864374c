"""Mutations inside the operations of a segment; lengths, txids and checksums are corrected afterwards."""

from __future__ import annotations

import random
import struct
from zlib import crc32

from image_format.layout import NEWEST_LAYOUT, OLDEST_LAYOUT
from journal.binary_codec import decode_op
from journal.ops import OPERATIONS
from journal.segment_format import HEADER_SIZE
from tests.fuzz.wire import INTERESTING, Mutate

_FRAMED_SINCE = -56
_RAW = 0.1
_KEEP_TXIDS = 0.1
_KEEP_CHECKSUM = 0.05


class Op:
    """An operation without length and checksum, which are derived from its other parts."""

    def __init__(self, opcode: int, txid: int, body: bytes) -> None:
        self.opcode = opcode
        self.txid = txid
        self.body = body

    def encode(self, layout_version: int) -> bytes:
        size = struct.pack(">i", 12 + len(self.body)) if layout_version <= _FRAMED_SINCE else b""
        out = bytes([self.opcode]) + size + struct.pack(">q", self.txid) + self.body
        return out + crc32(out).to_bytes(4, "big")


def mutate_edits(data: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Return `data` with one operation changed or moved; if `data` is not a segment, change any of its bytes."""
    if len(data) < HEADER_SIZE or rng.random() < _RAW:
        return mutate(data)
    layout_version = int.from_bytes(data[:4], "big", signed=True)
    ops, rest = _split(data, layout_version)
    if not ops:
        return mutate(data)
    number = rng.randrange(len(ops))
    choice = rng.random()
    if choice < 0.6:
        ops[number].body = _mutate_body(ops[number].body, rng, mutate)
    elif choice < 0.7:
        ops[number].opcode = rng.choice(list(OPERATIONS))
    elif choice < 0.75:
        del ops[number]
    elif choice < 0.8:
        ops.insert(rng.randrange(len(ops) + 1), Op(ops[number].opcode, ops[number].txid, ops[number].body))
    elif choice < 0.85:
        layout_version = rng.randrange(NEWEST_LAYOUT, OLDEST_LAYOUT + 1)
    elif choice < 0.9:
        ops[number].txid = rng.choice([*INTERESTING, ops[number].txid + 1]) & 0x7FFFFFFFFFFFFFFF
    elif choice < 0.95:
        rest = mutate(rest)
    else:
        rest = b"\xff" + rng.choice([b"\0", b"\xff", b"x"]) * rng.randrange(9)
    return _build(ops, rest, layout_version, rng)


def _split(data: bytes, layout_version: int) -> tuple[list[Op], bytes]:
    """Return the operations before the first incomplete operation, and the remaining bytes."""
    ops, position = [], HEADER_SIZE
    head = 13 if layout_version <= _FRAMED_SINCE else 9
    try:
        while position < len(data):
            if head == 13:
                end = position + 5 + int.from_bytes(data[position + 1 : position + 5], "big")
            else:
                _, end = decode_op(data, position, layout_version)
            if not position + head + 4 <= end <= len(data):
                break
            txid = int.from_bytes(data[position + head - 8 : position + head], "big", signed=True)
            ops.append(Op(data[position], txid, data[position + head : end - 4]))
            position = end
    except Exception:
        pass  # the remaining bytes are the result of an earlier mutation
    return ops, data[position:]


def _mutate_body(body: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    if not body or rng.random() < 0.6:
        return mutate(body)
    start = rng.randrange(len(body))
    size = rng.choice([1, 2, 4, 8])
    if rng.random() < 0.3:
        return body[:start] + body[start + size :]
    value = rng.choice(INTERESTING) & ((1 << 8 * size) - 1)
    return body[:start] + value.to_bytes(size, "big") + body[start + size :]


def _build(ops: list[Op], rest: bytes, layout_version: int, rng: random.Random) -> bytes:
    if ops and rng.random() >= _KEEP_TXIDS:
        first = min(ops[0].txid, (1 << 62))
        for number, op in enumerate(ops):
            op.txid = first + number
    out = bytearray(struct.pack(">ii", layout_version, 0))
    for op in ops:
        encoded = op.encode(layout_version)
        out += encoded[:-1] + b"?" if rng.random() < _KEEP_CHECKSUM / len(ops) else encoded
    return bytes(out) + rest
