"""Extended attributes on rows, with their names as string table serials."""

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
    """Raise NamespaceError where one attribute is given twice, which a NameNode refuses."""
    names = [(xattr.namespace, xattr.name) for xattr in xattrs]
    if len(set(names)) < len(names):
        raise NamespaceError(f"an extended attribute of {path} is given twice")


def new_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> None:
    """Those of a new inode, all of them even where one is given twice, as FSDirectory.addFileForEditLog has it."""
    features = namespace.table.feature(row)
    features.xattrs = tuple((_packed(namespace, xattr), xattr.value) for xattr in xattrs)
    namespace.table.set_features(row, features)


def put_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> None:
    """The given attributes in their order, then those of before that they do not replace."""
    features = namespace.table.feature(row)
    new = {_packed(namespace, xattr): xattr.value for xattr in xattrs}
    kept = [(name, value) for name, value in features.xattrs or () if name not in new]
    features.xattrs = (*new.items(), *kept)
    namespace.table.set_features(row, features)


def has_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> bool:
    """Whether the inode has an attribute of the namespace and name of one of these."""
    names = {_packed(namespace, xattr) for xattr in xattrs}
    return any(name in names for name, _ in namespace.table.feature(row).xattrs or ())


def remove_xattrs(namespace: Namespace, row: int, xattrs: Sequence[XAttr]) -> None:
    """Drop the attributes of the same namespace and name; the feature goes with the last one."""
    features = namespace.table.feature(row)
    gone = {_packed(namespace, xattr) for xattr in xattrs}
    kept = tuple((name, value) for name, value in features.xattrs or () if name not in gone)
    features.xattrs = kept or None
    namespace.table.set_features(row, features)
