"""Extended attributes of rows, with their names as serials of the string table."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import NamespaceError
from engine.namespace import Namespace
from image_format.permission import XAttrNamespace, pack_xattr_name
from image_format.string_table import StringKind
from journal.ops import XAttr


def _packed(namespace: Namespace, xattr: XAttr) -> int:
    return pack_xattr_name(XAttrNamespace(xattr.namespace), namespace.strings.serial(xattr.name, StringKind.XATTR))


def check_distinct(path: str, xattrs: Sequence[XAttr]) -> None:
    """Raise NamespaceError if an attribute is given twice, which a NameNode refuses."""
    names = [(xattr.namespace, xattr.name) for xattr in xattrs]
    if len(set(names)) < len(names):
        raise NamespaceError(f"an extended attribute of {path} is given twice")


def new_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> None:
    """Set the attributes of a new inode, even if one is given twice (FSDirectory.addFileForEditLog)."""
    features = namespace.table.feature(row)
    features.xattrs = tuple((_packed(namespace, xattr), xattr.value) for xattr in xattrs)
    namespace.table.set_features(row, features)


def put_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> None:
    """Put the given attributes, in their order, before the old ones that they do not replace."""
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
    """Remove the attributes of the same namespace and name; the feature is removed with the last one."""
    features = namespace.table.feature(row)
    gone = {_packed(namespace, xattr) for xattr in xattrs}
    kept = tuple((name, value) for name, value in features.xattrs or () if name not in gone)
    features.xattrs = kept or None
    namespace.table.set_features(row, features)
