"""Operations on attributes of inodes (FSEditLogOp): owner, mode, times, quota, ACL, policies, snapshots."""

from __future__ import annotations

from image_format.storage_policies import POLICIES_SINCE, TYPES_SINCE
from journal.attribute_kinds import ACL_EDIT_LOG, ACL_ENTRIES, XATTR_EDIT_LOG, XATTRS
from journal.file_ops import LENGTH, RetryCacheOp
from journal.kinds import BYTE, INT, LONG, MODE, NULLABLE_STR, SHORT, STR
from journal.operation import EditOp, field, operation
from journal.values import AclEntry, XAttr

STORAGE_TYPES = ("RAM_DISK", "SSD", "DISK", "ARCHIVE", "PROVIDED", "NVDIMM")
"""Names of Java's StorageType by ordinal."""


@operation(4, "OP_SET_REPLICATION")
class SetReplicationOp(EditOp):
    path: str = field(STR, xml="PATH")
    replication: int = field(SHORT, xml="REPLICATION")


@operation(7, "OP_SET_PERMISSIONS")
class SetPermissionsOp(EditOp):
    src: str = field(STR, xml="SRC")
    mode: int = field(MODE, xml="MODE")


@operation(8, "OP_SET_OWNER")
class SetOwnerOp(EditOp):
    """A change of the owner or the group; None leaves the user or the group unchanged."""

    src: str = field(STR, xml="SRC")
    username: str | None = field(NULLABLE_STR, xml="USERNAME", default=None)
    groupname: str | None = field(NULLABLE_STR, xml="GROUPNAME", default=None)


@operation(13, "OP_TIMES", xml=(LENGTH, "path", "mtime", "atime"))
class TimesOp(EditOp):
    """A change of times in ms; -1 leaves a time unchanged."""

    path: str = field(STR, xml="PATH")
    mtime: int = field(LONG, xml="MTIME")
    atime: int = field(LONG, xml="ATIME")


@operation(11, "OP_SET_NS_QUOTA", written=False)
class SetNsQuotaOp(EditOp):
    """An operation in old logs, which Hadoop 2 and 3 read but never write."""

    src: str = field(STR, xml="SRC")
    ns_quota: int = field(LONG, xml="NSQUOTA")


@operation(12, "OP_CLEAR_NS_QUOTA", written=False)
class ClearNsQuotaOp(EditOp):
    """An operation in old logs, which Hadoop 2 and 3 read but never write."""

    src: str = field(STR, xml="SRC")


@operation(14, "OP_SET_QUOTA")
class SetQuotaOp(EditOp):
    """A change of quotas; -1 resets a quota and 2**63 - 1 leaves it unchanged. `ds_quota` is in bytes."""

    src: str = field(STR, xml="SRC")
    ns_quota: int = field(LONG, xml="NSQUOTA")
    ds_quota: int = field(LONG, xml="DSQUOTA")


@operation(48, "OP_SET_QUOTA_BY_STORAGETYPE", since=-63)
class SetQuotaByStorageTypeOp(EditOp):
    """A change of a storage type quota; `storage_type` is the index of the storage type in `STORAGE_TYPES`."""

    src: str = field(STR, xml="SRC")
    storage_type: int = field(
        INT, xml="STORAGETYPE", values_since={n: TYPES_SINCE.get(name) for n, name in enumerate(STORAGE_TYPES)}
    )
    ds_quota: int = field(LONG, xml="DSQUOTA")


@operation(22, "OP_REASSIGN_LEASE")
class ReassignLeaseOp(EditOp):
    lease_holder: str = field(STR, xml="LEASEHOLDER")
    path: str = field(STR, xml="PATH")
    new_holder: str = field(STR, xml="NEWHOLDER")


@operation(40, "OP_SET_ACL")
class SetAclOp(EditOp):
    """A new ACL; an empty list of entries removes the ACL."""

    src: str = field(STR, xml="SRC", part=ACL_EDIT_LOG)
    acl_entries: tuple[AclEntry, ...] = field(ACL_ENTRIES, xml="ENTRY", part=ACL_EDIT_LOG, default=())


@operation(43, "OP_SET_XATTR", since=-57)
class SetXAttrOp(RetryCacheOp):
    src: str = field(STR, xml="SRC", part=XATTR_EDIT_LOG)
    xattrs: tuple[XAttr, ...] = field(XATTRS, xml="XATTR", part=XATTR_EDIT_LOG)


@operation(44, "OP_REMOVE_XATTR", since=-57)
class RemoveXAttrOp(RetryCacheOp):
    src: str = field(STR, xml="SRC", part=XATTR_EDIT_LOG)
    xattrs: tuple[XAttr, ...] = field(XATTRS, xml="XATTR", part=XATTR_EDIT_LOG)


@operation(45, "OP_SET_STORAGE_POLICY", since=-60)
class SetStoragePolicyOp(EditOp):
    path: str = field(STR, xml="PATH")
    policy_id: int = field(BYTE, xml="POLICYID", values_since=POLICIES_SINCE)


@operation(29, "OP_ALLOW_SNAPSHOT")
class AllowSnapshotOp(EditOp):
    snapshot_root: str = field(STR, xml="SNAPSHOTROOT")


@operation(30, "OP_DISALLOW_SNAPSHOT")
class DisallowSnapshotOp(EditOp):
    snapshot_root: str = field(STR, xml="SNAPSHOTROOT")


@operation(26, "OP_CREATE_SNAPSHOT")
class CreateSnapshotOp(RetryCacheOp):
    """The creation of a snapshot; `mtime` is 0 in layouts that lack the field."""

    snapshot_root: str = field(STR, xml="SNAPSHOTROOT")
    snapshot_name: str = field(STR, xml="SNAPSHOTNAME")
    mtime: int = field(LONG, xml="MTIME", since=-66, default=0)


@operation(27, "OP_DELETE_SNAPSHOT")
class DeleteSnapshotOp(RetryCacheOp):
    """The deletion of a snapshot; `mtime` is 0 in layouts that lack the field."""

    snapshot_root: str = field(STR, xml="SNAPSHOTROOT")
    snapshot_name: str = field(STR, xml="SNAPSHOTNAME")
    mtime: int = field(LONG, xml="MTIME", since=-66, default=0)


@operation(28, "OP_RENAME_SNAPSHOT")
class RenameSnapshotOp(RetryCacheOp):
    """The rename of a snapshot; `mtime` is 0 in layouts that lack the field."""

    snapshot_root: str = field(STR, xml="SNAPSHOTROOT")
    snapshot_old_name: str = field(STR, xml="SNAPSHOTOLDNAME")
    snapshot_new_name: str = field(STR, xml="SNAPSHOTNEWNAME")
    mtime: int = field(LONG, xml="MTIME", since=-66, default=0)
