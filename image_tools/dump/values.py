"""Values of records as in Java: signed numbers, text, dates, and names for serials."""

from __future__ import annotations

import time
from typing import NamedTuple

from image_format.permission import AclScope, AclType, unpack_acl_entry, unpack_permission, unpack_xattr_name
from image_format.string_table import StringKind, StringTable

_SYMBOLS = ("---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx")
_STICKY = 0o1000
_CACHED_OWNERS = 1 << 16
_ODD_IN_CSV = frozenset(',"\r\n')


def signed64(value: int) -> int:
    """Convert an unsigned 64-bit field to a Java long."""
    return value - (1 << 64) if value >> 63 else value


def signed32(value: int) -> int:
    """Convert an unsigned 32-bit field to a Java int."""
    return value - (1 << 32) if value >> 31 else value


def java_text(value: str | bytes) -> str:
    """Decode a string or bytes field like Java, with U+FFFD for invalid UTF-8."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value.isascii():
        return value
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def csv_text(text: str) -> str:
    """Quote a text with commas, quotes or line ends for CSV; line ends become %x0A."""
    if _ODD_IN_CSV.isdisjoint(text):
        return text
    quoted = '"' + text.replace('"', '""') + '"'
    return quoted.replace("\r\n", "%x0D%x0A") if "\r\n" in quoted else quoted.replace("\n", "%x0A")


def rwx(permission: int) -> str:
    """Format FsAction 0..7 like `ls`."""
    return _SYMBOLS[permission & 7]


def mode_symbols(mode: int) -> str:
    """Format mode bits as nine characters, the last one t or T with the sticky bit (FsPermission.toString)."""
    text = rwx(mode >> 6) + rwx(mode >> 3) + rwx(mode)
    if mode & _STICKY:
        return text[:-1] + ("t" if mode & 1 else "T")
    return text


def local_minutes(millis: int) -> str:
    """Format milliseconds since 1970 as `yyyy-MM-dd HH:mm` in the process's time zone."""
    at = time.localtime(millis // 1000)
    return f"{_date(at)} {at.tm_hour:02d}:{at.tm_min:02d}"


def utc_millis(millis: int) -> str:
    """Format milliseconds since 1970 as `yyyy-MM-ddTHH:mm:ss.SSS` in UTC."""
    seconds, rest = divmod(millis, 1000)
    at = time.gmtime(seconds)
    return f"{_date(at)}T{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}.{rest:03d}"


def _date(at: time.struct_time) -> str:
    # Java counts years within their era: 0 is the year 1 BC.
    year = at.tm_year if at.tm_year > 0 else 1 - at.tm_year
    return f"{year:04d}-{at.tm_mon:02d}-{at.tm_mday:02d}"


class Owner(NamedTuple):
    """A permission with names; `user` and `group` are None for serial 0, `mode` has 16 bits."""

    user: str | None
    group: str | None
    mode: int


class SerialNames:
    """Decoder of packed fields that refer to the string table.

    Methods raise RecordError for a serial that is missing in the table.
    """

    def __init__(self, table: StringTable) -> None:
        self._table = table
        self._owners: dict[int, Owner] = {}

    def owner(self, permission: int) -> Owner:
        """Return user, group and mode of a fixed64 permission."""
        known = self._owners.get(permission)
        if known is None:
            packed = unpack_permission(permission)
            user = self._table.lookup(packed.user, StringKind.USER)
            known = Owner(user, self._table.lookup(packed.group, StringKind.GROUP), packed.mode)
            if len(self._owners) >= _CACHED_OWNERS:
                self._owners.clear()
            self._owners[permission] = known
        return known

    def acl_entry(self, packed: int) -> str:
        """Format an ACL entry like `hdfs dfs -getfacl`, e.g. `default:user:erin:r-x`."""
        entry = unpack_acl_entry(packed)
        name = None
        if entry.type in (AclType.USER, AclType.GROUP):
            kind = StringKind.USER if entry.type is AclType.USER else StringKind.GROUP
            name = self._table.lookup(entry.name, kind)
        scope = "default:" if entry.scope is AclScope.DEFAULT else ""
        return f"{scope}{entry.type.name.lower()}:{name or ''}:{rwx(entry.permission)}"

    def xattr(self, packed: int) -> tuple[str, str | None]:
        """Return namespace, such as USER, and name of an extended attribute."""
        entry = unpack_xattr_name(packed)
        return entry.namespace.name, self._table.lookup(entry.name, StringKind.XATTR)
