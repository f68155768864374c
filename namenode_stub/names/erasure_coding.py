"""Erasure coding policies: add, remove, enable, disable, and assign to directories (ErasureCodingPolicyManager)."""

from __future__ import annotations

import struct

from engine.namespace.erasure_coding import is_same_policy
from image_format.erasure_policies import ErasurePolicy
from image_format.permission import XAttrNamespace
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import own_policies
from journal import ops
from journal.ops import XAttr
from namenode_stub.names.caller import LOCAL_CALL, ClientCall
from namenode_stub.names.paths import existing_for_change, is_directory
from namenode_stub.names.transactions import NamespaceOperations, Transactions
from namenode_stub.refusals import IllegalArgumentError, NoPolicySetError, OperationRefusedError

CODECS = {"rs": "rs_native, rs_java", "rs-legacy": "rs-legacy_java", "xor": "xor_native, xor_java"}
"""Codecs and the names of their coders, as in a NameNode's list."""
DEFAULT_POLICY = "RS-6-3-1024k"  # dfs.namenode.ec.system.default.policy
_MAX_CELL_SIZE = 4 << 20  # dfs.namenode.ec.policies.max.cellsize
_CELL_UNIT = 1024
_LAST_ID = 127
_XATTR = "hdfs.erasurecoding.policy"
REPLICATION = ErasurePolicy("replication", "replication", 1, 2, 1 << 20)
"""The policy of a directory whose files are replicated even if an ancestor has an erasure coding policy."""


