"""The tree now or in a snapshot: resolution of paths, including `/dir/.snapshot/NAME/...`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.namespace import ROOT_ROW, Namespace
from engine.namespace.diffs import CURRENT_STATE, DirectoryDiff, FileDiff, Node
from engine.namespace.paths import encode_name
from image_format.kernels.inode import DIRECTORY, SYMLINK
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from namenode_stub.names.paths import DOT_SNAPSHOT, checked_path
from namenode_stub.names.snapshot_operations import snapshot_names
from namenode_stub.refusals import SymlinkInPathError


@dataclass(frozen=True, slots=True)
class InodePlace:
    """An inode as it is now, or as it was in a snapshot."""

    row: int
    snapshot_id: int = CURRENT_STATE


@dataclass(frozen=True, slots=True)
class DotSnapshot:
    """`DIR/.snapshot` of the directory in `row`: not an inode, but the list of its snapshots."""

    row: int


def row_of(node: Node) -> int:
    """Return the row of a directory's child node."""
    return node if isinstance(node, int) else node.row


def resolve(namespace: Namespace, path: str, *, follow: bool = False) -> InodePlace | DotSnapshot | None:
    """Resolve a path (INodesInPath.resolve); None if it does not exist.

    Args:
        follow: also refuse a symbolic link as the last component.

    Raises:
        InvalidPathRefusalError: the path is malformed.
        SymlinkInPathError: it leads through a symbolic link.
    """
    *_, last = places_along(namespace, path, follow=follow)
    return last


def places_along(namespace: Namespace, path: str, *, follow: bool = False) -> Iterator[InodePlace | DotSnapshot | None]:
    """Yield the place of each component of a path, the root first; None at the end if it is missing. See `resolve`."""
    names = [name for name in checked_path(path).split("/") if name]
    place = InodePlace(ROOT_ROW)
    yield place
    at = 0
    while at < len(names):
        if names[at] == DOT_SNAPSHOT and place.snapshot_id == CURRENT_STATE and _has_dot_snapshot(namespace, place.row):
            if at + 1 == len(names):
                yield DotSnapshot(place.row)
                return
            found = snapshot_names(namespace, place.row).get(encode_name(names[at + 1]))
            if found is None:
                yield None
                return
            place = InodePlace(place.row, found)
            yield place
            at += 2
            continue
        node = None
        if namespace.table.kind[place.row] == DIRECTORY:
            node = namespace.history.lookup.child_at(place.row, encode_name(names[at]), place.snapshot_id)
        if node is None:
            yield None
            return
        place = InodePlace(row_of(node), place.snapshot_id)
        at += 1
        if namespace.table.kind[place.row] == SYMLINK and (follow or at < len(names)):
            raise SymlinkInPathError(f"/{'/'.join(names[:at])} in {path} is a symbolic link")
        yield place


def _has_dot_snapshot(namespace: Namespace, row: int) -> bool:
    return namespace.snapshots.is_snapshottable(int(namespace.table.id[row]))


def nodes_at(namespace: Namespace, place: InodePlace) -> dict[bytes, Node]:
    """Return the nodes in a directory by name."""
    names: dict[bytes, Node] = dict(namespace.tree.children(place.row))
    if place.snapshot_id != CURRENT_STATE:
        names.update(namespace.tree.misplaced(place.row))
        since = namespace.history.created.changes_since(place.row, place.snapshot_id)
        for name in since.created:
            names.pop(name, None)
        names.update(since.deleted)
    return names


def children_at(namespace: Namespace, place: InodePlace) -> Iterator[tuple[bytes, InodePlace]]:
    """Yield name and place of each child of a directory, in Hadoop's order of names."""
    nodes = nodes_at(namespace, place)
    for name in sorted(nodes, key=name_key):
        yield name, InodePlace(row_of(nodes[name]), place.snapshot_id)


def copy_at(namespace: Namespace, place: InodePlace) -> pb.INodeFile | pb.INodeDirectory | None:
    """Return the attributes that an inode had in a snapshot; None if they are the current ones."""
    if place.snapshot_id == CURRENT_STATE:
        return None
    diffs = namespace.history.diffs.get(place.row)
    if diffs is None:
        return None
    return next(copies(namespace, diffs.items[diffs.index_at(place.snapshot_id) :]), None)


def copies(
    namespace: Namespace, diffs: Sequence[FileDiff | DirectoryDiff]
) -> Iterator[pb.INodeFile | pb.INodeDirectory]:
    """Yield the stored attributes of the diffs that have some."""
    encoder = namespace.history.diffs.encoder
    for diff in diffs:
        copy = encoder.file_copy(diff) if isinstance(diff, FileDiff) else encoder.directory_copy(diff)
        if copy is not None:
            yield copy


def size_at(namespace: Namespace, place: InodePlace) -> int:
    """Return the size of a file in bytes, now or in a snapshot."""
    diffs = namespace.history.diffs.of_file(place.row)
    diff = None if diffs is None else diffs.at(place.snapshot_id)
    if diff is not None:
        return diff.file_size
    return sum(block.num_bytes for block in namespace.table.file_blocks(place.row))
