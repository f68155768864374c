"""The shape of the tree: MKDIR, SYMLINK, DELETE, RENAME_OLD, RENAME."""

from __future__ import annotations

from engine.errors import NamespaceError
from engine.namespace import ROOT_ROW, Namespace
from engine.replay.acls import inherit_default_acl, set_acl
from image_format.inode_table import DIRECTORY, NO_ROW, SYMLINK, Features
from journal.ops import RENAME_OVERWRITE, DeleteOp, MkdirOp, RenameOldOp, RenameOp, SymlinkOp


def mkdir(namespace: Namespace, op: MkdirOp) -> None:
    table, tree = namespace.table, namespace.tree
    namespace.use_inode_id(op.inode_id)
    parent, name = tree.find_parent(op.path)
    if tree.child(parent, name) != NO_ROW:
        return
    row = tree.add(parent, name, op.inode_id, DIRECTORY)
    table.permission[row] = namespace.permission(op.permissions)
    table.mtime[row] = op.timestamp
    namespace.history.add_child(parent, name, row, namespace.history.latest_below(parent))
    inherit_default_acl(namespace, parent, row)
    if op.acl_entries is not None:
        set_acl(namespace, row, op.acl_entries)


def symlink(namespace: Namespace, op: SymlinkOp) -> None:
    table, tree = namespace.table, namespace.tree
    namespace.use_inode_id(op.inode_id)
    parent, name = tree.find_parent(op.path)
    if tree.child(parent, name) != NO_ROW:
        raise NamespaceError(f"{op.path} exists")
    row = tree.add(parent, name, op.inode_id, SYMLINK)
    table.permission[row] = namespace.permission(op.permissions)
    table.mtime[row] = op.mtime
    table.atime[row] = op.atime
    table.set_features(row, Features(target=op.target.encode("utf-8", "replace")))
    namespace.history.add_child(parent, name, row, namespace.history.latest_below(parent))


def remove(namespace: Namespace, row: int, timestamp: int) -> None:
    """Remove an inode and all below it; its parent's mtime follows."""
    history = namespace.history
    snapshottable = namespace.check_no_snapshots(row)
    parent = int(namespace.table.parent[row])
    latest = history.latest(row)
    was_dst = namespace.tree.references.is_dst(row)
    open_below = namespace.open_below(row)
    history.record_in(row, latest)
    last = history.unlink_last(row, row, latest)
    history.raise_mtime(parent, timestamp, latest)
    # Hadoop 2.7 leaves alone what snapshots have under other names, all that came since then included.
    if last or namespace.hadoop3:
        namespace.remove(row, latest, was_dst=was_dst)
    for leased in open_below:
        namespace.close(leased)
    for directory in snapshottable:
        namespace.snapshots.forget(int(namespace.table.id[directory]))


def delete(namespace: Namespace, op: DeleteOp) -> None:
    row = namespace.tree.find(op.path)
    if row not in (NO_ROW, ROOT_ROW):
        remove(namespace, row, op.timestamp)


def _move(namespace: Namespace, source: int, parent: int, name: bytes, timestamp: int) -> None:
    """Move an inode, both of whose ends have been checked (FSDirRenameOp.RenameOperation)."""
    table, tree, history = namespace.table, namespace.tree, namespace.history
    tree.references.check_known(source)
    old_parent, old_name = int(table.parent[source]), table.name(source)
    old_path = tree.path(source) if namespace.leases.keeps_paths else ""
    existing = tree.child(parent, name)
    was_dst = existing != NO_ROW and tree.references.is_dst(existing)
    source_latest = history.latest(source)
    target_latest = history.latest_below(parent) if existing == NO_ROW else history.latest(existing)
    hub = tree.references.hub(source)
    if history.node_in_latest(source, source_latest):
        history.record_in(source, source_latest, with_blocks=namespace.hadoop3)
        history.check_replaceable(source)
        named = tree.references.add_name(source, old_name, source_latest, old_parent)
        hub = tree.references.hub(source)
        history.unlink_last(source, named, source_latest)
    else:
        history.unlink_last(source, source, source_latest)
        history.make_shared(old_parent, old_name, source)
    open_below = [] if existing == NO_ROW else namespace.open_below(existing)
    removes = existing != NO_ROW and history.unlink_last(existing, existing, target_latest)
    history.rename(source, name)
    if hub is not None:
        tree.references.set_dst(hub, target_latest)
    history.add_child(parent, name, source, target_latest)
    history.raise_mtime(old_parent, timestamp, source_latest)
    history.raise_mtime(parent, timestamp, target_latest)
    if removes:
        namespace.remove(existing, target_latest, was_dst=was_dst)
    for leased in open_below:
        namespace.close(leased)
    namespace.leases.moved(old_path, tree.path(source) if namespace.leases.keeps_paths else "")


def rename_old(namespace: Namespace, op: RenameOldOp) -> None:
    """A rename that cannot be done is no error: the NameNode logged it before it knew."""
    table, tree = namespace.table, namespace.tree
    source = tree.find(op.src)
    if source in (NO_ROW, ROOT_ROW):
        return
    destination = tree.find(op.dst)
    if destination != NO_ROW and table.kind[destination] == DIRECTORY:
        parent, name = destination, table.name(source)
    else:
        try:
            parent, name = tree.find_parent(op.dst)
        except NamespaceError:
            return
    if tree.child(parent, name) != NO_ROW or tree.is_ancestor(source, parent):
        return
    namespace.check_no_snapshots(source)
    _move(namespace, source, parent, name, op.timestamp)


def rename(namespace: Namespace, op: RenameOp) -> None:
    table, tree = namespace.table, namespace.tree
    source = namespace.existing(op.src)
    if source == ROOT_ROW:
        raise NamespaceError("the root cannot be renamed")
    parent, name = tree.find_parent(op.dst)
    if tree.is_ancestor(source, parent):
        raise NamespaceError(f"{op.dst} is inside {op.src}")
    existing = tree.child(parent, name)
    snapshottable: list[int] = []
    if existing == source:
        raise NamespaceError(f"{op.src} and {op.dst} are the same")
    if existing != NO_ROW:
        if RENAME_OVERWRITE not in op.options:
            raise NamespaceError(f"{op.dst} exists")
        if (table.kind[existing] == DIRECTORY) != (table.kind[source] == DIRECTORY):
            raise NamespaceError(f"{op.src} and {op.dst} are not both directories")
        if table.kind[existing] == DIRECTORY and next(tree.children(existing), None) is not None:
            raise NamespaceError(f"{op.dst} is not empty")
        snapshottable = namespace.check_no_snapshots(existing)
    namespace.check_no_snapshots(source)
    _move(namespace, source, parent, name, op.timestamp)
    for directory in snapshottable:
        namespace.snapshots.forget(int(table.id[directory]))
