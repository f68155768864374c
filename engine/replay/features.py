"""ACLs and extended attributes of rows, with their names as serials of the string table (AclStorage, XAttrStorage)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from engine.errors import NamespaceError
from engine.namespace import Namespace
from engine.namespace.op_paths import encodable
from image_format.kernels.inode import DIRECTORY
from image_format.permission import (
    AclBits,
    AclScope,
    AclType,
    XAttrNamespace,
    pack_acl_entry,
    pack_xattr_name,
    unpack_acl_entry,
)
from image_format.string_table import StringKind
from journal.ops import AclEntry, XAttr

_MINIMAL = 3
_MODE_BITS = 0o777


def _set_mode_bits(namespace: Namespace, row: int, user: int, group: int, other: int) -> None:
    permission = int(namespace.table.permission[row]) & ~_MODE_BITS
    namespace.table.permission[row] = permission | user << 6 | group << 3 | other


def _store(namespace: Namespace, row: int, access: Sequence[AclBits], default: Sequence[AclBits]) -> None:
    """Store an ACL: the first and the last two access entries as mode bits, and all other entries as the feature."""
    if len(access) < _MINIMAL:
        raise NamespaceError(f"an ACL of {namespace.tree.path(row)} lacks entries for owner, group or other")
    if default and namespace.table.kind[row] != DIRECTORY:
        raise NamespaceError(f"{namespace.tree.path(row)} is not a directory and cannot have a default ACL")
    features = namespace.table.feature(row)
    extended: list[AclBits] = []
    if len(access) > _MINIMAL:
        extended.extend(access[1:-2])
    extended.extend(default)
    features.acl = tuple(pack_acl_entry(*entry) for entry in extended) if extended else None
    namespace.table.set_features(row, features)
    _set_mode_bits(namespace, row, access[0].permission, access[-2].permission, access[-1].permission)


def _bits(namespace: Namespace, entry: AclEntry) -> AclBits:
    kind = {AclType.USER: StringKind.USER, AclType.GROUP: StringKind.GROUP}.get(AclType(entry.type))
    serial = namespace.strings.serial(encodable(entry.name), kind) if kind is not None and entry.name else 0
    return AclBits(AclScope(entry.scope), AclType(entry.type), serial, entry.permission)


def replace_acl(namespace: Namespace, row: int, entries: Sequence[AclEntry]) -> None:
    """Replace the ACL with the complete list `entries`, in Hadoop's order."""
    bits = [_bits(namespace, entry) for entry in entries]
    access, default = (bits, []) if len(bits) == _MINIMAL else _by_scope(bits)
    _store(namespace, row, access, default)


def _by_scope(entries: Sequence[AclBits]) -> tuple[Sequence[AclBits], Sequence[AclBits]]:
    """Split entries into access and default entries, at the first default entry (ScopedAclEntries)."""
    pivot = next((at for at, entry in enumerate(entries) if entry.scope == AclScope.DEFAULT), len(entries))
    return entries[:pivot], entries[pivot:]


def remove_acl(namespace: Namespace, row: int) -> None:
    """Remove the ACL; the group bits, which contained the mask, become the bits of the owning group's entry."""
    features = namespace.table.feature(row)
    if features.acl is None:
        return
    entries = [unpack_acl_entry(entry) for entry in features.acl]
    if entries and entries[0].scope == AclScope.ACCESS:
        owning = _owning_group(entries)
        if owning is None:
            raise NamespaceError(f"the ACL of {namespace.tree.path(row)} lacks the owning group")
        permission = int(namespace.table.permission[row])
        namespace.table.permission[row] = permission & ~0o070 | owning.permission << 3
    features.acl = None
    namespace.table.set_features(row, features)


