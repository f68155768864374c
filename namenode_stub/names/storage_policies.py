"""Storage policies of files and directories (BlockStoragePolicySuite, FSDirAttrOp)."""

from __future__ import annotations

from hadoop_common.storage_policies import UNSPECIFIED_POLICY, StoragePolicy, storage_policy
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.storage_policies import policies_of
from journal import ops
from namenode_stub.names.paths import existing_for_change
from namenode_stub.names.transactions import NamespaceOperations
from namenode_stub.refusals import IllegalArgumentError, NotThereError


def is_copied(policy_id: int) -> bool:
    """Return whether new files receive a copy of the directory's policy, as for in-memory files (copyOnCreateFile)."""
    policy = storage_policy(policy_id)
    return policy is not None and policy.copied


class StoragePolicies(NamespaceOperations):
    """Operations on storage policies; changes raise the same errors as `Transactions.change` and `perform`."""

    def named(self, name: str) -> StoragePolicy:
        """Return the policy with a name, ignoring case; raise IllegalArgumentError if it does not exist."""
        policies = policies_of(self._namespace.base.layout_version)
        found = next((policy for policy in policies if policy.name == name.upper()), None)
        if found is None:
            raise IllegalArgumentError(f"Cannot find a block policy with the name {name}")
        return found

    def for_new_file(self, above: int, name: str = "") -> int:
        """Return the policy id to set on a new file, or 0 if the directory's policy applies. The caller holds the lock.

        Args:
            above: id of the effective policy of the file's directory.
            name: name of the requested policy.
        """
        if name:
            return self.named(name).id
        return above if is_copied(above) else UNSPECIFIED_POLICY

    def set(self, path: str, name: str) -> None:
        policy = self.named(name)
        with self._transactions.change(f"set storage policy for {path}"):
            if self._is_file(path):
                if policy.copied:
                    raise IllegalArgumentError(f"Policy {policy.name} cannot be set after file creation.")
                self._check_changeable(path)
            self._transactions.perform(ops.SetStoragePolicyOp(path=path, policy_id=policy.id))

    def unset(self, path: str) -> None:
        """Remove the policy set on a file or directory."""
        with self._transactions.change(f"unset storage policy for {path}"):
            if self._is_file(path):
                self._check_changeable(path)
            self._transactions.perform(ops.SetStoragePolicyOp(path=path, policy_id=UNSPECIFIED_POLICY))

    def _is_file(self, path: str) -> bool:
        kind = self._namespace.table.kind[existing_for_change(self._namespace, path)]
        if kind not in (FILE, DIRECTORY):
            raise NotThereError(f"{path} is not a file or directory")
        return bool(kind == FILE)

    def _check_changeable(self, path: str) -> None:
        table = self._namespace.table
        if is_copied(int(table.policy[existing_for_change(self._namespace, path)])):
            raise IllegalArgumentError(f"Existing policy of {path} cannot be changed after file creation.")
