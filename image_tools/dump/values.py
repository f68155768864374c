"""Formats values of records as in Java: signed numbers, text, dates, names for serials, and policies."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from hadoop_common.java_numbers import signed32
from hadoop_common.java_utf8 import decode_java_utf8
from hadoop_common.storage_policies import UNSPECIFIED_POLICY, storage_policy
from image_format.erasure_policies import BUILT_IN
from image_format.permission import (
    AclBits,
    AclScope,
    AclType,
    XAttrNamespace,
    unpack_acl_entry,
    unpack_permission,
    unpack_xattr_name,
)
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable

_SYMBOLS = ("---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx")
_STICKY = 0o1000
_CACHED_OWNERS = 1 << 16
_ODD_IN_CSV = frozenset(',"\r\n')


def java_text(value: str | bytes) -> str:
    """Decode a string or bytes field as Java does, with U+FFFD for invalid UTF-8."""
    if isinstance(value, bytes):
        return decode_java_utf8(value)
    if value.isascii():
        return value
    return decode_java_utf8(value.encode("utf-8", "surrogateescape"))


def csv_text(text: str) -> str:
    """Quote a string that contains commas, quotes or line ends for CSV; line ends become %x0A."""
    if _ODD_IN_CSV.isdisjoint(text):
        return text
    quoted = '"' + text.replace('"', '""') + '"'
    return quoted.replace("\r\n", "%x0D%x0A") if "\r\n" in quoted else quoted.replace("\n", "%x0A")


def rwx(permission: int) -> str:
    """Format FsAction 0..7 as `ls` does."""
    return _SYMBOLS[permission & 7]


def mode_symbols(mode: int) -> str:
    """Format mode bits as nine characters, with t or T at the end for the sticky bit (FsPermission.toString)."""
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


def acl_entry_text(scope: int, kind: int, name: str, permission: int) -> str:
    """Format an ACL entry as `hdfs dfs -getfacl` prints it, e.g. `default:user:erin:r-x`."""
    prefix = "default:" if scope == AclScope.DEFAULT else ""
    return f"{prefix}{AclType(kind).name.lower()}:{name}:{rwx(permission)}"


class SerialNames:
    """Decoder of packed fields that refer to the string table.

    Methods raise RecordError for a serial that is missing from the table.
    """

    def __init__(self, table: StringTable) -> None:
        self._table = table
        self._owners: dict[int, Owner] = {}

    def owner(self, permission: int) -> Owner:
        """Return the user, group and mode of a fixed64 permission."""
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
        """Format an ACL entry as `hdfs dfs -getfacl` prints it, e.g. `default:user:erin:r-x`."""
        entry = unpack_acl_entry(packed)
        return acl_entry_text(entry.scope, entry.type, self.acl_name(entry), entry.permission)

    def acl_name(self, entry: AclBits) -> str:
        """Return the user or group of an ACL entry; "" for the owner, the owning group, the mask and others."""
        if entry.type not in (AclType.USER, AclType.GROUP):
            return ""
        return self._table.lookup(entry.name, StringKind.USER if entry.type is AclType.USER else StringKind.GROUP) or ""

    def xattr(self, packed: int) -> tuple[str, str | None]:
        """Return the namespace, such as USER, and the name of an extended attribute."""
        entry = unpack_xattr_name(packed)
        return entry.namespace.name, self._table.lookup(entry.name, StringKind.XATTR)


_STORAGE_XATTR = (XAttrNamespace.SYSTEM.name, "hsm.block.storage.policy.id")
_EC_XATTR = (XAttrNamespace.SYSTEM.name, "hdfs.erasurecoding.policy")
_LENGTH_BYTES = 4


def reported_replication(file: pb.INodeFile) -> int:
    """Return the replication factor that a NameNode reports, which is 1 for an erasure-coded file.

    Source: HeaderFormat.getReplication of Hadoop's INodeFile. The image contains no factor for these files.
    """
    return 1 if file.HasField("erasureCodingPolicyID") else signed32(file.replication)


def storage_policy_name(number: int) -> str | None:
    """Return the name of a storage policy, or its number if Hadoop 3.4 lacks the policy; None if no policy is set."""
    if number <= UNSPECIFIED_POLICY:
        return None
    policy = storage_policy(number)
    return str(number) if policy is None else policy.name


def ec_policy_name(number: int, policies: Mapping[int, str]) -> str | None:
    """Return the name of a file's erasure coding policy, or its number if the image has no name; None if unset."""
    return policies.get(number, str(number)) if number >= 0 else None


def viewer_policies(inode: pb.INode, names: SerialNames) -> tuple[str, str]:
    """Return (storage policy, erasure coding policy) of an inode as in Hadoop's viewer: a number, and a name or "-".

    Raises:
        RecordError: the string table lacks the name of an attribute.
    """
    if inode.HasField("file"):
        coding = inode.file.erasureCodingPolicyID if inode.file.HasField("erasureCodingPolicyID") else 0
        return str(inode.file.storagePolicyID), BUILT_IN[coding].name if coding in BUILT_IN else "-"
    storage, name = own_policies(inode.directory, names)
    return str(storage), name or "-"


def directory_policies(directory: pb.INodeDirectory, names: SerialNames) -> tuple[str | None, str | None]:
    """Return (storage policy, erasure coding policy) set on a directory itself.

    Raises:
        RecordError: the string table lacks the name of an attribute.
    """
    storage, coding = own_policies(directory, names)
    return storage_policy_name(storage), coding


def own_policies(directory: pb.INodeDirectory, names: SerialNames) -> tuple[int, str | None]:
    """Return the id of the storage policy (0 if none) and the name of the erasure coding policy set on a directory.

    The attributes are encoded by BlockStoragePolicySuite (one byte) and FSDirErasureCodingOp
    (WritableUtils.writeString).

    Raises:
        RecordError: the string table lacks the name of an attribute.
    """
    storage, coding = UNSPECIFIED_POLICY, None
    for xattr in directory.xAttrs.xAttrs:
        name = names.xattr(xattr.name)
        if name == _STORAGE_XATTR and xattr.value:
            storage = xattr.value[0]
        elif name == _EC_XATTR and len(xattr.value) > _LENGTH_BYTES:
            coding = java_text(xattr.value[_LENGTH_BYTES:])
    return storage, coding
