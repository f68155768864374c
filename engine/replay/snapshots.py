"""Snapshots: ALLOW_SNAPSHOT, DISALLOW_SNAPSHOT, CREATE_SNAPSHOT, DELETE_SNAPSHOT, RENAME_SNAPSHOT."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from engine.errors import NamespaceError
from engine.namespace import Namespace
from engine.namespace.diffs import CURRENT_STATE, DirectoryDiff
from engine.namespace.op_paths import encode_name
from engine.namespace.snapshots import Snapshot
from hadoop_common.java_numbers import UINT64, unsigned64
from image_format.inode_features import RowCopy
from image_format.inode_table import InodeTable
from image_format.layout import LayoutVersion, supports
from image_format.permission import XAttrNamespace, pack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind
from journal.ops import AllowSnapshotOp, CreateSnapshotOp, DeleteSnapshotOp, DisallowSnapshotOp, RenameSnapshotOp

_ORDERED = "dfs.namenode.snapshot.deletion.ordered"
# The layout of Hadoop 3.4.0, the first release with ordered deletion.
_FIRST_WITH_ORDER = LayoutVersion.NVDIMM_SUPPORT
_IN_OLDER_LAYOUTS = "checkpointer.snapshot.deletion.ordered.older-layouts"
_DELETED_XATTR = "hdfs.snapshot.deleted"


def now() -> int:
    """Return the clock's time in milliseconds, which releases before Hadoop 3.3 use as the time of a snapshot."""
    return time.time_ns() // 1_000_000


def are_timed(namespace: Namespace) -> bool:
    """Return whether operations on snapshots contain a time; releases up to Hadoop 3.2 use their clock instead."""
    return supports(LayoutVersion.SNAPSHOT_MODIFICATION_TIME, namespace.base.layout_version)


def next_for_kernels(namespace: Namespace) -> int:
    """Return the id of the next snapshot; -1 if kernels must not create it.

    Kernels cannot capture open files, and use the clock only for Hadoop 2.
    """
    if namespace.rules.capture_open_files or (namespace.hadoop3 and not are_timed(namespace)):
        return -1
    return namespace.snapshots.next_id


def allow(namespace: Namespace, op: AllowSnapshotOp) -> None:
    row = namespace.directory(op.snapshot_root)
    namespace.leases.read_files()
    if not namespace.snapshots.allow(int(namespace.table.id[row])):
        namespace.ignore()


def disallow(namespace: Namespace, op: DisallowSnapshotOp) -> None:
    row = namespace.directory(op.snapshot_root)
    if not namespace.snapshots.is_snapshottable(int(namespace.table.id[row])):
        namespace.ignore()
        return
    namespace.snapshots.disallow(int(namespace.table.id[row]))
    diffs = namespace.recorder.diffs.of_directory(row)
    if diffs is not None and not diffs.any and not namespace.recorder.lookup.is_snapshottable(row):
        namespace.recorder.diffs.remove(row)


def create(namespace: Namespace, op: CreateSnapshotOp) -> None:
    row = namespace.snapshot_root(op.snapshot_root)
    namespace.tree.check_known(row)
    mtime = op.mtime if are_timed(namespace) else now()
    snapshot = make(namespace, row, encode_name(op.snapshot_name), mtime, namespace.table.rows[row])
    namespace.recorder.diffs.note(row, snapshot.id)
    namespace.recorder.raise_mtime(row, mtime, CURRENT_STATE)
    if namespace.rules.capture_open_files:
        _capture_open_files(namespace, row)


def make(namespace: Namespace, row: int, name: bytes, mtime: int, entry: np.void) -> Snapshot:
    """Create a snapshot of a directory; the row already reflects its diff, or the caller notes the diff next.

    Args:
        entry: the row at the time of the snapshot.

    Raises:
        NamespaceError: see `SnapshotManager.create`.
    """
    diffs, kept = namespace.recorder.diffs, namespace.table.copy_row(row, entry)
    attributes = partial(_attributes, kept, mtime, with_quotas=namespace.hadoop3)
    snapshot = namespace.snapshots.create(int(entry["id"]), name, attributes)
    size = namespace.tree.child_count(row, int(entry["growth"]))
    diffs.directory(row).add(DirectoryDiff(snapshot.id, size, is_root=True, name=name, copy=snapshot))
    diffs.note_kept(row, snapshot.id)
    return snapshot


def _attributes(kept: RowCopy, mtime: int, *, with_quotas: bool) -> pb.INodeDirectory:
    copy = pb.INodeDirectory()
    InodeTable.fill_directory(copy, kept)
    if not with_quotas:
        # Hadoop 2.7 omits quotas.
        copy.nsQuota = copy.dsQuota = UINT64
        copy.ClearField("typeQuotas")
    copy.modificationTime = unsigned64(mtime)
    return copy


def _capture_open_files(namespace: Namespace, root: int) -> None:
    """Record the present lengths of open files (DirectorySnapshottableFeature.addSnapshot).

    Hadoop compares the objects on both paths (INodesInPath.isDescendant). The file's path is resolved from the root and
    contains references where inodes were renamed out of snapshots. The path of the snapshot's directory is collected
    upwards and contains no references.
    """
    recorder = namespace.recorder
    if recorder.lookup.is_moved(root):
        return
    for leased in list(namespace.leases.rows_below(root)):
        if recorder.lookup.in_current_state(leased):
            recorder.record_in(leased, recorder.lookup.latest(leased))


