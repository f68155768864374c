"""Snapshot operations: allow, create, rename, delete (FSDirSnapshotOp, SnapshotManager)."""

from __future__ import annotations

from datetime import datetime

from engine.namespace import Namespace
from engine.namespace.op_paths import encode_name
from journal import ops
from namenode_stub.names.caller import LOCAL_CALL, ClientCall
from namenode_stub.names.limits import check_name
from namenode_stub.names.paths import DOT_SNAPSHOT, existing_for_change, is_directory
from namenode_stub.names.transactions import NamespaceOperations, now
from namenode_stub.refusals import (
    IllegalArgumentError,
    InvalidPathRefusalError,
    NotADirectoryRefusalError,
    SnapshotRefusedError,
)


def snapshot_path(root: str, name: str) -> str:
    return f"{root.rstrip('/')}/{DOT_SNAPSHOT}/{name}"


def snapshot_names(namespace: Namespace, row: int) -> dict[bytes, int]:
    """Return the name and id of each snapshot of a directory, by name."""
    return {each.name: each.id for each in namespace.snapshots.of_directory(int(namespace.table.id[row]))}


class SnapshotOperations(NamespaceOperations):
    """Changes to snapshots; every method raises the same errors as `Transactions.change` and `perform`."""

    def _directory(self, path: str) -> int:
        row = existing_for_change(self._namespace, path)
        if not is_directory(self._namespace, row):
            raise NotADirectoryRefusalError(f"{path} is not a directory")
        return row

    def _snapshottable(self, path: str) -> int:
        row = self._directory(path)
        if not self._namespace.snapshots.is_snapshottable(int(self._namespace.table.id[row])):
            raise SnapshotRefusedError(f"Directory is not a snapshottable directory: {path}")
        return row

    def allow(self, path: str) -> None:
        """Make a directory snapshottable; snapshottable directories cannot be nested."""
        with self._transactions.change(f"allow snapshot for {path}"):
            row = self._directory(path)
            tree = self._namespace.tree
            for other in tree.locate(list(self._namespace.snapshots.snapshottable_ids)):
                if other != row and (tree.is_ancestor(other, row) or tree.is_ancestor(row, other)):
                    relation = "ancestor" if tree.is_ancestor(other, row) else "subdirectory"
                    raise SnapshotRefusedError(
                        f"Nested snapshottable directories not allowed: path={path}, the {relation} "
                        f"{tree.path(other)} is already a snapshottable directory."
                    )
            self._transactions.perform(ops.AllowSnapshotOp(snapshot_root=path))

    def disallow(self, path: str) -> None:
        with self._transactions.change(f"disallow snapshot for {path}"):
            row = self._directory(path)
            if self._namespace.snapshots.has_snapshots(int(self._namespace.table.id[row])):
                raise SnapshotRefusedError(
                    f"The directory {path} has snapshot(s). Please redo the operation after removing all the snapshots."
                )
            self._transactions.perform(ops.DisallowSnapshotOp(snapshot_root=path))

    def create(self, path: str, name: str = "", caller: ClientCall = LOCAL_CALL) -> str:
        """Create a snapshot, by default named after the time; return its path."""
        with self._transactions.change(f"create snapshot for {path}"):
            row = self._snapshottable(path)
            name = name or datetime.now().astimezone().strftime("s%Y%m%d-%H%M%S.%f")[:-3]
            self._check_new(row, path, name)
            self._transactions.perform(
                ops.CreateSnapshotOp(snapshot_root=path, snapshot_name=name, mtime=now()), caller
            )
            return snapshot_path(path, name)

    def _check_new(self, row: int, path: str, name: str) -> None:
        if "/" in name:
            raise IllegalArgumentError('Snapshot name cannot contain "/"')
        if name in (DOT_SNAPSHOT, ".", "..", "") or ":" in name:
            raise InvalidPathRefusalError(f"Invalid snapshot name: {name}")
        check_name(f"{path}/{name}")
        if encode_name(name) in snapshot_names(self._namespace, row):
            raise SnapshotRefusedError(
                f"Failed to add snapshot: there is already a snapshot with the same name {name!r}."
            )

    def _check_held(self, row: int, path: str, name: str) -> None:
        if encode_name(name) not in snapshot_names(self._namespace, row):
            raise SnapshotRefusedError(f"Cannot find snapshot {name} of {path}: the snapshot does not exist.")

    def rename(self, path: str, old: str, new: str, caller: ClientCall = LOCAL_CALL) -> None:
        with self._transactions.change(f"rename snapshot for {path}"):
            row = self._snapshottable(path)
            self._check_held(row, path, old)
            if old != new:
                self._check_new(row, path, new)
            self._transactions.perform(
                ops.RenameSnapshotOp(snapshot_root=path, snapshot_old_name=old, snapshot_new_name=new, mtime=now()),
                caller,
            )

    def delete(self, path: str, name: str, caller: ClientCall = LOCAL_CALL) -> None:
        with self._transactions.change(f"delete snapshot for {path}"):
            self._check_held(self._snapshottable(path), path, name)
            self._transactions.perform(
                ops.DeleteSnapshotOp(snapshot_root=path, snapshot_name=name, mtime=now()), caller
            )
