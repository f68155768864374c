"""Parses a keytab's entries without their keys (MIT's format 0x0502), because Kerberos does not report missing
entries.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from hadoop_rpc.errors import KerberosSetupError

_MAGIC = b"\x05\x02"
_U8, _U16, _I32, _U32 = (struct.Struct(f">{code}") for code in "BHiI")


@dataclass(frozen=True, slots=True)
class KeytabEntry:
    """One key: its full principal, its version and its encryption type (RFC 3961)."""

    principal: str
    version: int
    encryption: int


def parse_keytab(data: bytes) -> list[KeytabEntry]:
    """Return the entries in order.

    Raises:
        ValueError: the data is not a keytab or is truncated; the message gives the position.
    """
    if data[:2] != _MAGIC:
        raise ValueError(f"it begins with {data[:2].hex() or 'nothing'}, expected {_MAGIC.hex()}")
    entries, position = [], len(_MAGIC)
    while position < len(data):
        size = _Bytes(data, position, len(data)).number(_I32)
        position += _I32.size
        if size > 0:
            entries.append(_entry(_Bytes(data, position, position + size)))
        # a removed entry leaves a hole with a negative size
        position += abs(size)
    return entries


def keys_of(principal: str, keytab: Path) -> list[KeytabEntry]:
    """Return the keys of `principal`; a trailing `*` matches all principals with that prefix."""
    try:
        entries = parse_keytab(keytab.read_bytes())
    except (OSError, ValueError) as fault:
        expected_message = fault.strerror if isinstance(fault, OSError) else fault
        raise KerberosSetupError(
            f"the keytab {keytab} cannot be read: {expected_message}",
            hint="Check its path in the configuration and that this user may read it.",
        ) from fault
    ours = [entry for entry in entries if stands_for(principal, entry.principal)]
    if not ours:
        held = ", ".join(sorted({entry.principal for entry in entries})) or "nothing"
        raise KerberosSetupError(
            f"the keytab {keytab} has no key of {principal}; it contains {held}",
            hint="Export the key into it (kadmin: ktadd), or correct the configured keytab or principal. _HOST in a "
            "principal is the host of this process's address, or this host's name if the address is 0.0.0.0.",
        )
    return ours


def stands_for(wanted: str, principal: str) -> bool:
    return principal.startswith(wanted[:-1]) if wanted.endswith("*") else principal == wanted


class _Bytes:
    """A reader from `position` to `end`."""

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self._data = data
        self._position = position
        self._end = end

    @property
    def left(self) -> int:
        return self._end - self._position

    def number(self, kind: struct.Struct) -> int:
        return int(kind.unpack(self.take(kind.size))[0])

    def take(self, count: int) -> bytes:
        taken = self._data[self._position : min(self._position + count, self._end)]
        if len(taken) < count:
            raise ValueError(f"it is truncated at byte {self._position}")
        self._position += count
        return taken

    def text(self) -> str:
        return self.take(self.number(_U16)).decode("utf-8", "replace")


def _entry(read: _Bytes) -> KeytabEntry:
    count = read.number(_U16)
    realm = read.text()
    name = "/".join(read.text() for _ in range(count))
    read.take(2 * _U32.size)  # name type and time
    version = read.number(_U8)
    encryption = read.number(_U16)
    read.take(read.number(_U16))  # the key itself
    if read.left >= _U32.size:
        version = read.number(_U32) or version
    return KeytabEntry(f"{name}@{realm}", version, encryption)
