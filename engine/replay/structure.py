"""Changes to the shape of the tree: MKDIR, SYMLINK, DELETE, RENAME_OLD, RENAME."""

from __future__ import annotations

from engine.errors import NamespaceError, UnsupportedNamespaceError
from engine.namespace import ROOT_ROW, Namespace
from engine.namespace.op_paths import join_names, lies_below, name_for_rename, split_path
from engine.namespace.path_resolver import ResolvedPath
from engine.replay.features import inherit_default_acl, replace_acl
from image_format.inode_features import Features
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY, SYMLINK
from journal.ops import RENAME_OVERWRITE, DeleteOp, MkdirOp, RenameOldOp, RenameOp, SymlinkOp

_LOST_HINT = (
    "Keep copies of this image and the edits, which still contain the directory; `edits recover --skip TXID` "
    "omits the rename."
)


def mkdir(namespace: Namespace, op: MkdirOp) -> None:
    table, tree = namespace.table, namespace.tree
    namespace.use_inode_id(op.inode_id)
    parent, name = tree.paths.find_parent(op.path)
    tree.paths.check_new_name(parent, name)
    if tree.child(parent, name) != NO_ROW:
        namespace.ignore()
        return
    row = tree.add(parent, name, op.inode_id, DIRECTORY)
    table.permission[row] = namespace.permission(op.permissions)
    table.mtime[row] = op.timestamp
    namespace.recorder.add_child(parent, name, row, namespace.recorder.lookup.latest_below(parent))
    inherit_default_acl(namespace, parent, row)
    if op.acl_entries is not None:
        replace_acl(namespace, row, op.acl_entries)


def symlink(namespace: Namespace, op: SymlinkOp) -> None:
    """Create a symbolic link in the last existing directory of the path, as a NameNode does.

    This directory is the path's parent, a directory above the parent, or an existing directory at the path.
    """
    table, tree = namespace.table, namespace.tree
    namespace.use_inode_id(op.inode_id)
    parent, name = tree.paths.last_existing(op.path)
    if table.kind[parent] != DIRECTORY:
        raise NamespaceError(f"{tree.path(parent)} is not a directory, so {op.path} cannot be created")
    tree.paths.check_new_name(parent, name)
    if tree.child(parent, name) != NO_ROW:
        namespace.ignore()
        return
    row = tree.add(parent, name, op.inode_id, SYMLINK)
    table.permission[row] = namespace.permission(op.permissions)
    table.mtime[row] = op.mtime
    table.atime[row] = op.atime
    table.set_features(row, Features(target=op.target.encode("utf-8", "replace")))
    namespace.recorder.add_child(parent, name, row, namespace.recorder.lookup.latest_below(parent))


def remove(namespace: Namespace, row: int, timestamp: int) -> None:
    """Remove an inode and its descendants, and update its parent's mtime."""
    recorder = namespace.recorder
    snapshottable = namespace.check_no_snapshots(row)
    parent = int(namespace.table.parent[row])
    latest = recorder.lookup.latest(row)
    was_dst = namespace.tree.references.is_dst(row)
    open_below = namespace.open_below(row)
    recorder.record_in(row, latest)
    last = recorder.unlink_last(row, row, latest)
    recorder.raise_mtime(parent, timestamp, latest)
    # Hadoop 2.7 keeps inodes that snapshots contain under other names, including their later children.
    if last or namespace.hadoop3:
        namespace.remove(row, latest, was_dst=was_dst)
    for leased in open_below:
        namespace.close(leased)
    for directory in snapshottable:
        namespace.snapshots.forget(int(namespace.table.id[directory]))


def delete(namespace: Namespace, op: DeleteOp) -> None:
    row = namespace.tree.paths.find(op.path)
    if row in (NO_ROW, ROOT_ROW):
        namespace.ignore()
    else:
        namespace.leases.removed(row, op.path)
        remove(namespace, row, op.timestamp)


def _move(namespace: Namespace, source: int, parent: int, name: bytes, timestamp: int) -> None:
    """Move an inode; source and target have been checked (FSDirRenameOp.RenameOperation).

    The inode may already be the child `name` of `parent`; in this case, it is removed and added again.
    """
    table, tree, recorder = namespace.table, namespace.tree, namespace.recorder
    tree.references.check_known(source)
    old_parent, old_name = int(table.parent[source]), table.name(source)
    old_path = tree.path(source) if namespace.leases.keeps_paths else ""
    existing = tree.child(parent, name)
    if existing == source:
        existing = NO_ROW
    was_dst = existing != NO_ROW and tree.references.is_dst(existing)
    source_latest = recorder.lookup.latest(source)
    target_latest = recorder.lookup.latest_below(parent) if existing == NO_ROW else recorder.lookup.latest(existing)
    hub = tree.references.hub(source)
    leaves_name = recorder.lookup.node_in_latest(source, source_latest)
    if leaves_name:
        recorder.record_in(source, source_latest, with_blocks=recorder.lists_blocks_of_moved)
        recorder.created.check_replaceable(source)
        named = tree.references.add_name(source, old_name, source_latest, old_parent)
        hub = tree.references.hub(source)
        recorder.unlink_last(source, named, source_latest)
    else:
        recorder.unlink_last(source, source, source_latest)
        recorder.created.make_shared(old_parent, old_name, source)
    open_below = [] if existing == NO_ROW else namespace.open_below(existing)
    removes = existing != NO_ROW and recorder.unlink_last(existing, existing, target_latest)
    recorder.created.rename(source, name)
    if hub is not None:
        tree.references.set_dst(hub, target_latest)
    recorder.add_child(parent, name, source, target_latest)
    recorder.raise_mtime(old_parent, timestamp, source_latest)
    recorder.raise_mtime(parent, timestamp, target_latest)
    if leaves_name:
        recorder.created.check_moved(source, source_latest)
    if removes:
        namespace.remove(existing, target_latest, was_dst=was_dst)
    for leased in open_below:
        namespace.close(leased)
    namespace.leases.moved(old_path, tree.path(source) if namespace.leases.keeps_paths else "")


