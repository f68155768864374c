"""Tree operations: mkdirs, delete, both renames, symbolic links (FSDirMkdirOp, FSDirDeleteOp, FSDirRenameOp)."""

from __future__ import annotations

from engine.namespace import ROOT_ROW, Namespace
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import SYMLINK
from journal import ops
from namenode_stub.names.caller import LOCAL_CALL, ClientCall
from namenode_stub.names.limits import check_modes, check_name, check_path, check_quotas, count_below
from namenode_stub.names.new_inode import CreateModes, group_for
from namenode_stub.names.paths import (
    check_changeable,
    check_parent,
    find,
    find_for_change,
    is_directory,
    last_existing,
    parent_of,
)
from namenode_stub.names.transactions import NamespaceOperations, Transactions, now
from namenode_stub.refusals import (
    AlreadyThereError,
    NotADirectoryRefusalError,
    NotEmptyError,
    NotThereError,
    OperationRefusedError,
    SnapshotRefusedError,
)


def _missing(namespace: Namespace, path: str) -> list[str]:
    """Return the missing directories up to `path`, from the top."""
    check_changeable(namespace, path)
    check_path(path)
    row, there = last_existing(namespace, path)
    names = [] if path == "/" else path.split("/")[1:]
    missing = ["/" + "/".join(names[:depth]) for depth in range(there + 1, len(names) + 1)]
    if missing and not is_directory(namespace, row):
        raise NotADirectoryRefusalError(f"Parent path is not a directory: {'/' + '/'.join(names[:there])}")
    if missing:
        check_quotas(namespace, row, len(missing))
    return missing


def _make(transactions: Transactions, path: str, caller: ClientCall, group: str, modes: CreateModes) -> None:
    namespace = transactions.namespace
    permissions = ops.PermissionStatus(caller.user, group, modes.at(namespace, path))
    inode_id = namespace.last_inode_id + 1
    transactions.perform(ops.MkdirOp(inode_id=inode_id, path=path, timestamp=now(), permissions=permissions))


def make_parents(transactions: Transactions, path: str, modes: CreateModes, caller: ClientCall) -> None:
    """Create the parents of a new inode; `modes` are the modes of the inode."""
    missing = _missing(transactions.namespace, parent_of(path))
    for each in missing:
        check_name(each)
    if missing:
        group = group_for(transactions.namespace, caller, missing[0])
        for each in missing:
            _make(transactions, each, caller, group, modes.of_parents)


