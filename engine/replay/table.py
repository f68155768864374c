"""Table of operations with their replay functions and kernels, from which the dispatch and docs/opcodes.md derive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from engine.namespace import Namespace
from engine.replay import attributes, blocks, files, managers, snapshots, structure
from journal import ops
from journal.ops import EditOp


class OpReplay(NamedTuple):
    """Replay of one opcode.

    Attributes:
        kind: the class of the decoded record, which declares opcode, name and fields (`journal.ops`).
        plain: the replay function; it raises errors that `registry.OpErrorTranslator` translates.
        kernel: module and name of the compiled twin in `engine.replay.kernels`, or "" if no twin exists. The attribute
            contains names, because an import would load the compiler.
        keeps_paths: whether the path caches of kernels stay valid after `plain`, except for directories that were moved
            (`Tree.moved`) or whose diffs changed (`DiffStore.directories_changed`).
        ignored: conditions under which the operation has no effect and `plain` counts it (`Namespace.ignore`); "" if it
            always has an effect.
    """

    kind: type[EditOp]
    plain: Callable[[Namespace, Any], None]
    kernel: str = ""
    keeps_paths: bool = False
    ignored: str = ""

    @property
    def opcode(self) -> int:
        return self.kind.opcode


_RENAME_IGNORED = (
    "the source is missing or the root; the destination is the source, is below it, exists, or has no parent; a "
    "symbolic link would receive its target's path"
)

TABLE = (
    OpReplay(ops.AddOp, files.add, "files.add", keeps_paths=True),
    OpReplay(ops.RenameOldOp, structure.rename_old, "structure.rename_old", keeps_paths=True, ignored=_RENAME_IGNORED),
    OpReplay(
        ops.DeleteOp,
        structure.delete,
        "structure.delete",
        keeps_paths=True,
        ignored="the path does not exist, or is the root",
    ),
    OpReplay(ops.MkdirOp, structure.mkdir, "structure.mkdir", keeps_paths=True, ignored="the name exists"),
    OpReplay(
        ops.SetReplicationOp,
        attributes.set_replication,
        "attributes.set_replication",
        keeps_paths=True,
        ignored="the path does not exist or is a directory, or the file is striped",
    ),
    OpReplay(ops.SetPermissionsOp, attributes.set_permissions, "attributes.set_permissions", keeps_paths=True),
    OpReplay(
        ops.SetOwnerOp,
        attributes.set_owner,
        "attributes.set_owner",
        keeps_paths=True,
        ignored="the operation names neither a user nor a group",
    ),
    OpReplay(ops.CloseOp, files.close, "files.close", keeps_paths=True),
    OpReplay(ops.SetGenstampV1Op, blocks.set_genstamp_v1),
    OpReplay(ops.SetNsQuotaOp, attributes.set_ns_quota, ignored="the quota already has this value"),
    OpReplay(ops.ClearNsQuotaOp, attributes.clear_ns_quota, ignored="the directory has no quota"),
    OpReplay(
        ops.TimesOp,
        attributes.times,
        "attributes.times",
        keeps_paths=True,
        ignored="the operation sets neither time; before -64, also if the path does not exist",
    ),
    OpReplay(ops.SetQuotaOp, attributes.set_quota, ignored="the quotas already have these values"),
    OpReplay(ops.RenameOp, structure.rename, "structure.rename", keeps_paths=True),
    OpReplay(ops.ConcatDeleteOp, files.concat_delete),
    OpReplay(
        ops.SymlinkOp, structure.symlink, ignored="the path resolves to a directory that has a child of that name"
    ),
    OpReplay(ops.GetDelegationTokenOp, managers.get_token, ignored="the master key is unknown"),
    OpReplay(ops.RenewDelegationTokenOp, managers.renew_token, ignored="the token does not exist"),
    OpReplay(ops.CancelDelegationTokenOp, managers.cancel_token, ignored="the token does not exist"),
    OpReplay(ops.UpdateMasterKeyOp, managers.update_master_key),
    OpReplay(ops.ReassignLeaseOp, files.reassign_lease, "files.reassign_lease"),
    OpReplay(ops.EndLogSegmentOp, managers.segment_marker, "counters.segment_marker"),
    OpReplay(ops.StartLogSegmentOp, managers.segment_marker, "counters.segment_marker"),
    OpReplay(ops.UpdateBlocksOp, blocks.update_blocks, "files.update_blocks"),
    OpReplay(ops.CreateSnapshotOp, snapshots.create, "snapshots.create"),
    OpReplay(
        ops.DeleteSnapshotOp,
        snapshots.delete,
        "snapshots.delete",
        ignored="from -67: the snapshot does not exist, and deletion is not ordered",
    ),
    OpReplay(
        ops.RenameSnapshotOp, snapshots.rename, "snapshots.rename", keeps_paths=True, ignored="both names are the same"
    ),
    OpReplay(ops.AllowSnapshotOp, snapshots.allow, ignored="the directory is already snapshottable"),
    OpReplay(ops.DisallowSnapshotOp, snapshots.disallow, ignored="the directory is not snapshottable"),
    OpReplay(ops.SetGenstampV2Op, blocks.set_genstamp_v2, "counters.set_genstamp_v2"),
    OpReplay(ops.AllocateBlockIdOp, blocks.allocate_block_id, "counters.allocate_block_id"),
    OpReplay(ops.AddBlockOp, blocks.add_block, "files.add_block", keeps_paths=True),
    OpReplay(ops.AddCacheDirectiveOp, managers.add_cache_directive),
    OpReplay(ops.RemoveCacheDirectiveOp, managers.remove_cache_directive),
    OpReplay(ops.AddCachePoolOp, managers.add_cache_pool),
    OpReplay(ops.ModifyCachePoolOp, managers.modify_cache_pool),
    OpReplay(ops.RemoveCachePoolOp, managers.remove_cache_pool),
    OpReplay(ops.ModifyCacheDirectiveOp, managers.modify_cache_directive),
    OpReplay(
        ops.SetAclOp,
        attributes.set_acl,
        keeps_paths=True,
        ignored="the operation has no entries, and the inode has no ACL",
    ),
    OpReplay(ops.RollingUpgradeStartOp, managers.rolling_upgrade_start),
    OpReplay(
        ops.RollingUpgradeFinalizeOp, managers.rolling_upgrade_finalize, ignored="no rolling upgrade is in progress"
    ),
    OpReplay(
        ops.SetXAttrOp,
        attributes.set_xattr,
        keeps_paths=True,
        ignored="the operation has no attributes, and the inode has none",
    ),
    OpReplay(ops.RemoveXAttrOp, attributes.remove_xattr, keeps_paths=True, ignored="the inode has no such attribute"),
    OpReplay(
        ops.SetStoragePolicyOp,
        attributes.set_storage_policy,
        ignored="from -64: policy 0 of a directory without attributes",
    ),
    OpReplay(ops.TruncateOp, files.truncate),
    OpReplay(ops.AppendOp, files.append, ignored="the file is already open"),
    OpReplay(
        ops.SetQuotaByStorageTypeOp, attributes.set_quota_by_storage_type, ignored="the quota already has this value"
    ),
    OpReplay(
        ops.AddErasureCodingPolicyOp,
        managers.add_policy,
        ignored="a policy with that name, or with that schema and cell size, exists",
    ),
    OpReplay(ops.EnableErasureCodingPolicyOp, managers.enable_policy),
    OpReplay(ops.DisableErasureCodingPolicyOp, managers.disable_policy),
    OpReplay(ops.RemoveErasureCodingPolicyOp, managers.remove_policy),
)
"""Rows in ascending order of their opcodes."""

REPLAYED: Mapping[type[EditOp], OpReplay] = MappingProxyType({row.kind: row for row in TABLE})
"""The rows of `TABLE` by class."""