def _owning_group(entries: Sequence[AclBits]) -> AclBits | None:
    """Return the owning group's access entry that Java's binary search finds, even in unsorted entries."""
    wanted = (AclScope.ACCESS, AclType.GROUP, False)
    low, high = 0, len(entries) - 1
    while low <= high:
        middle = (low + high) // 2
        found = entries[middle]
        # The entry without a name precedes all entries with a name.
        order = (found.scope, found.type, bool(found.name))
        if order == wanted:
            return found
        low, high = (middle + 1, high) if order < wanted else (low, middle - 1)
    return None


def inherit_default_acl(namespace: Namespace, parent: int, row: int) -> None:
    """Apply the parent's default ACL to a new child (AclStorage.copyINodeDefaultAcl)."""
    inherited = namespace.table.feature(parent).acl
    if inherited is None:
        return
    is_directory = int(namespace.table.kind[row]) == DIRECTORY
    found = _inherited(inherited, int(namespace.table.permission[row]) & _MODE_BITS)
    if found is not None:
        access, default = found
        _store(namespace, row, access, default if is_directory else ())


def has_default_acl(namespace: Namespace, row: int) -> bool:
    """Return whether new children of a directory inherit an ACL."""
    acl = namespace.table.feature(row).acl
    return acl is not None and _inherited(acl, 0) is not None


@lru_cache(1 << 10)
def _inherited(acl: tuple[int, ...], mode: int) -> tuple[tuple[AclBits, ...], tuple[AclBits, ...]] | None:
    """Return access and default entries of a new child with `mode`; None if the directory has no default entries."""
    default = tuple(_by_scope([unpack_acl_entry(entry) for entry in acl])[1])
    if not default:
        return None
    user, group, other = mode >> 6 & 7, mode >> 3 & 7, mode & 7
    minimal = len(default) == _MINIMAL
    access = []
    for entry in default:
        allowed = entry.permission
        if entry.type == AclType.USER and not entry.name:
            allowed &= user
        elif (entry.type == AclType.GROUP and minimal) or entry.type == AclType.MASK:
            allowed &= group
        elif entry.type == AclType.OTHER:
            allowed &= other
        access.append(entry._replace(scope=AclScope.ACCESS, permission=allowed))
    return tuple(access), default


def _packed(namespace: Namespace, xattr: XAttr) -> int:
    serial = namespace.strings.serial(encodable(xattr.name), StringKind.XATTR)
    return pack_xattr_name(XAttrNamespace(xattr.namespace), serial)


def check_distinct(path: str, xattrs: Sequence[XAttr]) -> None:
    """Raise NamespaceError if an attribute is given twice, which a NameNode refuses."""
    names = [(xattr.namespace, xattr.name) for xattr in xattrs]
    if len(set(names)) < len(names):
        raise NamespaceError(f"an extended attribute of {path} is given twice")


def new_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> None:
    """Set the attributes of a new inode, even if an attribute occurs twice (FSDirectory.addFileForEditLog)."""
    features = namespace.table.feature(row)
    features.xattrs = tuple((_packed(namespace, xattr), xattr.value) for xattr in xattrs)
    namespace.table.set_features(row, features)


def put_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> None:
    """Put the given attributes, in their order, before the old attributes that remain."""
    features = namespace.table.feature(row)
    new = {_packed(namespace, xattr): xattr.value for xattr in xattrs}
    kept = [(name, value) for name, value in features.xattrs or () if name not in new]
    features.xattrs = (*new.items(), *kept)
    namespace.table.set_features(row, features)


def has_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> bool:
    """Return whether the inode has one of these attributes, by namespace and name."""
    names = {_packed(namespace, xattr) for xattr in xattrs}
    return any(name in names for name, _ in namespace.table.feature(row).xattrs or ())


def remove_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> None:
    """Remove the attributes with these namespaces and names; remove the feature together with the last attribute."""
    features = namespace.table.feature(row)
    gone = {_packed(namespace, xattr) for xattr in xattrs}
    kept = tuple((name, value) for name, value in features.xattrs or () if name not in gone)
    features.xattrs = kept or None
    namespace.table.set_features(row, features)
