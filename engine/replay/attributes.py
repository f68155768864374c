"""Attributes of inodes: replication, permissions, owner, times, quotas, policies, ACLs, xattrs."""

from __future__ import annotations

from engine.errors import NamespaceError
from engine.namespace import ROOT_ROW, Namespace
from engine.namespace.op_paths import encodable
from engine.replay.features import check_distinct, has_xattrs, put_xattrs, remove_acl, remove_xattrs, replace_acl
from engine.replay.files import MAX_POLICY, require_policy
from image_format.inode_table import NO_ROW
from image_format.kernels.inode import DIRECTORY, FILE
from image_format.layout import LayoutVersion, supports
from image_format.permission import MODE_BITS, XAttrNamespace, pack_permission, unpack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.storage_policies import LAZY_PERSIST, TYPES_SINCE, known_policies
from image_format.string_table import StringKind
from journal.attribute_ops import STORAGE_TYPES
from journal.ops import (
    ClearNsQuotaOp,
    RemoveXAttrOp,
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
    XAttr,
)

_MODE_MASK = 0xFFFF
_QUOTA_DONT_SET = (1 << 63) - 1
_QUOTA_RESET = -1
_TIME_UNCHANGED = -1
_STORAGE_POLICY_XATTR = "hsm.block.storage.policy.id"


def set_replication(namespace: Namespace, op: SetReplicationOp) -> None:
    table, row = namespace.table, namespace.existing_or_none(op.path)
    if row == NO_ROW or table.kind[row] != FILE or table.ec_policy[row] >= 0:
        namespace.ignore()
        return
    namespace.recorder.record(row)
    table.replication[row] = namespace.rules.clamp_replication(op.replication)


def set_permissions(namespace: Namespace, op: SetPermissionsOp) -> None:
    row = namespace.existing(op.src)
    namespace.recorder.record(row)
    kept = int(namespace.table.permission[row]) & ~_MODE_MASK
    namespace.table.permission[row] = kept | op.mode & MODE_BITS


def set_owner(namespace: Namespace, op: SetOwnerOp) -> None:
    row = namespace.existing(op.src)
    if not op.username and not op.groupname:
        namespace.ignore()
        return
    namespace.recorder.record(row)
    strings = namespace.strings
    user, group, mode = unpack_permission(int(namespace.table.permission[row]))
    if op.username:
        user = strings.serial(encodable(op.username), StringKind.USER)
    if op.groupname:
        group = strings.serial(encodable(op.groupname), StringKind.GROUP)
    namespace.table.permission[row] = pack_permission(user, group, mode)


def times(namespace: Namespace, op: TimesOp) -> None:
    """Change times; -1 leaves a time unchanged, as does any negative value in releases after Hadoop 3.2.

    The edits of Hadoop 3.3.0, which has the layout of Hadoop 3.2, are replayed by the rule of Hadoop 3.2.
    """
    table = namespace.table
    only_positive = supports(LayoutVersion.SNAPSHOT_MODIFICATION_TIME, namespace.base.layout_version)
    sets_mtime, sets_atime = (
        each >= 0 or (each != _TIME_UNCHANGED and not only_positive) for each in (op.mtime, op.atime)
    )
    if not sets_mtime and not sets_atime and not namespace.hadoop3:
        # The path need not exist.
        namespace.existing_or_none(op.path)
        namespace.ignore()
        return
    row = namespace.existing(op.path)
    if not sets_mtime and not sets_atime:
        namespace.ignore()
        return
    if sets_mtime or (sets_atime and not namespace.rules.skip_access_time_changes):
        namespace.recorder.record(row)
    if sets_mtime:
        table.mtime[row] = op.mtime
    if sets_atime:
        namespace.tree.touch(row)
        table.atime[row] = op.atime


def _check_quotas(path: str, *quotas: int) -> None:
    """Raise NamespaceError for a quota that FSDirAttrOp.unprotectedSetQuota refuses."""
    for quota in quotas:
        if quota < _QUOTA_RESET:
            raise NamespaceError(f"{path} cannot have the quota {quota}")


def _limit(namespace: Namespace, path: str, ns_quota: int, ds_quota: int) -> None:
    _check_quotas(path, ns_quota, ds_quota)
    table = namespace.table
    row = namespace.directory(path)
    before = int(table.ns_quota[row]), int(table.ds_quota[row])
    if row == ROOT_ROW and ns_quota == _QUOTA_RESET:
        if not namespace.hadoop3:
            raise NamespaceError("the namespace quota of the root cannot be cleared")
        ns_quota = _QUOTA_DONT_SET
    elif ns_quota == _QUOTA_DONT_SET:
        ns_quota = before[0]
    if ds_quota == _QUOTA_DONT_SET:
        ds_quota = before[1]
    if (ns_quota, ds_quota) == before:
        namespace.ignore()
        return
    namespace.recorder.record(row)
    table.ns_quota[row], table.ds_quota[row] = ns_quota, ds_quota


