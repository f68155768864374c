"""Snapshots: ALLOW_SNAPSHOT, DISALLOW_SNAPSHOT, CREATE_SNAPSHOT, DELETE_SNAPSHOT, RENAME_SNAPSHOT."""

from __future__ import annotations

import time

from engine.namespace import Namespace
from engine.namespace.diffs import CURRENT_STATE, DirectoryDiff
from engine.namespace.tree import encode_name
from image_format.permission import XAttrNamespace, pack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind
from journal.ops import (
    AllowSnapshotOp,
    CreateSnapshotOp,
    DeleteSnapshotOp,
    DisallowSnapshotOp,
    RenameSnapshotOp,
)

_UINT64 = (1 << 64) - 1
_DELETED_XATTR = "hdfs.snapshot.deleted"


def _now() -> int:
    return time.time_ns() // 1_000_000


def allow(namespace: Namespace, op: AllowSnapshotOp) -> None:
    row = namespace.directory(op.snapshot_root)
    namespace.snapshots.allow(int(namespace.table.id[row]))


def disallow(namespace: Namespace, op: DisallowSnapshotOp) -> None:
    row = namespace.directory(op.snapshot_root)
    namespace.snapshots.disallow(int(namespace.table.id[row]))
    diffs = namespace.history.diffs.of_directory(row)
    if diffs is not None and not diffs.items and not namespace.history.is_snapshottable(row):
        namespace.history.diffs.remove(row)


def create(namespace: Namespace, op: CreateSnapshotOp) -> None:
    table, history = namespace.table, namespace.history
    row = namespace.directory(op.snapshot_root)
    namespace.tree.check_known(row)
    root = table.message(row)
    # Hadoop 2.7 takes the clock of the replay, and leaves quotas out.
    mtime = op.mtime if namespace.hadoop3 else _now()
    if not namespace.hadoop3:
        root.directory.nsQuota = root.directory.dsQuota = _UINT64
        root.directory.ClearField("typeQuotas")
    root.directory.modificationTime = mtime & _UINT64
    snapshot = namespace.snapshots.create(encode_name(op.snapshot_name), root)
    history.diffs.directory(row).items.append(
        DirectoryDiff(
            snapshot.snapshotId,
            namespace.tree.child_count(row),
            is_root=True,
            name=snapshot.root.name,
            copy=snapshot.root.directory,
        )
    )
    history.diffs.note(row, snapshot.snapshotId)
    history.raise_mtime(row, mtime, CURRENT_STATE)
    if namespace.rules.capture_open_files:
        _capture_open_files(namespace, row)


def _capture_open_files(namespace: Namespace, root: int) -> None:
    """Keep the lengths that open files have now (DirectorySnapshottableFeature.addSnapshot).

    Hadoop compares the objects on both paths (INodesInPath.isDescendant): the file's is resolved and has references
    where inodes were renamed out of snapshots, the root's is gathered upwards and has none.
    """
    history = namespace.history
    if history.is_moved(root):
        return
    for leased in list(namespace.leases.rows_below(root)):
        if history.in_current_state(leased):
            history.record_in(leased, history.latest(leased))


def delete(namespace: Namespace, op: DeleteSnapshotOp) -> None:
    row = namespace.directory(op.snapshot_root)
    snapshot = namespace.snapshots.find(int(namespace.table.id[row]), encode_name(op.snapshot_name))
    if namespace.rules.ordered_snapshot_deletion:
        diffs = namespace.history.diffs.of_directory(row)
        if diffs is not None and diffs.items and diffs.items[0].snapshot_id != snapshot.snapshotId:
            _mark_deleted(namespace, row, snapshot)
            return
    namespace.remove_snapshot(row, snapshot.snapshotId)
    namespace.snapshots.delete(snapshot)
    if namespace.hadoop3:
        namespace.history.raise_mtime(row, op.mtime, CURRENT_STATE)


def _mark_deleted(namespace: Namespace, row: int, snapshot: pb.Snapshot) -> None:
    """With ordered deletion, a snapshot that is not the earliest one only gets a mark and another name."""
    serial = namespace.strings.serial(_DELETED_XATTR, StringKind.XATTR)
    packed = pack_xattr_name(XAttrNamespace.SYSTEM, serial)
    attributes = snapshot.root.directory.xAttrs.xAttrs
    if all(xattr.name != packed for xattr in attributes):
        attributes.insert(0, pb.XAttrCompactProto(name=packed))
    name = snapshot.root.name + b"#" + str(snapshot.snapshotId).encode()
    _rename_to(namespace, row, snapshot, name, _now())


def rename(namespace: Namespace, op: RenameSnapshotOp) -> None:
    row = namespace.directory(op.snapshot_root)
    snapshot = namespace.snapshots.find(int(namespace.table.id[row]), encode_name(op.snapshot_old_name))
    if op.snapshot_new_name != op.snapshot_old_name:
        mtime = op.mtime if namespace.hadoop3 else None
        _rename_to(namespace, row, snapshot, encode_name(op.snapshot_new_name), mtime)


def _rename_to(namespace: Namespace, row: int, snapshot: pb.Snapshot, name: bytes, mtime: int | None) -> None:
    namespace.snapshots.rename(snapshot, name)
    if mtime is not None:
        snapshot.root.directory.modificationTime = mtime & _UINT64
    diffs = namespace.history.diffs.of_directory(row)
    for diff in [] if diffs is None else diffs.items:
        if diff.is_root and diff.snapshot_id == snapshot.snapshotId:
            diff.name = name
