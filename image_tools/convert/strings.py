"""Converts the string table: one id space up to layout -64, one for each kind of string from -65 on."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from google.protobuf.unknown_fields import UnknownFieldSet

from image_format.errors import BufferOrigin, UnsupportedConversionError
from image_format.layout import LayoutVersion, supports
from image_format.permission import XAttrNamespace, pack_xattr_name
from image_format.proto.fsimage_pb2 import StringTableEntry, StringTableSection
from image_format.string_table import MAX_SERIAL, StringKind, StringTable
from image_format.varint import encode_delimited, iter_records, parse_message

_MASK_BITS = 3
_KIND_SHIFT = 32 - _MASK_BITS
_USED = (StringKind.USER, StringKind.GROUP, StringKind.XATTR)
# Names of extended attributes (without namespace) with a special meaning.
_EC_POLICY = "hdfs.erasurecoding.policy"
_MARKED_SNAPSHOT = "hdfs.snapshot.deleted"
_STORAGE_POLICY = "hsm.block.storage.policy.id"
_ENCRYPTION_ZONE = "hdfs.crypto.encryption.zone"
_SPECIAL = (
    (XAttrNamespace.SYSTEM, _EC_POLICY),
    (XAttrNamespace.SYSTEM, _MARKED_SNAPSHOT),
    (XAttrNamespace.SYSTEM, _STORAGE_POLICY),
    (XAttrNamespace.RAW, _ENCRYPTION_ZONE),
)

_Ids = npt.NDArray[np.int64]
_EMPTY: _Ids = np.zeros(0, np.int64)


class Serials(NamedTuple):
    """New serials by old serial, or 0 for a missing serial; the arrays are empty if serials do not change."""

    users: _Ids
    groups: _Ids
    xattrs: _Ids

    @property
    def changed(self) -> bool:
        return bool(self.users.size or self.groups.size or self.xattrs.size)


NO_CHANGES = Serials(_EMPTY, _EMPTY, _EMPTY)


def convert_strings(table: StringTable, layout_version: int, file: str = "") -> tuple[bytes, Serials]:
    """Return the STRING_TABLE section for another layout, and the new serials in records.

    For layouts from -65 on, a table with one id space is written once for each kind of string. Only a pass over all
    records could find the kinds in use. Serials stay the same, and NameNodes drop unused entries. Older layouts need
    contiguous ids from 1, so separate id spaces are renumbered.

    Raises:
        UnsupportedConversionError: one id space cannot number all strings, or the table must be rewritten but contains
            unknown fields.
    """
    expanded = supports(LayoutVersion.EXPANDED_STRING_TABLE, layout_version)
    if expanded == bool(table.mask_bits):
        return table.encode() if expanded else _filled(table, file), NO_CHANGES
    _check_fields(table, file)
    return (_split(table), NO_CHANGES) if expanded else _join(table, file)


def special_names(table: StringTable) -> _Ids:
    """Return the packed names of the xattrs with a special meaning, or -1 for an absent xattr.

    The xattrs contain the erasure coding policy, the mark of a snapshot, the storage policy and the encryption zone, in
    this order.
    """
    serials = [table.find(name, StringKind.XATTR) for _, name in _SPECIAL]
    packed = [
        pack_xattr_name(kind, serial) if serial else -1 for (kind, _), serial in zip(_SPECIAL, serials, strict=True)
    ]
    return np.array(packed, np.int64)


def _check_fields(table: StringTable, file: str) -> None:
    place = BufferOrigin(file, "STRING_TABLE", None)
    kinds = itertools.chain([StringTableSection], itertools.repeat(StringTableEntry))
    for record, kind in zip(iter_records(memoryview(table.encode()), 0, place), kinds, strict=False):
        if len(UnknownFieldSet(parse_message(kind, record, place))):
            text = "the string table contains unknown fields, so it cannot be converted to the other layout"
            raise place.error(UnsupportedConversionError, text, record.offset)


def _filled(table: StringTable, file: str) -> bytes:
    """Encode a table with one id space, with an unused string for each missing id; see `StringTable`."""
    known = {serial for _, serial, _ in table.entries()}
    last = max(known, default=0)
    if last == len(known):
        return table.encode()
    _check_fields(table, file)
    entries = [(serial, text) for _, serial, text in table.entries()]
    entries += [(serial, "") for serial in range(1, last) if serial not in known]
    return encode_delimited(StringTableSection(numEntry=last)) + b"".join(itertools.starmap(_entry, entries))


def _split(table: StringTable) -> bytes:
    entries = [(serial, text) for _, serial, text in table.entries() if serial <= MAX_SERIAL]
    header = StringTableSection(numEntry=len(entries) * len(_USED), maskBits=_MASK_BITS)
    return encode_delimited(header) + b"".join(
        _entry(serial | kind << _KIND_SHIFT, text) for kind in _USED for serial, text in entries
    )


def _join(table: StringTable, file: str) -> tuple[bytes, Serials]:
    numbers: dict[str, int] = {}
    old: dict[StringKind, list[tuple[int, int]]] = {kind: [] for kind in StringKind}
    for kind, serial, text in table.entries():
        old[kind].append((serial, numbers.setdefault(text, len(numbers) + 1)))
    if len(numbers) > MAX_SERIAL:
        raise UnsupportedConversionError(
            f"its {len(numbers)} users, groups and xattr names exceed the limit of one string table ({MAX_SERIAL})",
            file=file,
            section="STRING_TABLE",
        )
    data = encode_delimited(StringTableSection(numEntry=len(numbers))) + b"".join(
        _entry(number, text) for text, number in numbers.items()
    )
    return data, Serials(*(_map(old[kind]) for kind in _USED))


def _entry(number: int, text: str) -> bytes:
    return encode_delimited(StringTableEntry(id=number, str=text.encode("utf-8", "surrogateescape")))


def _map(pairs: list[tuple[int, int]]) -> _Ids:
    """Return the new serials by old serial; never empty, so that a missing serial is detected."""
    fresh = np.zeros(max((serial for serial, _ in pairs), default=0) + 1, np.int64)
    for serial, number in pairs:
        fresh[serial] = number
    return fresh
