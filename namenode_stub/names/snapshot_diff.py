"""Changes below a directory between two snapshots, or since a snapshot (DirectorySnapshottableFeature.computeDiff)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.namespace import ROOT_ROW, Namespace
from engine.namespace.diffs import CURRENT_STATE, DirectoryDiff, DirectoryDiffs, FileDiff, FileDiffs, Node, row_of
from engine.namespace.op_paths import encode_name
from engine.namespace.references import WithName
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from namenode_stub.names.paths import find, is_directory
from namenode_stub.names.snapshot_operations import snapshot_names
from namenode_stub.names.transactions import Transactions
from namenode_stub.refusals import NotADirectoryRefusalError, NotThereError, SnapshotRefusedError

Parts = tuple[bytes, ...]
"""Names relative to the compared directory."""


@dataclass(frozen=True, slots=True)
class ChangedName:
    """A created or deleted name.

    Attributes:
        id: id of the inode.
        path: path of the name; below a moved directory, the path contains the directory's earlier name.
        was_moved: whether the name is a reference, because a rename moved the inode out of a snapshot.
        is_old_name: whether such a rename removed this name.
        target: path of a deleted name's inode in the later state, if the inode exists there.
    """

    id: int
    path: Parts
    was_moved: bool
    is_old_name: bool
    target: Parts | None = None


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """A changed directory or file; `created` and `deleted` list the names that were added to and removed from a
    directory, sorted by name.

    Attributes:
        path: path in the earlier state.
        order: position of the entry in a complete report.
    """

    id: int
    path: Parts
    is_directory: bool
    order: tuple[int, list[bytes]]
    created: Sequence[ChangedName] = ()
    deleted: Sequence[ChangedName] = ()


@dataclass(frozen=True, slots=True)
class SnapshotDifference:
    """All changes, in the order of a walk through the earlier state.

    Attributes:
        root: path of the snapshottable directory.
        is_from_earlier: whether the first of the two given states is the earlier state.
        targets: paths of moved inodes in the later state, by inode id.
    """

    root: str
    is_from_earlier: bool = True
    changes: Sequence[SnapshotChange] = ()
    targets: dict[int, Parts] = field(default_factory=dict)


class SnapshotDiffs:
    """Queries for differences; all methods raise NotServingError once the service has ended."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def between(self, path: str, first: str, second: str) -> SnapshotDifference:
        """Compare a directory and its descendants in two states.

        Args:
            first, second: names of snapshots; "" for the current state.

        Raises:
            NotThereError, NotADirectoryRefusalError: the directory does not exist.
            SnapshotRefusedError: the directory has no snapshots, or no snapshot with the name.
        """
        with self._transactions.view() as namespace:
            top = find(namespace, path)
            if top == NO_ROW:
                raise NotThereError(f"Directory does not exist: {path}")
            if not is_directory(namespace, top):
                raise NotADirectoryRefusalError(f"{path} is not a directory")
            root = _snapshottable(namespace, top, path)
            root_path = namespace.tree.path(root)
            ids = [_snapshot_id(namespace, root, name) for name in (first, second)]
            if ids[0] == ids[1]:
                return SnapshotDifference(root_path)
            return _SnapshotComparison(namespace, top, min(ids), max(ids)).difference(
                root_path, is_from_earlier=ids[0] < ids[1]
            )


def _snapshottable(namespace: Namespace, row: int, path: str) -> int:
    """Return the directory or, in Hadoop 3, an ancestor (dfs.namenode.snapshotdiff.allow.snap-root-descendant)."""
    for found in reversed(namespace.recorder.lookup.chain(row)) if namespace.hadoop3 else [row]:
        if namespace.snapshots.is_snapshottable(int(namespace.table.id[found])):
            return found
    raise SnapshotRefusedError(f"Directory is not a snapshottable directory: {path}")


def _snapshot_id(namespace: Namespace, root: int, name: str) -> int:
    if not name:
        return CURRENT_STATE
    found = snapshot_names(namespace, root).get(encode_name(name))
    if found is None:
        path = namespace.tree.path(root)
        raise SnapshotRefusedError(f"Cannot find the snapshot of directory {path} with name {name}")
    return found


