"""Paths of operations, split as the NameNode that replays them splits them; what a name must not be.

    2.7     INode.getPathNames: slashes at the end are dropped, a doubled one leaves an empty component, which names
            no inode.
    3.x     DFSUtilClient.bytes2byteArray: doubled slashes count as one.

Both refuse a path that is not absolute, and take `.` and `..` for names. `Tree` follows the components. A NameNode
reads `/.reserved/...` in calls of clients, and at replay only in operations on snapshots (`resolve_reserved`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from engine.errors import NamespaceError

SNAPSHOT_NAME = b".snapshot"
RESERVED_NAME = b".reserved"
_RAW = b"raw"
_INODES = b".inodes"
_SLASHES = re.compile("/+")
_COMPONENT = re.compile("[^/]+/?")
_DIGITS = re.compile(r"[+-]?\d+")
_MAX_ID = (1 << 63) - 1


def encode_name(name: str) -> bytes:
    """A path component as an inode name: UTF-8, a lone surrogate becomes '?' as in Java."""
    return name.encode("utf-8", "replace")


def encodable(text: str) -> str:
    """`text` as a NameNode writes it into an image: a lone surrogate becomes '?'."""
    return text.encode("utf-8", "replace").decode()


def has_odd_slashes(path: str) -> bool:
    """Whether a path has doubled slashes, or one at its end, as the root's has."""
    return path.endswith("/") or "//" in path


def is_plain(path: str) -> bool:
    """Whether a path, not the root's, has no component that needs a second look."""
    return path[:1] == "/" and not has_odd_slashes(path) and "/.snapshot" not in path


def split_path(path: str, *, hadoop3: bool) -> list[bytes]:
    """Components of a path behind the root, which has none itself.

    Raises:
        NamespaceError: the path is not absolute.
    """
    if not path.startswith("/"):
        raise NamespaceError(f"path {path!r} is not absolute")
    names = path.rstrip("/").split("/")[1:]
    return [encode_name(name) for name in names if name or not hadoop3]


def join_names(names: Iterable[bytes]) -> str:
    """The plain path of components (INodesInPath.getPath)."""
    return "/" + b"/".join(names).decode("utf-8", "replace")


def lies_below(path: str, above: str) -> bool:
    """Whether a NameNode takes a rename's destination to be below its source: it compares texts, so that a slash at
    the end of `above` hides that it is (FSDirRenameOp.validateDestination).
    """
    return path.startswith(above) and path[len(above) :].startswith("/")


def java_path(path: str, *, hadoop3: bool) -> str:
    """What `new Path(path).toUri().getPath()` is in Hadoop: `.` and `..` are resolved, and what follows two slashes at
    the start is a host.

    Raises:
        NamespaceError: there is no such `Path`.
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
    """java.net.URI.normalize: a component is kept with the slash behind it, if any."""
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
    """Name under which 2.7 moves the source of RENAME_OLD into a directory: `new Path(path).getName()`."""
    return java_path(path, hadoop3=False).rpartition("/")[2]


def check_new_name(name: bytes, *, in_root: bool) -> None:
    """Raise NamespaceError for a name that no inode may get (FSDirectory.addLastINode)."""
    if name == SNAPSHOT_NAME or (in_root and name == RESERVED_NAME):
        raise NamespaceError(f"{name.decode()!r} is a reserved name")


def resolve_reserved(names: Sequence[bytes], path_of: Callable[[int], list[bytes] | None]) -> list[bytes]:
    """Components of what `/.reserved/raw/...` and `/.reserved/.inodes/ID/...` name, others as they are.

    FSDirectory.resolveComponents.

    Args:
        path_of: components of the path of an inode, None where there is no inode of that id.

    Raises:
        NamespaceError: there is no such inode.
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
    """The number that a component is to Java's Long.parseLong."""
    text = name.decode("utf-8", "replace")
    if not _DIGITS.fullmatch(text) or abs(int(text)) > _MAX_ID:
        raise NamespaceError(f"{text!r} is no inode id")
    return int(text)