class TreeOperations(NamespaceOperations):
    """Changes to the tree; every method raises the same errors as `Transactions.change` and `perform`."""

    def mkdirs(
        self, path: str, modes: CreateModes, caller: ClientCall = LOCAL_CALL, *, create_parent: bool = True
    ) -> bool:
        """Create a directory and its missing parents; return False if it already exists."""
        with self._transactions.change(f"create directory {path}"):
            check_modes(modes.masked)
            missing = _missing(self._namespace, path)
            if not missing:
                if not is_directory(self._namespace, find(self._namespace, path)):
                    raise AlreadyThereError(f"Path is not a directory: {path}")
                return False
            if not create_parent:
                check_parent(self._namespace, path)
            for each in missing:
                check_name(each)
            # the directories below inherit the group of the first directory
            group = group_for(self._namespace, caller, missing[0])
            for each in missing[:-1]:
                _make(self._transactions, each, caller, group, modes.of_parents)
            _make(self._transactions, path, caller, group, modes)
            return True

    def delete(self, path: str, caller: ClientCall = LOCAL_CALL, *, recursive: bool = False) -> bool:
        """Delete a file or directory; return False if it does not exist."""
        with self._transactions.change(f"delete {path}"):
            row = find_for_change(self._namespace, path)
            if row == NO_ROW:
                return False
            if row == ROOT_ROW:
                raise OperationRefusedError("the root cannot be deleted")
            is_full = is_directory(self._namespace, row) and any(True for _ in self._namespace.tree.children(row))
            if is_full and not recursive:
                raise NotEmptyError(f"{path} is non empty")
            self._check_no_snapshots(row)
            self._transactions.perform(ops.DeleteOp(path=path, timestamp=now()), caller)
            return True

    def _check_no_snapshots(self, row: int) -> None:
        namespace = self._namespace
        for found in namespace.snapshottable_below(row):
            if namespace.snapshots.has_snapshots(int(namespace.table.id[found])):
                path = namespace.tree.path(found)
                raise SnapshotRefusedError(
                    f"The directory {path} cannot be deleted since {path} is snapshottable and already has snapshots"
                )

    # ---- rename ----------------------------------------------------------------------------------------------

    def rename_into(self, source: str, target: str, caller: ClientCall = LOCAL_CALL) -> bool:
        """Rename as in the old API: move into `target` if it is a directory; return False on failure."""
        with self._transactions.change(f"rename {source}"):
            namespace = self._namespace
            row = find_for_change(namespace, source)
            there = find_for_change(namespace, target)
            if row in (NO_ROW, ROOT_ROW):
                return False
            self._check_no_snapshots(row)
            if there != NO_ROW and is_directory(namespace, there):
                target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
                there = find_for_change(namespace, target)
            if target == source:
                return True
            parent = find(namespace, parent_of(target))
            if there != NO_ROW or target.startswith(source + "/") or parent == NO_ROW:
                return False
            if not is_directory(namespace, parent) or self._leads_to(row, target):
                return False
            self._check_limits(row, parent, target)
            self._transactions.perform(ops.RenameOldOp(src=source, dst=target, timestamp=now()), caller)
            return True

    def rename(self, source: str, target: str, caller: ClientCall = LOCAL_CALL, *, overwrite: bool = False) -> None:
        """Rename as in POSIX: `target` is the new path; with `overwrite`, replace an existing `target`."""
        with self._transactions.change(f"rename {source}"):
            self._check_rename(source, target, overwrite=overwrite)
            self._transactions.perform(
                ops.RenameOp(
                    src=source, dst=target, timestamp=now(), options=bytes([ops.RENAME_OVERWRITE if overwrite else 0])
                ),
                caller,
            )

    def _check_rename(self, source: str, target: str, *, overwrite: bool) -> None:
        """Check a rename in the order of FSDirRenameOp.unprotectedRenameTo."""
        namespace = self._namespace
        row, there = find_for_change(namespace, source), find_for_change(namespace, target)
        if row == NO_ROW:
            raise NotThereError(f"rename source {source} is not found.")
        if row == ROOT_ROW:
            raise OperationRefusedError("rename source cannot be the root")
        self._check_no_snapshots(row)
        if target == source:
            raise AlreadyThereError(f"The source {source} and destination {target} are the same")
        if self._leads_to(row, target):
            raise AlreadyThereError(f"Cannot rename symlink {source} to its target {target}")
        if target.startswith(source + "/"):
            raise OperationRefusedError(f"Rename destination {target} is a directory or file under source {source}")
        if there == ROOT_ROW:
            raise OperationRefusedError("rename destination cannot be the root")
        if there != NO_ROW:
            self._check_overwrite(row, there, source, target, overwrite=overwrite)
        parent = find(namespace, parent_of(target))
        if parent == NO_ROW:
            raise NotThereError(f"rename destination parent {target} not found.")
        if not is_directory(namespace, parent):
            raise NotADirectoryRefusalError(f"rename destination parent {target} is a file.")
        self._check_limits(row, parent, target)

    def _check_overwrite(self, row: int, there: int, source: str, target: str, *, overwrite: bool) -> None:
        namespace = self._namespace
        if is_directory(namespace, row) != is_directory(namespace, there):
            raise OperationRefusedError(f"Source {source} and destination {target} must both be directories")
        if not overwrite:
            raise AlreadyThereError(f"rename destination {target} already exists")
        if is_directory(namespace, there) and any(True for _ in namespace.tree.children(there)):
            raise OperationRefusedError(f"rename destination directory is not empty: {target}")
        self._check_no_snapshots(there)

    def _leads_to(self, row: int, target: str) -> bool:
        table = self._namespace.table
        return bool(table.kind[row] == SYMLINK) and table.feature(row).target == target.encode()

    def _check_limits(self, row: int, parent: int, target: str) -> None:
        check_name(target)
        namespace = self._namespace
        common = int(namespace.table.parent[row])
        while not namespace.tree.is_ancestor(common, parent):
            common = int(namespace.table.parent[common])
        if common != parent:
            check_quotas(namespace, parent, count_below(namespace, row), below=common)

    # ---- symbolic links ----------------------------------------------------------------------------------------

    def create_symlink(
        self, target: str, path: str, mode: int, caller: ClientCall = LOCAL_CALL, *, create_parent: bool = False
    ) -> None:
        """Create a link to `target`; `mode` is the mode of created parents."""
        with self._transactions.change(f"create symlink {path}"):
            check_name(path)
            if find_for_change(self._namespace, path) != NO_ROW:
                raise AlreadyThereError(f"failed to create link {path} either because the filename is invalid "
                                        "or the file exists")  # fmt: skip
            if create_parent:
                make_parents(self._transactions, path, CreateModes(mode), caller)
            check_parent(self._namespace, path)
            check_quotas(self._namespace, find(self._namespace, parent_of(path)), 1)
            time = now()
            self._transactions.perform(
                ops.SymlinkOp(
                    inode_id=self._namespace.last_inode_id + 1,
                    path=path,
                    target=target,
                    mtime=time,
                    atime=time,
                    permissions=ops.PermissionStatus(caller.user, group_for(self._namespace, caller, path), 0o777),
                ),
                caller,
            )
