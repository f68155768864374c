"""ACL operations on the live namespace (FSDirAclOp, AclStorage)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hadoop_rpc.client_values import AclEntryView, ClientAcl
from image_format.permission import AclScope, AclType
from journal import ops
from namenode_stub.names.acl_rules import AclRefusedError, filtered, merged, replaced, without_defaults
from namenode_stub.names.paths import existing_for_change, is_directory
from namenode_stub.names.transactions import NamespaceOperations


def _complete_entries(acl: ClientAcl) -> list[AclEntryView]:
    """Return the complete ACL of an inode, including entries from the mode (AclStorage.readINodeLogicalAcl)."""
    mode = acl.mode or 0
    owner, group, other = mode >> 6 & 7, mode >> 3 & 7, mode & 7
    extended = [entry for entry in acl.entries if entry.scope == AclScope.ACCESS]
    middle = [*extended, AclEntryView(AclScope.ACCESS, AclType.MASK, "", group)]
    if not extended:
        middle = [AclEntryView(AclScope.ACCESS, AclType.GROUP, "", group)]
    return [
        AclEntryView(AclScope.ACCESS, AclType.USER, "", owner),
        *middle,
        AclEntryView(AclScope.ACCESS, AclType.OTHER, "", other),
        *(entry for entry in acl.entries if entry.scope == AclScope.DEFAULT),
    ]


class AclOperations(NamespaceOperations):
    """ACL operations; methods raise AclRefusedError, and the same errors as `Transactions.change` and `perform`."""

    def replace(self, path: str, spec: Sequence[AclEntryView]) -> None:
        """Replace the ACL with `spec`; scopes without entries in `spec` are unchanged."""
        self._change(path, lambda entries: replaced(entries, spec))

    def modify(self, path: str, spec: Sequence[AclEntryView]) -> None:
        """Change or add entries."""
        self._change(path, lambda entries: merged(entries, spec))

    def remove_entries(self, path: str, spec: Sequence[AclEntryView]) -> None:
        """Remove entries; ignore permissions in `spec`."""
        self._change(path, lambda entries: filtered(entries, spec))

    def remove_default(self, path: str) -> None:
        self._change(path, without_defaults)

    def remove(self, path: str) -> None:
        """Remove all entries except the entries that the mode represents."""
        self._change(path, lambda _: [])

    def _change(self, path: str, change: Callable[[list[AclEntryView]], list[AclEntryView]]) -> None:
        with self._transactions.change(f"set acl on {path}"):
            row = existing_for_change(self._namespace, path)
            if not ops.SetAclOp.present_in(self._transactions.layout_version):
                raise AclRefusedError(f"layout {self._transactions.layout_version} has no ACLs")
            with self._transactions.reading() as read:
                entries = change(_complete_entries(read.reads.acl(read.existing(path))))
            if not is_directory(self._namespace, row) and any(e.scope == AclScope.DEFAULT for e in entries):
                raise AclRefusedError("Invalid ACL: only directories may have a default ACL.")
            written = tuple(ops.AclEntry(e.type, e.scope, e.permission, e.name or None) for e in entries)
            self._transactions.perform(ops.SetAclOp(src=path, acl_entries=written))
