"""Listings of directories, in the current tree and in snapshots, as values and as lines of `hdfs dfs -ls`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hadoop_common.java_numbers import signed64
from hadoop_common.printable import escaped
from image_tools.browse import ImageBrowser
from image_tools.dump.values import java_text, local_minutes, mode_symbols, reported_replication, storage_policy_name
from image_tools.namespace_browser import LocatedInode, Place, SnapshotFolder
from image_tools.namespace_reads import NamespaceReads, components
from image_tools.permission_checker import ReadRefusedError
from image_tools.search.scan import NoSuchPathError

_HINT = "Specify a path of the image, /.reserved/.inodes/ID or /.reserved/raw/PATH."


class ListedInode(NamedTuple):
    path: str
    place: LocatedInode


def listed(browser: ImageBrowser, path: str, *, itself: bool) -> Iterator[ListedInode]:
    """Yield the children of a directory; for a file, or with `itself`, only the inode at the path.

    A path may begin with `/.reserved/.inodes/ID` or `/.reserved/raw`, as for a NameNode.

    Raises:
        NoSuchPathError: the path does not exist.
        RecordError: a record is damaged.
    """
    names = components(path.encode("utf-8", "surrogateescape"))
    normal = "".join(f"/{java_text(each)}" for each in names)
    place = _find(browser, b"/" + b"/".join(names))
    children: Iterator[LocatedInode]
    if isinstance(place, SnapshotFolder) and place.snapshots is not None:
        children = iter(place.snapshots)
    elif place is None or isinstance(place, SnapshotFolder):
        raise NoSuchPathError(f"{normal or '/'} does not exist in the image", hint=_HINT)
    elif itself or not place.inode.HasField("directory"):
        yield ListedInode(normal or "/", place)
        return
    else:
        children = browser.children(place)
    for child in children:
        yield ListedInode(f"{normal}/{java_text(child.inode.name)}", child)


def _find(browser: ImageBrowser, path: bytes) -> Place:
    try:
        return NamespaceReads(browser, None).find(path)
    except ReadRefusedError as error:
        raise NoSuchPathError(f"{error} in the image", hint=_HINT) from error


def sized(browser: ImageBrowser, listed: ListedInode) -> dict[str, Any]:
    """Return the path and the sums of the subtree at an inode; raise the same errors as `ImageBrowser.content`."""
    return {"path": listed.path, **browser.content(listed.place).totals._asdict()}


def attributes(browser: ImageBrowser, listed: ListedInode) -> dict[str, Any]:
    """Return the attributes of an inode; times are in ms since 1970; attributes that its kind lacks are 0.

    Raises:
        RecordError: the string table lacks its owner or group.
    """
    inode, kind = listed.place.inode, "file"
    holder: Any = inode.file
    if inode.HasField("directory"):
        holder, kind = inode.directory, "directory"
    elif inode.HasField("symlink"):
        holder, kind = inode.symlink, "symlink"
    owner = browser.names.owner(holder.permission)
    is_file, is_directory = kind == "file", kind == "directory"
    return {
        "path": listed.path,
        "type": kind,
        "owner": owner.user,
        "group": owner.group,
        "mode": f"{owner.mode & 0o7777:04o}",
        "length": sum(signed64(block.numBytes) for block in inode.file.blocks),
        "replication": reported_replication(inode.file) if is_file else 0,
        "blockSize": signed64(inode.file.preferredBlockSize) if is_file else 0,
        "mtime": signed64(holder.modificationTime),
        "atime": 0 if is_directory else signed64(holder.accessTime),
        "storagePolicy": storage_policy_name(listed.place.policy),
        "erasureCodingPolicy": listed.place.coding or None,
        "acl": [] if kind == "symlink" else [browser.names.acl_entry(entry) for entry in holder.acl.entries],
    }


def ls_line(row: dict[str, Any]) -> str:
    """Return the line that `hdfs dfs -ls` prints for `attributes`."""
    letter = {"file": "-", "directory": "d", "symlink": "l"}[row["type"]]
    mode = f"{letter}{mode_symbols(int(row['mode'], 8))}{'+' if row['acl'] else ' '}"
    replication = str(row["replication"]) if row["type"] == "file" else "-"
    names = f"{row['owner'] or ''} {row['group'] or ''}"
    return f"{mode} {replication:>3} {names} {row['length']:>12} {local_minutes(row['mtime'])} {escaped(row['path'])}"
