"""The catalogue of edit log operations. Each opcode is declared once, in one of the modules imported below."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from journal.attribute_ops import (
    AllowSnapshotOp,
    ClearNsQuotaOp,
    CreateSnapshotOp,
    DeleteSnapshotOp,
    DisallowSnapshotOp,
    ReassignLeaseOp,
    RemoveXAttrOp,
    RenameSnapshotOp,
    SetAclOp,
    SetNsQuotaOp,
    SetOwnerOp,
    SetPermissionsOp,
    SetQuotaByStorageTypeOp,
    SetQuotaOp,
    SetReplicationOp,
    SetStoragePolicyOp,
    SetXAttrOp,
    TimesOp,
)
from journal.file_ops import (
    NO_CALL_ID,
    RENAME_OVERWRITE,
    AddBlockOp,
    AddOp,
    AppendOp,
    CloseOp,
    ConcatDeleteOp,
    DeleteOp,
    MkdirOp,
    RenameOldOp,
    RenameOp,
    SymlinkOp,
    TruncateOp,
    UpdateBlocksOp,
)
from journal.operation import INVALID_TXID, EditOp, OpField, declared_operations
from journal.system_ops import (
    AddCacheDirectiveOp,
    AddCachePoolOp,
    AddErasureCodingPolicyOp,
    AllocateBlockIdOp,
    CancelDelegationTokenOp,
    DisableErasureCodingPolicyOp,
    EnableErasureCodingPolicyOp,
    EndLogSegmentOp,
    GetDelegationTokenOp,
    ModifyCacheDirectiveOp,
    ModifyCachePoolOp,
    RemoveCacheDirectiveOp,
    RemoveCachePoolOp,
    RemoveErasureCodingPolicyOp,
    RenewDelegationTokenOp,
    RollingUpgradeFinalizeOp,
    RollingUpgradeStartOp,
    SetGenstampV1Op,
    SetGenstampV2Op,
    StartLogSegmentOp,
    UpdateMasterKeyOp,
)
from journal.values import (
    AclEntry,
    Block,
    CacheDirectiveInfo,
    CachePoolInfo,
    DelegationKey,
    DelegationTokenIdent,
    PermissionStatus,
    XAttr,
)

__all__ = [
    "INVALID_TXID",
    "NO_CALL_ID",
    "OPERATIONS",
    "RENAME_OVERWRITE",
    "AclEntry",
    "AddBlockOp",
    "AddCacheDirectiveOp",
    "AddCachePoolOp",
    "AddErasureCodingPolicyOp",
    "AddOp",
    "AllocateBlockIdOp",
    "AllowSnapshotOp",
    "AppendOp",
    "Block",
    "CacheDirectiveInfo",
    "CachePoolInfo",
    "CancelDelegationTokenOp",
    "ClearNsQuotaOp",
    "CloseOp",
    "ConcatDeleteOp",
    "CreateSnapshotOp",
    "DelegationKey",
    "DelegationTokenIdent",
    "DeleteOp",
    "DeleteSnapshotOp",
    "DisableErasureCodingPolicyOp",
    "DisallowSnapshotOp",
    "EditOp",
    "EnableErasureCodingPolicyOp",
    "EndLogSegmentOp",
    "GetDelegationTokenOp",
    "MkdirOp",
    "ModifyCacheDirectiveOp",
    "ModifyCachePoolOp",
    "OpField",
    "PermissionStatus",
    "ReassignLeaseOp",
    "RemoveCacheDirectiveOp",
    "RemoveCachePoolOp",
    "RemoveErasureCodingPolicyOp",
    "RemoveXAttrOp",
    "RenameOldOp",
    "RenameOp",
    "RenameSnapshotOp",
    "RenewDelegationTokenOp",
    "RollingUpgradeFinalizeOp",
    "RollingUpgradeStartOp",
    "SetAclOp",
    "SetGenstampV1Op",
    "SetGenstampV2Op",
    "SetNsQuotaOp",
    "SetOwnerOp",
    "SetPermissionsOp",
    "SetQuotaByStorageTypeOp",
    "SetQuotaOp",
    "SetReplicationOp",
    "SetStoragePolicyOp",
    "SetXAttrOp",
    "StartLogSegmentOp",
    "SymlinkOp",
    "TimesOp",
    "TruncateOp",
    "UpdateBlocksOp",
    "UpdateMasterKeyOp",
    "XAttr",
    "by_name",
]

OPERATIONS: Mapping[int, type[EditOp]] = MappingProxyType(declared_operations())
_BY_NAME = {cls.name: cls for cls in OPERATIONS.values()}


def by_name(name: str) -> type[EditOp]:
    """Return the operation with the FSEditLogOpCodes name `name`, such as `OP_MKDIR`.

    Raises:
        KeyError: no operation has this name.
    """
    return _BY_NAME[name]