class _SnapshotComparison:
    """One comparison of the tree below `top` in two states, given by their snapshot ids `earlier` and `later`."""

    def __init__(self, namespace: Namespace, top: int, earlier: int, later: int) -> None:
        self._namespace = namespace
        self._table = namespace.table
        self._recorder = namespace.recorder
        self._top = top
        self._earlier = earlier
        self._later = later
        self._targets: dict[int, Parts] = {}
        self._seen_later = False

    def difference(self, root: str, *, is_from_earlier: bool) -> SnapshotDifference:
        changes = [change for change in self._walk() if change is not None]
        return SnapshotDifference(root, is_from_earlier, changes, self._targets)

    def _walk(self) -> Iterator[SnapshotChange | None]:
        waiting: list[tuple[int, Parts]] = [(self._top, ())]
        while waiting:
            row, path = waiting.pop()
            if self._table.kind[row] == FILE:
                yield self._file(row, path)
            elif self._table.kind[row] == DIRECTORY:
                diff = DirectoryDiff(self._earlier, 0)
                yield self._directory(row, path, diff)
                waiting += reversed(list(self._below(row, path, diff)))

    def _below(self, row: int, path: Parts, diff: DirectoryDiff) -> Iterator[tuple[int, Parts]]:
        """Yield the children in the earlier state to compare; include a removed child only if it moved within `top`."""
        nodes = _nodes_at(self._namespace, _InodePlace(row, self._earlier))
        for name in sorted(nodes, key=name_key):
            node = nodes[name]
            if name in diff.deleted:
                target = self._target(node)
                if target is None:
                    continue
                self._targets[int(self._table.id[row_of(node)])] = target
            yield row_of(node), (*path, name)

    def _span(self, diffs: DirectoryDiffs | FileDiffs | None) -> tuple[int, int] | None:
        """Return the index range of the diffs between the states (AbstractINodeDiffList.changedBetweenSnapshots)."""
        if diffs is None:
            return None
        first, behind = diffs.index_at(self._earlier), diffs.index_at(self._later)
        return None if first == len(diffs.items) or behind == 0 else (first, behind)

    def _order(self, row: int) -> tuple[int, list[bytes]]:
        chain = self._recorder.lookup.chain(row)
        return len(chain), [name_key(self._table.name(above)) for above in chain]

    # ---- directories -----------------------------------------------------------------------------------------------

    def _directory(self, row: int, path: Parts, diff: DirectoryDiff) -> SnapshotChange | None:
        """Combine created and deleted names into `diff`, and return the change."""
        diffs = self._recorder.diffs.of_directory(row)
        span = self._span(diffs)
        if diffs is None or span is None:
            return None
        for each in diffs.items[slice(*span)]:
            diff.combine(each, _look_on)
        among = diffs.items[slice(*span)]
        if not diff.created and not diff.deleted and not self._has_changed(row, among, _directory_attributes):
            return None
        return SnapshotChange(
            int(self._table.id[row]),
            path,
            True,
            self._order(row),
            [
                self._child(path, name, self._recorder.lookup.child_at(row, name, self._later))
                for name in _sorted(diff.created)
            ],
            [self._child(path, name, diff.deleted[name]) for name in _sorted(diff.deleted)],
        )

    def _child(self, path: Parts, name: bytes, node: Node | None) -> ChangedName:
        if node is None:
            top = self._recorder.lookup.full_path(self._top)
            raise SnapshotRefusedError(f"the snapshots of {top} are inconsistent")
        row = row_of(node)
        is_old_name = isinstance(node, WithName)
        was_moved = is_old_name or self._namespace.tree.references.hub(row) is not None
        return ChangedName(int(self._table.id[row]), (*path, name), was_moved, is_old_name, self._target(node))

    def _has_changed(
        self,
        row: int,
        among: Sequence[DirectoryDiff | FileDiff],
        attributes: Callable[[pb.INodeDirectory | pb.INodeFile], object],
    ) -> bool:
        """Return whether attributes differ between the states; ignore modification times."""
        known = [attributes(copy) for copy in _copies(self._namespace, among)]
        if not known:
            return False
        later = _copy_at(self._namespace, _InodePlace(row, self._later))
        if later is None:
            message = self._table.message(row)
            later = message.file if self._table.kind[row] == FILE else message.directory
        return any(each != known[0] for each in [*known, attributes(later)])

    # ---- files -----------------------------------------------------------------------------------------------------

    def _file(self, row: int, path: Parts) -> SnapshotChange | None:
        diffs = self._recorder.diffs.of_file(row)
        span = self._span(diffs)
        if diffs is None or span is None:
            return None
        same_size = diffs.items[span[0]].file_size == _size_at(self._namespace, _InodePlace(row, self._later))
        if same_size and not self._has_changed(row, diffs.items[slice(*span)], _file_attributes):
            return None
        return SnapshotChange(int(self._table.id[row]), path, False, self._order(row))

    # ---- renames ---------------------------------------------------------------------------------------------------

    def _target(self, node: Node) -> Parts | None:
        """Return the path of a renamed inode in the later state, if it is below `top`."""
        if not isinstance(node, WithName):
            return None
        row, names = node.row, list[bytes]()
        while row != self._top:
            stands = self._stands(row)
            if stands is None or stands[0] in (NO_ROW, row):
                return None
            parent, name, there = stands
            if not self._is_in(parent, name, there):
                return None
            names.append(name)
            row = parent
        return tuple(reversed(names))

    def _stands(self, row: int) -> tuple[int, bytes, Node] | None:
        """Return the directory, the name and the node of an inode in the later state; None if the inode does not exist
        there.
        """
        if row == ROOT_ROW:
            return None
        hub = self._namespace.tree.references.hub(row)
        named = None
        if hub is not None and self._later != CURRENT_STATE:
            named = next((each for each in hub.with_names if each.last_snapshot >= self._later), None)
        if (int(self._table.parent[row]) if named is None else named.parent) == NO_ROW:
            self._look_at_later()
        if named is not None:
            return named.parent, named.name, named
        if hub is not None and hub.dst_snapshot is None:
            return None
        return int(self._table.parent[row]), self._table.name(row), row

    def _look_at_later(self) -> None:
        """Read the later state once, because only the whole state shows the locations of referenced inodes."""
        waiting = [] if self._seen_later else [self._top]
        self._seen_later = True
        while waiting:
            nodes = _nodes_at(self._namespace, _InodePlace(waiting.pop(), self._later))
            waiting += [row for row in map(row_of, nodes.values()) if self._table.kind[row] == DIRECTORY]

    def _is_in(self, directory: int, name: bytes, node: Node) -> bool:
        """Return whether a directory contains a node in the later state (INodeDirectory.searchChild)."""
        same = self._recorder.lookup.same_node
        if same(self._recorder.lookup.current_child(directory, name), node):
            return True
        diffs = self._recorder.diffs.of_directory(directory)
        for diff in [] if diffs is None else reversed(diffs.items):
            if any(same(gone, node) for gone in diff.deleted.values()):
                return diff.snapshot_id >= self._later
        return False