def _spelled(namespace: Namespace, path: str) -> str:
    """Return a path as renames compare it: as a string in Hadoop 2.7, and as components in Hadoop 3."""
    return join_names(split_path(path, hadoop3=True)) if namespace.hadoop3 else path


def _target_of_old(namespace: Namespace, source: ResolvedPath, op: RenameOldOp) -> tuple[ResolvedPath, str]:
    """Return (target of RENAME_OLD, its path for comparison); in a directory, the source keeps its name."""
    tree, dst = namespace.tree, _spelled(namespace, op.dst)
    target = tree.paths.resolve(op.dst)
    if target.row == NO_ROW or namespace.table.kind[target.row] != DIRECTORY:
        return target, dst
    if namespace.hadoop3:
        inside = ResolvedPath(tree.child(target.row, source.name), target.row, source.name)
        return inside, join_names([*split_path(op.dst, hadoop3=True), source.name])
    # After a trailing slash, `dst` has an empty component, which matches no inode.
    dst = f"{op.dst}/{name_for_rename(op.src)}"
    return tree.paths.resolve(dst), dst


def _is_link_to(namespace: Namespace, row: int, path: str) -> bool:
    """Return whether an inode is a symbolic link with this target."""
    is_link = namespace.table.kind[row] == SYMLINK
    return is_link and namespace.table.feature(row).target == path.encode("utf-8", "replace")


def _check_not_inside(namespace: Namespace, source: int, parent: int, path: str) -> None:
    """Refuse to move a directory below itself; Hadoop 2.7 loses the directory if slashes hide this relation."""
    if namespace.tree.is_ancestor(source, parent):
        problem = f"{path} is below the renamed directory, which a NameNode then loses"
        raise UnsupportedNamespaceError(problem, hint=_LOST_HINT)


def rename_old(namespace: Namespace, op: RenameOldOp) -> None:
    """Apply RENAME_OLD; ignore an impossible rename, because the NameNode logs renames before it checks them."""
    table, tree = namespace.table, namespace.tree
    source = tree.paths.resolve(op.src)
    target, dst = _target_of_old(namespace, source, op)
    if source.row in (NO_ROW, ROOT_ROW):
        namespace.ignore()
        return
    namespace.check_no_snapshots(source.row)
    src = _spelled(namespace, op.src)
    is_useless = src == dst or lies_below(dst, src) or _is_link_to(namespace, source.row, dst)
    if is_useless or target.row != NO_ROW or target.parent == NO_ROW:
        namespace.ignore()
        return
    if table.kind[target.parent] != DIRECTORY:
        raise NamespaceError(f"parent directory of {op.dst} does not exist")
    _check_not_inside(namespace, source.row, target.parent, op.dst)
    tree.paths.check_new_name(target.parent, target.name)
    namespace.leases.respelled(source.row, op.src, dst)
    _move(namespace, source.row, target.parent, target.name, op.timestamp)


def rename(namespace: Namespace, op: RenameOp) -> None:
    table, tree = namespace.table, namespace.tree
    source = tree.paths.find(op.src)
    if source == NO_ROW:
        raise NamespaceError(f"{op.src} does not exist")
    if source == ROOT_ROW:
        raise NamespaceError("the root cannot be renamed")
    parent, name = tree.paths.find_parent(op.dst)
    src, dst = _spelled(namespace, op.src), _spelled(namespace, op.dst)
    if src == dst:
        raise NamespaceError(f"{op.src} and {op.dst} are the same")
    if lies_below(dst, src) or _is_link_to(namespace, source, dst):
        raise NamespaceError(f"{op.dst} is inside {op.src}, or the target of this link")
    _check_not_inside(namespace, source, parent, op.dst)
    tree.paths.check_new_name(parent, name)
    existing = tree.child(parent, name)
    snapshottable: list[int] = []
    lookup = namespace.recorder.lookup
    if existing == source and lookup.node_in_latest(source, lookup.latest(source)):
        raise NamespaceError(f"{op.src} and {op.dst} are the same, and a snapshot contains the inode")
    if existing != NO_ROW:
        if RENAME_OVERWRITE not in op.options:
            raise NamespaceError(f"{op.dst} exists")
        if (table.kind[existing] == DIRECTORY) != (table.kind[source] == DIRECTORY):
            raise NamespaceError(f"{op.src} and {op.dst} are not both directories")
        if table.kind[existing] == DIRECTORY and next(tree.children(existing), None) is not None:
            raise NamespaceError(f"{op.dst} is not empty")
        snapshottable = namespace.check_no_snapshots(existing)
    namespace.check_no_snapshots(source)
    namespace.leases.respelled(source, op.src, op.dst)
    if existing != NO_ROW:
        namespace.leases.replaced(existing, source)
    _move(namespace, source, parent, name, op.timestamp)
    for directory in snapshottable:
        namespace.snapshots.forget(int(table.id[directory]))
