"""Makes keytabs."""

from __future__ import annotations

import struct

from hadoop_rpc.keytab import KeytabEntry


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value.encode())) + value.encode()


def keytab_of(*entries: KeytabEntry, wide: bool = True) -> bytes:
    """Make a keytab as MIT's tools do, with a hole before each entry; `wide` adds 32-bit versions after the keys."""
    result = b"\x05\x02"
    for entry in entries:
        name, _, realm = entry.principal.rpartition("@")
        parts = name.split("/")
        body = struct.pack(">H", len(parts)) + _text(realm) + b"".join(map(_text, parts))
        body += struct.pack(">IIBH", 1, 1700000000, entry.version & 0xFF, entry.encryption) + _text("k" * 16)
        body += struct.pack(">I", entry.version) if wide else b""
        result += struct.pack(">i", -3) + b"old" + struct.pack(">i", len(body)) + body
    return result