# ---- states ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _InodePlace:
    """An inode in the current state, or in a snapshot."""

    row: int
    snapshot_id: int


def _nodes_at(namespace: Namespace, place: _InodePlace) -> dict[bytes, Node]:
    """Return the nodes in a directory by name."""
    names: dict[bytes, Node] = dict(namespace.tree.children(place.row))
    if place.snapshot_id != CURRENT_STATE:
        names.update(namespace.tree.misplaced(place.row))
        since = namespace.recorder.created.changes_since(place.row, place.snapshot_id)
        for name in since.created:
            names.pop(name, None)
        names.update(since.deleted)
    return names


def _copy_at(namespace: Namespace, place: _InodePlace) -> pb.INodeFile | pb.INodeDirectory | None:
    """Return the attributes that an inode had in a snapshot; None if they equal the current attributes."""
    if place.snapshot_id == CURRENT_STATE:
        return None
    diffs = namespace.recorder.diffs.get(place.row)
    if diffs is None:
        return None
    return next(_copies(namespace, diffs.items[diffs.index_at(place.snapshot_id) :]), None)


def _copies(
    namespace: Namespace, diffs: Sequence[FileDiff | DirectoryDiff]
) -> Iterator[pb.INodeFile | pb.INodeDirectory]:
    """Yield the attributes stored in `diffs`; skip diffs without attributes."""
    encoder = namespace.recorder.diffs.encoder
    for diff in diffs:
        copy = encoder.file_copy(diff) if isinstance(diff, FileDiff) else encoder.directory_copy(diff)
        if copy is not None:
            yield copy


def _size_at(namespace: Namespace, place: _InodePlace) -> int:
    """Return the size of a file in bytes, now or in a snapshot."""
    diffs = namespace.recorder.diffs.of_file(place.row)
    diff = None if diffs is None else diffs.at(place.snapshot_id)
    if diff is not None:
        return diff.file_size
    return sum(block.num_bytes for block in namespace.table.file_blocks(place.row))


def _sorted(names: dict[bytes, int | None] | dict[bytes, Node]) -> list[bytes]:
    return sorted(names, key=name_key)


def _look_on(node: Node) -> None:
    """Do nothing, because this module combines diffs only to read them."""


def _directory_attributes(copy: pb.INodeDirectory | pb.INodeFile) -> object:
    """Return the attributes that INodeDirectoryAttributes.metadataEquals compares."""
    assert isinstance(copy, pb.INodeDirectory)
    return copy.permission, copy.nsQuota, copy.dsQuota, _features(copy)


def _file_attributes(copy: pb.INodeDirectory | pb.INodeFile) -> object:
    """Return the attributes that INodeFileAttributes.metadataEquals compares."""
    assert isinstance(copy, pb.INodeFile)
    header = copy.replication, copy.preferredBlockSize, copy.storagePolicyID, copy.erasureCodingPolicyID
    return copy.permission, header, _features(copy)


def _features(copy: pb.INodeDirectory | pb.INodeFile) -> tuple[bytes, bytes]:
    return copy.acl.SerializeToString(), copy.xAttrs.SerializeToString()
