"""Bit packings of the fsimage: permissions, ACL entries and xattr names.

Hadoop defines the formats in PermissionStatusFormat, AclEntryStatusFormat and XAttrFormat.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from image_format.errors import RecordError

_SERIAL_BITS = 24
SERIAL_MASK = (1 << _SERIAL_BITS) - 1
USER_SHIFT, GROUP_SHIFT = 40, 16
"""Bit positions of the serials in a permission."""
MODE_BITS = 0o1777
"""Mode bits of an operation that a NameNode stores (FsPermission.fromShort)."""
NAME_SHIFT, TYPE_SHIFT = 6, 3
"""Bit positions of the name and the type in an ACL entry; the name of an xattr has the same position."""


class AclType(IntEnum):
    USER = 0
    GROUP = 1
    MASK = 2
    OTHER = 3


class AclScope(IntEnum):
    ACCESS = 0
    DEFAULT = 1


class XAttrNamespace(IntEnum):
    USER = 0
    TRUSTED = 1
    SECURITY = 2
    SYSTEM = 3
    RAW = 4


class Permission(NamedTuple):
    """Owner and group as serials of the string table, and the 16 mode bits."""

    user: int
    group: int
    mode: int


class AclBits(NamedTuple):
    """Fields of an extended ACL entry; `name` is a serial (0 = unnamed), and `permission` has the rwx bits 0..7."""

    scope: AclScope
    type: AclType
    name: int
    permission: int


class XAttrName(NamedTuple):
    """Namespace and serial of an extended attribute's name."""

    namespace: XAttrNamespace
    name: int


def pack_permission(user: int, group: int, mode: int) -> int:
    """Pack a fixed64 `permission`: mode in bits 0-15, group in 16-39, user in 40-63.

    Raises:
        ValueError: a part does not fit into its bits.
    """
    return _fit(user, _SERIAL_BITS) << USER_SHIFT | _fit(group, _SERIAL_BITS) << GROUP_SHIFT | _fit(mode, 16)


def unpack_permission(packed: int) -> Permission:
    """Unpack a permission; the inverse of `pack_permission`."""
    return Permission(packed >> USER_SHIFT & SERIAL_MASK, packed >> GROUP_SHIFT & SERIAL_MASK, packed & 0xFFFF)


def pack_acl_entry(scope: AclScope, type: AclType, name: int, permission: int) -> int:
    """Pack a fixed32 of AclFeatureProto.entries: permission in bits 0-2, type in 3-4, scope in 5, name in 6-29.

    Raises:
        ValueError: a part does not fit into its bits.
    """
    return (
        _fit(name, _SERIAL_BITS) << NAME_SHIFT
        | AclScope(scope) << 5
        | AclType(type) << TYPE_SHIFT
        | _fit(permission, 3)
    )


def unpack_acl_entry(packed: int) -> AclBits:
    """Unpack an ACL entry; the inverse of `pack_acl_entry`.

    Raises:
        RecordError: bits that no Hadoop release uses are set.
    """
    if packed >> 30:
        raise RecordError(f"ACL entry {packed:#010x} has unknown bits set")
    return AclBits(
        AclScope(packed >> 5 & 1), AclType(packed >> TYPE_SHIFT & 3), packed >> NAME_SHIFT & SERIAL_MASK, packed & 7
    )


def pack_xattr_name(namespace: XAttrNamespace, name: int) -> int:
    """Pack a fixed32 XAttrCompactProto.name: namespace bits 0-1 in bits 30-31, its bit 2 in bit 5, name in 6-29.

    Raises:
        ValueError: a part does not fit into its bits.
    """
    space = XAttrNamespace(namespace)
    return (space & 3) << 30 | _fit(name, _SERIAL_BITS) << NAME_SHIFT | space >> 2 << 5


def unpack_xattr_name(packed: int) -> XAttrName:
    """Unpack the name of an xattr; the inverse of `pack_xattr_name`.

    Raises:
        RecordError: the namespace is unknown, or bits that no Hadoop release uses are set.
    """
    space = packed >> 30 & 3 | packed >> 5 << 2 & 4
    if packed & 0x1F or packed >> 32 or space > XAttrNamespace.RAW:
        raise RecordError(f"xattr name {packed:#010x} has an unknown namespace or unknown bits set")
    return XAttrName(XAttrNamespace(space), packed >> NAME_SHIFT & SERIAL_MASK)


def _fit(value: int, bits: int) -> int:
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{value} does not fit {bits} bits")
    return value