class ErasureCoding(NamespaceOperations):
    """Operations on erasure coding policies; changes raise the same errors as `Transactions.change` and `perform`.

    As in Hadoop, each start enables the default policy, even if the image disables it. An operator can then disable the
    policy until the next start.
    """

    def __init__(self, transactions: Transactions) -> None:
        super().__init__(transactions)
        self._default_enabled = True

    # ---- queries -----------------------------------------------------------------------------------------------------

    def all(self) -> list[ErasurePolicy]:
        """Return all policies by name, including removed policies, each with its state for clients."""
        with self._transactions.view():
            return sorted(self._policies(), key=lambda policy: policy.name)

    def _policies(self) -> list[ErasurePolicy]:
        return [
            policy._replace(state=pb.ENABLED) if policy.name == DEFAULT_POLICY and self._default_enabled else policy
            for policy in self._namespace.erasure_coding.policies()
        ]

    def _existing(self, name: str) -> ErasurePolicy:
        found = next((policy for policy in self._policies() if policy.name == name), None)
        if found is None:
            raise IllegalArgumentError(f"The policy name {name} does not exist")
        return found

    def enabled(self, name: str) -> ErasurePolicy:
        """Return the enabled policy `name`; raise IllegalArgumentError for other names. The caller holds the lock."""
        if name.lower() == REPLICATION.name:
            return REPLICATION
        usable = {policy.name: policy for policy in self._policies() if policy.state == pb.ENABLED}
        if name not in usable:
            raise IllegalArgumentError(
                f"Policy '{name}' does not match any enabled erasure coding policies: [{', '.join(sorted(usable))}]. "
                "An erasure coding policy can be enabled by enableErasureCodingPolicy API."
            )
        return usable[name]

    def for_new_file(self, above: str, name: str = "") -> int:
        """Return the policy id of a new file, or 0 if the file is replicated. The caller holds the lock.

        Args:
            above: name of the effective policy of the file's directory; "" if there is none.
            name: name of the requested policy.
        """
        if name:
            return self.enabled(name).id
        return next((policy.id for policy in self._policies() if policy.name == above), REPLICATION.id)

    # ---- policies ------------------------------------------------------------------------------------------------

    def add(self, wanted: ErasurePolicy, caller: ClientCall = LOCAL_CALL) -> ErasurePolicy:
        """Add a disabled policy and return it; if a policy with this name or schema exists, return the existing policy.

        Raises:
            IllegalArgumentError: the policy is invalid.
        """
        with self._transactions.change("add erasure coding policy"):
            if wanted.codec not in CODECS:
                raise IllegalArgumentError(f"Codec name {wanted.codec} is not supported")
            if wanted.cell_size > _MAX_CELL_SIZE:
                raise IllegalArgumentError(
                    f"Cell size {wanted.cell_size} should not exceed maximum {_MAX_CELL_SIZE} bytes"
                )
            if min(wanted.data_units, wanted.parity_units) < 1:
                raise IllegalArgumentError("numDataUnits and numParityUnits must be positive")
            if wanted.cell_size < 1 or wanted.cell_size % _CELL_UNIT:
                raise IllegalArgumentError(f"cellSize must be positive and {_CELL_UNIT} aligned")
            held = self._policies()
            known = next((policy for policy in held if is_same_policy(policy, wanted)), None)
            if known is None and max(policy.id for policy in held) >= _LAST_ID:
                raise IllegalArgumentError(f"no more erasure coding policies can be added: ids end at {_LAST_ID}")
            # Hadoop logs the operation in both cases
            self._transactions.perform(
                ops.AddErasureCodingPolicyOp(
                    codec_name=wanted.codec,
                    data_units=wanted.data_units,
                    parity_units=wanted.parity_units,
                    cell_size=wanted.cell_size,
                    extra_options=wanted.options,
                ),
                caller,
            )
            return known or next(policy for policy in self._policies() if is_same_policy(policy, wanted))

    def remove(self, name: str, caller: ClientCall = LOCAL_CALL) -> None:
        """Remove a user-defined policy."""
        with self._transactions.change(f"remove erasure coding policy {name}"):
            if self._existing(name).is_system:
                raise IllegalArgumentError(f"System erasure coding policy {name} cannot be removed")
            self._transactions.perform(ops.RemoveErasureCodingPolicyOp(policy_name=name), caller)

    def enable(self, name: str, caller: ClientCall = LOCAL_CALL) -> None:
        """Enable a policy; for the default policy, log the operation even if the policy is already enabled."""
        with self._transactions.change(f"enable erasure coding policy {name}"):
            if self._existing(name).state == pb.ENABLED and name != DEFAULT_POLICY:
                return
            self._transactions.perform(ops.EnableErasureCodingPolicyOp(policy_name=name), caller)
            self._default_enabled |= name == DEFAULT_POLICY

    def disable(self, name: str, caller: ClientCall = LOCAL_CALL) -> None:
        """Disable a policy; existing files and directories retain this policy."""
        with self._transactions.change(f"disable erasure coding policy {name}"):
            if self._existing(name).state != pb.ENABLED:
                return
            self._transactions.perform(ops.DisableErasureCodingPolicyOp(policy_name=name), caller)
            self._default_enabled &= name != DEFAULT_POLICY

    # ---- directories ---------------------------------------------------------------------------------------------

    def set(self, path: str, name: str, caller: ClientCall = LOCAL_CALL) -> None:
        """Set the policy of a directory for new files below it."""
        with self._transactions.change(f"set erasure coding policy on {path}"):
            policy = self.enabled(name or DEFAULT_POLICY)
            if not is_directory(self._namespace, existing_for_change(self._namespace, path)):
                raise OperationRefusedError(f"Attempt to set an erasure coding policy for a file {path}")
            xattr = _erasure_coding_xattr(policy.name)
            self._transactions.perform(ops.SetXAttrOp(src=path, xattrs=(xattr,)), caller)

    def unset(self, path: str, caller: ClientCall = LOCAL_CALL) -> None:
        """Remove the policy set on a directory."""
        with self._transactions.change(f"unset erasure coding policy on {path}"):
            row = existing_for_change(self._namespace, path)
            if not is_directory(self._namespace, row):
                raise OperationRefusedError(f"Cannot unset an erasure coding policy on a file {path}")
            with self._transactions.reading() as read:
                _, held = own_policies(read.existing(path).inode.directory, read.browser.names)
            if held is None:
                raise NoPolicySetError(f"No erasure coding policy explicitly set on {path}")
            xattr = _erasure_coding_xattr(held)
            self._transactions.perform(ops.RemoveXAttrOp(src=path, xattrs=(xattr,)), caller)


def _erasure_coding_xattr(name: str) -> XAttr:
    """Return the attribute that stores a directory's policy (WritableUtils.writeString)."""
    text = name.encode()
    return XAttr(XAttrNamespace.SYSTEM, _XATTR, struct.pack(">i", len(text)) + text)