def delete(namespace: Namespace, op: DeleteSnapshotOp) -> None:
    remove(namespace, namespace.snapshot_root(op.snapshot_root), encode_name(op.snapshot_name), op.mtime)


def remove(namespace: Namespace, row: int, name: bytes, mtime: int) -> None:
    """Delete a snapshot of a directory.

    With ordered deletion, the log contains two deletions of a snapshot that is not the earliest: the first deletion
    marks it, and the second deletion removes it. Without ordered deletion, the first deletion removes the snapshot, and
    a NameNode skips the second deletion (HDFS-15590). Releases of older layouts lack the feature and ignore its key.
    During a rolling upgrade, a newer release writes edits of the older layout.

    Raises:
        NamespaceError: see `SnapshotManager.find`; also if it is unknown whether the NameNode marks or removes the
            snapshot.
        InconsistentNamespaceError: a NameNode terminates at this operation.
    """
    rules = namespace.rules
    known = rules.ordered_deletion_in_older_layouts or supports(_FIRST_WITH_ORDER, namespace.base.layout_version)
    ordered = known and rules.ordered_snapshot_deletion
    if known and not ordered and not namespace.snapshots.has(int(namespace.table.id[row]), name):
        _check_order_is_known(namespace, row, name)
        namespace.ignore()
        return
    snapshot = namespace.snapshots.find(int(namespace.table.id[row]), name)
    diffs = namespace.recorder.diffs.of_directory(row)
    earliest = diffs is None or not diffs.items or diffs.items[0].snapshot_id == snapshot.id
    if rules.ordered_snapshot_deletion and not earliest:
        if ordered:
            _mark_deleted(namespace, row, snapshot)
            return
        _check_release_is_known(namespace, row, name)
    namespace.remove_snapshot(row, snapshot.id)
    namespace.snapshots.delete(snapshot)
    if are_timed(namespace):
        namespace.recorder.raise_mtime(row, mtime, CURRENT_STATE)


def _check_order_is_known(namespace: Namespace, row: int, name: bytes) -> None:
    """Raise NamespaceError for a missing snapshot if the configuration does not define whether deletion is ordered."""
    if namespace.rules.ordered_snapshot_deletion is None:
        raise NamespaceError(
            f"{namespace.tree.path(row)} has no snapshot {name.decode('utf-8', 'replace')!r}; {_ORDERED} determines "
            "whether an earlier operation removed or marked it",
            hint=f"Repeat with --conf DIR, the folder of the NameNode's own configuration, which sets {_ORDERED}.",
        )


def _check_release_is_known(namespace: Namespace, row: int, name: bytes) -> None:
    """Raise NamespaceError in a rolling upgrade if it is unknown whether the NameNode supports ordered deletion.

    Even after the end of the upgrade, the support remains unknown until the namespace is loaded in the new layout.
    """
    upgrading = namespace.upgrade_seen or namespace.info.HasField("rollingUpgradeStartTime")
    if upgrading and namespace.rules.ordered_deletion_in_older_layouts is None:
        raise NamespaceError(
            f"{namespace.tree.path(row)}: a NameNode of Hadoop 3.4 or newer only marks the snapshot "
            f"{name.decode('utf-8', 'replace')!r}, and an older NameNode removes it; it is unknown which NameNode "
            f"wrote this operation during the rolling upgrade",
            hint=f"Set {_IN_OLDER_LAYOUTS} to true if the active NameNode ran Hadoop 3.4 or newer when the snapshot "
            f"was deleted, otherwise to false, and try again.",
        )


def _mark_deleted(namespace: Namespace, row: int, snapshot: Snapshot) -> None:
    """Mark and rename a snapshot that is not the earliest, as ordered deletion does."""
    serial = namespace.strings.serial(_DELETED_XATTR, StringKind.XATTR)
    packed = pack_xattr_name(XAttrNamespace.SYSTEM, serial)
    attributes = snapshot.directory.xAttrs.xAttrs
    if all(xattr.name != packed for xattr in attributes):
        attributes.insert(0, pb.XAttrCompactProto(name=packed))
    name = snapshot.name + b"#" + str(snapshot.id).encode()
    _rename_to(namespace, row, snapshot, name, now())


def rename(namespace: Namespace, op: RenameSnapshotOp) -> None:
    row = namespace.snapshot_root(op.snapshot_root)
    rename_snapshot(namespace, row, encode_name(op.snapshot_old_name), encode_name(op.snapshot_new_name), op.mtime)


def rename_snapshot(namespace: Namespace, row: int, old: bytes, new: bytes, mtime: int) -> None:
    """Rename a snapshot of a directory.

    Raises:
        NamespaceError: see `SnapshotManager.find` and `SnapshotManager.rename`.
    """
    root = int(namespace.table.id[row])
    if new == old and not namespace.hadoop3:
        # Hadoop 2.7 does not check whether the snapshot exists.
        namespace.snapshots.check_snapshottable(root)
        namespace.ignore()
        return
    snapshot = namespace.snapshots.find(root, old)
    if new == old:
        namespace.ignore()
    else:
        _rename_to(namespace, row, snapshot, new, mtime if are_timed(namespace) else None)


def _rename_to(namespace: Namespace, row: int, snapshot: Snapshot, name: bytes, mtime: int | None) -> None:
    namespace.snapshots.rename(snapshot, name)
    if mtime is not None:
        snapshot.directory.modificationTime = unsigned64(mtime)
    diffs = namespace.recorder.diffs.of_directory(row)
    for diff in [] if diffs is None else diffs.items:
        if diff.is_root and diff.snapshot_id == snapshot.id:
            diff.name = name
