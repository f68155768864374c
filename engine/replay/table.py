"""The table of operations: what replays each. Dispatch, docs/opcodes.md and the test of twins are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from engine.namespace import Namespace
from engine.replay import attributes, blocks, files, managers, snapshots, structure
from journal import ops
from journal.ops import EditOp


class Keeps(Enum):
    """When the paths that kernels remember are right after an operation was applied plainly."""

    ALWAYS = "always"
    """It changes one inode: each directory is where it was, with the children that it had."""
    WITHOUT_SNAPSHOTS = "without snapshots"
    """It adds a child, which a snapshot's diff may take note of."""
    NEVER = "never"


class Operation(NamedTuple):
    """A row of the table.

    Attributes:
        kind: the class of the decoded record; opcode, name and fields are declared there (`journal.ops`).
        plain: the replay function; it raises what `registry.errors_of` translates.
        kernel: module and name of its compiled twin in `engine.replay.kernels`, empty without one. It is named, for
            to import it is to load the compiler.
        keeps: see `Keeps`.
    """

    kind: type[EditOp]
    plain: Callable[[Namespace, Any], None]
    kernel: str = ""
    keeps: Keeps = Keeps.NEVER

    @property
    def opcode(self) -> int:
        return self.kind.opcode


TABLE = (
    Operation(ops.AddOp, files.add, "files.add", Keeps.WITHOUT_SNAPSHOTS),
    Operation(ops.RenameOldOp, structure.rename_old, "structure.rename_old"),
    Operation(ops.DeleteOp, structure.delete, "structure.delete"),
    Operation(ops.MkdirOp, structure.mkdir, "structure.mkdir", Keeps.WITHOUT_SNAPSHOTS),
    Operation(ops.SetReplicationOp, attributes.set_replication, "attributes.set_replication", Keeps.ALWAYS),
    Operation(ops.SetPermissionsOp, attributes.set_permissions, "attributes.set_permissions", Keeps.ALWAYS),
    Operation(ops.SetOwnerOp, attributes.set_owner, "attributes.set_owner", Keeps.ALWAYS),
    Operation(ops.CloseOp, files.close, "files.close", Keeps.ALWAYS),
    Operation(ops.SetGenstampV1Op, blocks.set_genstamp_v1),
    Operation(ops.SetNsQuotaOp, attributes.set_ns_quota),
    Operation(ops.ClearNsQuotaOp, attributes.clear_ns_quota),
    Operation(ops.TimesOp, attributes.times, "attributes.times", Keeps.ALWAYS),
    Operation(ops.SetQuotaOp, attributes.set_quota),
    Operation(ops.RenameOp, structure.rename, "structure.rename"),
    Operation(ops.ConcatDeleteOp, files.concat_delete),
    Operation(ops.SymlinkOp, structure.symlink),
    Operation(ops.GetDelegationTokenOp, managers.get_token),
    Operation(ops.RenewDelegationTokenOp, managers.renew_token),
    Operation(ops.CancelDelegationTokenOp, managers.cancel_token),
    Operation(ops.UpdateMasterKeyOp, managers.update_master_key),
    Operation(ops.ReassignLeaseOp, files.reassign_lease, "files.reassign_lease"),
    Operation(ops.EndLogSegmentOp, managers.segment_marker, "counters.segment_marker"),
    Operation(ops.StartLogSegmentOp, managers.segment_marker, "counters.segment_marker"),
    Operation(ops.UpdateBlocksOp, blocks.update_blocks, "files.update_blocks"),
    Operation(ops.CreateSnapshotOp, snapshots.create),
    Operation(ops.DeleteSnapshotOp, snapshots.delete),
    Operation(ops.RenameSnapshotOp, snapshots.rename),
    Operation(ops.AllowSnapshotOp, snapshots.allow),
    Operation(ops.DisallowSnapshotOp, snapshots.disallow),
    Operation(ops.SetGenstampV2Op, blocks.set_genstamp_v2, "counters.set_genstamp_v2"),
    Operation(ops.AllocateBlockIdOp, blocks.allocate_block_id, "counters.allocate_block_id"),
    Operation(ops.AddBlockOp, blocks.add_block, "files.add_block", Keeps.ALWAYS),
    Operation(ops.AddCacheDirectiveOp, managers.add_cache_directive),
    Operation(ops.RemoveCacheDirectiveOp, managers.remove_cache_directive),
    Operation(ops.AddCachePoolOp, managers.add_cache_pool),
    Operation(ops.ModifyCachePoolOp, managers.modify_cache_pool),
    Operation(ops.RemoveCachePoolOp, managers.remove_cache_pool),
    Operation(ops.ModifyCacheDirectiveOp, managers.modify_cache_directive),
    Operation(ops.SetAclOp, attributes.set_acl, keeps=Keeps.ALWAYS),
    Operation(ops.RollingUpgradeStartOp, managers.rolling_upgrade_start),
    Operation(ops.RollingUpgradeFinalizeOp, managers.rolling_upgrade_finalize),
    Operation(ops.SetXAttrOp, attributes.set_xattr, keeps=Keeps.ALWAYS),
    Operation(ops.RemoveXAttrOp, attributes.remove_xattr, keeps=Keeps.ALWAYS),
    Operation(ops.SetStoragePolicyOp, attributes.set_storage_policy),
    Operation(ops.TruncateOp, files.truncate),
    Operation(ops.AppendOp, files.append),
    Operation(ops.SetQuotaByStorageTypeOp, attributes.set_quota_by_storage_type),
    Operation(ops.AddErasureCodingPolicyOp, managers.add_policy),
    Operation(ops.EnableErasureCodingPolicyOp, managers.enable_policy),
    Operation(ops.DisableErasureCodingPolicyOp, managers.disable_policy),
    Operation(ops.RemoveErasureCodingPolicyOp, managers.remove_policy),
)
"""By opcode, ascending."""

REPLAYED: Mapping[type[EditOp], Operation] = MappingProxyType({row.kind: row for row in TABLE})
"""The same by class."""
