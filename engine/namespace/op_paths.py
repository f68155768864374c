"""Splits the paths of operations as a NameNode does during replay, and rejects forbidden names.

    2.7     INode.getPathNames: trailing slashes are removed; a doubled slash creates an empty component,
    3.x     DFSUtilClient.bytes2byteArray: doubled slashes count as one.

Both refuse relative paths and treat `.` and `..` as names. `Tree` resolves the components. A NameNode resolves
`/.reserved/...` in client calls; during replay, it does so only in operations on snapshots (`resolve_reserved`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from engine.errors import NamespaceError
from hadoop_common.java_utf8 import decode_java_utf8

SNAPSHOT_NAME = b".snapshot"
RESERVED_NAME = b".reserved"
_RAW = b"raw"
_INODES = b".inodes"
_SLASHES = re.compile("/+")
_COMPONENT = re.compile("[^/]+/?")
_DIGITS = re.compile(r"[+-]?\d+")
_MAX_ID = (1 << 63) - 1


def encode_name(name: str) -> bytes:
    """Encode a path component as an inode name: UTF-8; a lone surrogate becomes '?' as in Java."""
    return name.encode("utf-8", "replace")


def encodable(text: str) -> str:
    """Return `text` as a NameNode writes it into an image: a lone surrogate becomes '?'."""
    return text.encode("utf-8", "replace").decode()


def has_odd_slashes(path: str) -> bool:
    """Return whether a path has doubled slashes or ends with a slash; True for the root's path."""
    return path.endswith("/") or "//" in path


def is_plain(path: str) -> bool:
    """Return whether a path is absolute, is not `/`, and has no empty or `.snapshot` component."""
    return path[:1] == "/" and not has_odd_slashes(path) and "/.snapshot" not in path


def split_path(path: str, *, hadoop3: bool) -> list[bytes]:
    """Split a path into the components below the root.

    Raises:
        NamespaceError: the path is not absolute.
    """
    if not path.startswith("/"):
        raise NamespaceError(f"path {path!r} is not absolute")
    names = path.rstrip("/").split("/")[1:]
    return [encode_name(name) for name in names if name or not hadoop3]


def join_names(names: Iterable[bytes]) -> str:
    """Join components to a path (INodesInPath.getPath)."""
    return "/" + decode_java_utf8(b"/".join(names))


def lies_below(path: str, above: str) -> bool:
    """Return whether a NameNode considers a rename's destination to be below its source.

    A NameNode compares strings, so a trailing slash of `above` hides the relation (FSDirRenameOp.validateDestination).
    """
    return path.startswith(above) and path[len(above) :].startswith("/")


def java_path(path: str, *, hadoop3: bool) -> str:
    """Return the result of Hadoop's `new Path(path).toUri().getPath()`.

    `.` and `..` are resolved. After two leading slashes, the first component is a host.

    Raises:
        NamespaceError: Hadoop's `Path` rejects the string.
    """
    if not path:
        raise NamespaceError("a path is empty")
    if ":" in path.partition("/")[0]:
        path = path.partition(":")[2]
    if path.startswith("//") and len(path) > len("//"):
        _, slash, rest = path[2:].partition("/")
        path = slash + rest
    path = _SLASHES.sub("/", path) if hadoop3 else path.replace("//", "/")
    if len(path) > 1 and path.endswith("/"):
        path = path[:-1]
    return _without_dots(path)


def _without_dots(path: str) -> str:
    """Resolve `.` and `..` as java.net.URI.normalize does; each component includes the slash that follows it."""
    if "//" not in path and not {".", ".."} & set(path.split("/")):
        return path
    kept: list[str] = []
    for part in _COMPONENT.findall(path):
        name = part.rstrip("/")
        if name == ".." and kept and kept[-1].rstrip("/") != "..":
            kept.pop()
        elif name != ".":
            kept.append(part)
    return ("/" if path.startswith("/") else "") + "".join(kept)


def name_for_rename(path: str) -> str:
    """Return the name under which Hadoop 2.7 moves a RENAME_OLD source into a directory: `new Path(path).getName()`."""
    return java_path(path, hadoop3=False).rpartition("/")[2]


def check_new_name(name: bytes, *, in_root: bool) -> None:
    """Raise NamespaceError for a name that no inode may have (FSDirectory.addLastINode)."""
    if name == SNAPSHOT_NAME or (in_root and name == RESERVED_NAME):
        raise NamespaceError(f"{name.decode()!r} is a reserved name")


def resolve_reserved(names: Sequence[bytes], path_of: Callable[[int], list[bytes] | None]) -> list[bytes]:
    """Resolve `/.reserved/raw/...` and `/.reserved/.inodes/ID/...` to components; return other paths unchanged.

    See FSDirectory.resolveComponents.

    Args:
        path_of: returns the path components of an inode id, or None if the inode does not exist.

    Raises:
        NamespaceError: the inode does not exist.
    """
    if len(names) < 2 or names[0] != RESERVED_NAME:
        return list(names)
    if names[1] == _RAW and names[2:] != [RESERVED_NAME]:
        return list(names[2:])
    if names[1] != _INODES or len(names) == 2:
        return list(names)
    found = path_of(_inode_id(names[2]))
    if found is None:
        raise NamespaceError(f"{join_names(names)} does not exist")
    if names[3:4] == [b".."]:
        return found[:-1]
    return [*found, *names[3:]]


def _inode_id(name: bytes) -> int:
    """Parse a component as Java's Long.parseLong does."""
    text = name.decode("utf-8", "replace")
    if not _DIGITS.fullmatch(text) or abs(int(text)) > _MAX_ID:
        raise NamespaceError(f"{text!r} is not an inode id")
    return int(text)