def set_quota(namespace: Namespace, op: SetQuotaOp) -> None:
    _limit(namespace, op.src, op.ns_quota, op.ds_quota)


def set_ns_quota(namespace: Namespace, op: SetNsQuotaOp) -> None:
    _limit(namespace, op.src, op.ns_quota, _QUOTA_DONT_SET)


def clear_ns_quota(namespace: Namespace, op: ClearNsQuotaOp) -> None:
    _limit(namespace, op.src, _QUOTA_RESET, _QUOTA_DONT_SET)


def set_quota_by_storage_type(namespace: Namespace, op: SetQuotaByStorageTypeOp) -> None:
    if not 0 <= op.storage_type < len(STORAGE_TYPES):
        raise NamespaceError(f"{op.src} has a quota of unknown storage type {op.storage_type}")
    name = STORAGE_TYPES[op.storage_type]
    if name in TYPES_SINCE:
        namespace.require(TYPES_SINCE[name], f"a quota of storage type {name}")
    storage_type = pb.StorageTypeProto.Value(name)
    _check_quotas(op.src, op.ds_quota)
    row = namespace.directory(op.src)
    features = namespace.table.feature(row)
    # If the operation leaves the quota unset, a NameNode stores the space quota instead.
    quota = int(namespace.table.ds_quota[row]) if op.ds_quota == _QUOTA_DONT_SET else op.ds_quota
    if quota == features.type_quotas.get(storage_type, _QUOTA_RESET):
        namespace.ignore()
        return
    namespace.recorder.record(row)
    if quota == _QUOTA_RESET:
        features.type_quotas.pop(storage_type, None)
    else:
        features.type_quotas[storage_type] = quota
    namespace.table.set_features(row, features)


def _check_policies(namespace: Namespace, op: SetStoragePolicyOp, present: int) -> None:
    """Raise NamespaceError if a NameNode refuses to change a file's storage policy."""
    if op.policy_id not in known_policies(namespace.base.layout_version):
        raise NamespaceError(f"{op.path} cannot have storage policy {op.policy_id}")
    if LAZY_PERSIST in (op.policy_id, present):
        raise NamespaceError(f"{op.path}: LAZY_PERSIST cannot be set or changed after a file was created")


def set_storage_policy(namespace: Namespace, op: SetStoragePolicyOp) -> None:
    table = namespace.table
    row = namespace.existing(op.path)
    require_policy(namespace, op.policy_id)
    if table.kind[row] == FILE:
        _check_policies(namespace, op, int(table.policy[row]))
        namespace.recorder.record(row)
        table.policy[row] = op.policy_id
        return
    if table.kind[row] != DIRECTORY:
        raise NamespaceError(f"{op.path} is neither a file nor a directory")
    known = range(MAX_POLICY + 1) if namespace.hadoop3 else known_policies(namespace.base.layout_version)
    if op.policy_id not in known:
        # With an unknown id, a NameNode terminates when it computes the space of a file below the directory; Hadoop 3
        # uses the id as an array index.
        raise NamespaceError(f"{op.path} cannot have storage policy {op.policy_id}")
    xattr = XAttr(XAttrNamespace.SYSTEM, _STORAGE_POLICY_XATTR, bytes([op.policy_id & 0xFF]))
    if op.policy_id or not namespace.hadoop3:
        namespace.recorder.record(row)
        put_xattrs(namespace, row, [xattr])
    elif table.feature(row).xattrs is not None:
        namespace.recorder.record(row)
        remove_xattrs(namespace, row, [xattr])
    else:
        namespace.ignore()


def set_acl(namespace: Namespace, op: SetAclOp) -> None:
    row = namespace.existing(op.src)
    if op.acl_entries:
        namespace.recorder.record(row)
        replace_acl(namespace, row, op.acl_entries)
    elif namespace.table.feature(row).acl is not None:
        namespace.recorder.record(row)
        remove_acl(namespace, row)
    else:
        namespace.ignore()


def set_xattr(namespace: Namespace, op: SetXAttrOp) -> None:
    row = namespace.existing(op.src)
    check_distinct(op.src, op.xattrs)
    if not op.xattrs and namespace.table.feature(row).xattrs is None:
        namespace.ignore()
        return
    namespace.recorder.record(row)
    put_xattrs(namespace, row, op.xattrs)


def remove_xattr(namespace: Namespace, op: RemoveXAttrOp) -> None:
    row = namespace.existing(op.src)
    if not has_xattrs(namespace, row, op.xattrs):
        namespace.ignore()
        return
    namespace.recorder.record(row)
    remove_xattrs(namespace, row, op.xattrs)
