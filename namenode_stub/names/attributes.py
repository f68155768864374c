"""Attribute operations: mode, owner, times, replication, quotas, extended attributes (FSDirAttrOp, FSDirXAttrOp)."""

from __future__ import annotations

from image_format.permission import XAttrNamespace
from journal import ops
from journal.ops import XAttr
from namenode_stub.names.caller import LOCAL_CALL, ClientCall
from namenode_stub.names.files import check_replication
from namenode_stub.names.limits import check_modes
from namenode_stub.names.paths import existing_for_change, is_directory
from namenode_stub.names.transactions import NamespaceOperations
from namenode_stub.refusals import NotADirectoryRefusalError, OperationRefusedError

XATTR_CREATE, XATTR_REPLACE = 1, 2  # XAttrSetFlagProto
_DONT_SET = (1 << 63) - 1


class Attributes(NamespaceOperations):
    """Changes to attributes; every method raises the same errors as `Transactions.change` and `perform`."""

    def set_permission(self, path: str, mode: int) -> None:
        with self._transactions.change(f"set permission for {path}"):
            check_modes(mode)
            existing_for_change(self._namespace, path)
            self._transactions.perform(ops.SetPermissionsOp(src=path, mode=mode))

    def set_owner(self, path: str, user: str = "", group: str = "") -> None:
        """Set the user and the group; an empty name leaves the value unchanged."""
        with self._transactions.change(f"set owner for {path}"):
            existing_for_change(self._namespace, path)
            self._transactions.perform(ops.SetOwnerOp(src=path, username=user or None, groupname=group or None))

    def set_times(self, path: str, mtime: int = -1, atime: int = -1) -> None:
        """Set times in ms since the epoch; -1 leaves a time unchanged."""
        if min(mtime, atime) < -1:
            raise OperationRefusedError(f"times {mtime} and {atime} must not be before 1970")
        with self._transactions.change(f"set times {path}"):
            existing_for_change(self._namespace, path)
            self._transactions.perform(ops.TimesOp(path=path, mtime=mtime, atime=atime))

    def set_replication(self, path: str, replication: int) -> bool:
        """Set the replication factor; return False for a directory."""
        check_replication(replication)
        with self._transactions.change(f"set replication for {path}"):
            if is_directory(self._namespace, existing_for_change(self._namespace, path)):
                return False
            self._transactions.perform(ops.SetReplicationOp(path=path, replication=replication))
            return True

    def set_quota(self, path: str, ns_quota: int, ds_quota: int) -> None:
        """Set the name and space quotas of a directory; -1 clears a quota, and 2**63 - 1 leaves it unchanged."""
        if ns_quota < -1 or ns_quota == 0 or ds_quota < -1:
            raise OperationRefusedError(f"quotas {ns_quota} and {ds_quota} must be positive, or -1 for none")
        with self._transactions.change(f"set quota on {path}"):
            row = existing_for_change(self._namespace, path)
            if not is_directory(self._namespace, row):
                raise NotADirectoryRefusalError(f"{path} is not a directory, so it has no quota")
            table = self._namespace.table
            before = int(table.ns_quota[row]), int(table.ds_quota[row])
            wanted = tuple(
                old if new == _DONT_SET else new for new, old in zip((ns_quota, ds_quota), before, strict=True)
            )
            if wanted != before:
                self._transactions.perform(ops.SetQuotaOp(src=path, ns_quota=ns_quota, ds_quota=ds_quota))

    # ---- extended attributes -----------------------------------------------------------------------------------

    def set_xattr(self, path: str, xattr: XAttr, flags: int, caller: ClientCall = LOCAL_CALL) -> None:
        """Set one attribute; `flags` define whether the attribute may be created and whether it may be replaced."""
        self._check_xattrs(xattr)
        with self._transactions.change(f"set XAttr on {path}"):
            if self._has(path, xattr):
                if not flags & XATTR_REPLACE:
                    raise OperationRefusedError(
                        f"XAttr: {xattr.name} already exists. The REPLACE flag must be specified."
                    )
            elif not flags & XATTR_CREATE:
                raise OperationRefusedError(f"XAttr: {xattr.name} does not exist. The CREATE flag must be specified.")
            self._transactions.perform(ops.SetXAttrOp(src=path, xattrs=(xattr,)), caller)

    def remove_xattr(self, path: str, xattr: XAttr, caller: ClientCall = LOCAL_CALL) -> None:
        """Remove one attribute; raise OperationRefusedError if the inode does not have it."""
        self._check_xattrs(xattr)
        with self._transactions.change(f"remove XAttr entry on {path}"):
            if not self._has(path, xattr):
                raise OperationRefusedError("No matching attributes found for remove operation")
            self._transactions.perform(ops.RemoveXAttrOp(src=path, xattrs=(xattr,)), caller)

    def _has(self, path: str, xattr: XAttr) -> bool:
        existing_for_change(self._namespace, path)
        with self._transactions.reading() as read:
            held = read.reads.attribute_names(read.existing(path))
        return any((each.namespace, each.name) == (XAttrNamespace(xattr.namespace).name, xattr.name) for each in held)

    def _check_xattrs(self, xattr: XAttr) -> None:
        if xattr.namespace not in (XAttrNamespace.USER, XAttrNamespace.TRUSTED):
            name = f"{XAttrNamespace(xattr.namespace).name.lower()}.{xattr.name}"
            raise OperationRefusedError(
                f"{name} cannot be changed: the stub changes only attributes user.* and trusted.*"
            )
        if not ops.SetXAttrOp.present_in(self._transactions.layout_version):
            raise OperationRefusedError(f"layout {self._transactions.layout_version} has no extended attributes")
