"""Edits of files with storage policies below directories with quotas of storage types."""

from __future__ import annotations

from journal import ops
from journal.attribute_ops import STORAGE_TYPES
from journal.ops import Block, EditOp
from tests.engine.op_makers import add, close, mkdir

ONE_SSD, ALL_SSD = 10, 12


def file(path: str, number: int, size: int, **fields: object) -> list[EditOp]:
    written = close(path, blocks=(Block(number, size, 1007),))
    return [add(path, number, **fields), ops.AddBlockOp(path=path, blocks=(Block(number, 0, 1007),)), written]


def set_policy(path: str, policy: int) -> EditOp:
    return ops.SetStoragePolicyOp(path=path, policy_id=policy)


def limit(path: str, name: str, quota: int) -> EditOp:
    return ops.SetQuotaByStorageTypeOp(src=path, storage_type=STORAGE_TYPES.index(name), ds_quota=quota)


EDITS = [
    *(mkdir("/q", 20000), mkdir("/q/one", 20001), mkdir("/q/one/below", 20002), mkdir("/none", 20003)),
    *(set_policy("/q", ALL_SSD), set_policy("/q/one", ONE_SSD)),
    *(limit("/q", "SSD", 1000), limit("/q", "ARCHIVE", 70), limit("/q/one/below", "DISK", 500)),
    limit("/none", "DISK", 500),
    *file("/q/a", 20010, 100),
    *file("/q/one/below/b", 20011, 10, replication=2),
    *file("/none/c", 20012, 7),
    *file("/q/one/below/d", 20013, 5, replication=1, storage_policy_id=2),
    ops.AllowSnapshotOp(snapshot_root="/q"),
    ops.CreateSnapshotOp(snapshot_root="/q", snapshot_name="s", mtime=1),
    *file("/q/later", 20014, 3),
]
