"""The body of an entry, as bookies store it and both protocols send it: ids, LAC, length, digest, payload."""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from hashlib import sha1
from struct import Struct

from journal.bookkeeper.errors import EntryError
from journal.primitives import Buffer

LAST_ENTRY = -1
"""In a request, this id means the ledger's last entry on the bookie. As the id of a ledger's last entry, it means that
the ledger is empty.
"""

_HEAD = Struct(">qqqq")
_CASTAGNOLI = 0x82F63B78


class DigestType(Enum):
    """Type of the digest that protects an entry; the ledger's metadata contain these values."""

    CRC32 = 1
    MAC = 2
    CRC32C = 3
    DUMMY = 4


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An entry of a ledger.

    Attributes:
        lac: newest entry known to be acknowledged when this entry was sent; initially -1.
        length: bytes of payload in the ledger up to and including this entry.
    """

    ledger_id: int
    entry_id: int
    lac: int
    length: int
    payload: bytes


def master_key(password: bytes) -> bytes:
    """Return the 20-byte key by which bookies recognise a ledger's owner."""
    return sha1(b"ledger" + password).digest()


class EntryCodec:
    """Codec of the entries of one ledger.

    Args:
        password: password of the ledger, used only for the MAC digest type.
    """

    def __init__(self, digest_type: DigestType, password: bytes) -> None:
        self._digest, self._size = _digest(digest_type, password)
        self._start = _HEAD.size + self._size

    def encode(self, entry: LedgerEntry) -> bytes:
        """Return the body; its digest covers the ids, LAC, length and payload."""
        head = _HEAD.pack(entry.ledger_id, entry.entry_id, entry.lac, entry.length)
        return b"".join((head, self._digest(head, entry.payload), entry.payload))

    def decode(self, body: Buffer, ledger_id: int, entry_id: int) -> LedgerEntry:
        """Return the entry in `body`, which must have these ids; LAST_ENTRY accepts any entry of the ledger.

        Raises:
            EntryError: the body is truncated, its digest differs, or the body contains a different entry.
        """
        if len(body) < self._start:
            raise _fault(ledger_id, entry_id, f"is truncated after {len(body)} bytes")
        found_ledger, found_entry, lac, length = _HEAD.unpack_from(body)
        payload = bytes(body[self._start :])
        if not hmac.compare_digest(self._digest(bytes(body[: _HEAD.size]), payload), body[_HEAD.size : self._start]):
            raise _fault(ledger_id, entry_id, "has a different digest")
        if found_ledger != ledger_id or (found_entry != entry_id and entry_id != LAST_ENTRY):
            raise _fault(ledger_id, entry_id, f"is entry {found_entry} of ledger {found_ledger}")
        return LedgerEntry(found_ledger, found_entry, lac, length, payload)


def body_ids(body: Buffer) -> tuple[int, int, int]:
    """Return the ledger id, entry id and LAC of a body, without checking its digest.

    Raises:
        EntryError: the body is truncated.
    """
    if len(body) < _HEAD.size:
        raise EntryError(f"an entry's body is truncated after {len(body)} bytes")
    ledger_id, entry_id, lac, _ = _HEAD.unpack_from(body)
    return ledger_id, entry_id, lac


def crc32c(data: bytes) -> int:
    table = _crc32c_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@cache
def _crc32c_table() -> tuple[int, ...]:
    def row(crc: int) -> int:
        for _ in range(8):
            crc = (crc >> 1) ^ (_CASTAGNOLI if crc & 1 else 0)
        return crc

    return tuple(map(row, range(256)))


def _digest(kind: DigestType, password: bytes) -> tuple[Callable[[bytes, bytes], bytes], int]:
    """Return the function that computes a digest from head and payload, and the size of the digest in bytes."""
    match kind:
        case DigestType.CRC32:
            return lambda head, payload: zlib.crc32(payload, zlib.crc32(head)).to_bytes(8, "big"), 8
        case DigestType.CRC32C:
            return lambda head, payload: crc32c(head + payload).to_bytes(4, "big"), 4
        case DigestType.MAC:
            key = sha1(b"mac" + password).digest()
            return lambda head, payload: hmac.digest(key, head + payload, "sha1"), 20
        case DigestType.DUMMY:
            return lambda head, payload: b"", 0


def _fault(ledger_id: int, entry_id: int, problem: str) -> EntryError:
    what = "the last entry" if entry_id == LAST_ENTRY else f"entry {entry_id}"
    return EntryError(f"{what} of ledger {ledger_id} {problem}")
