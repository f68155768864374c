"""Client views of an inode, now or in a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from engine.namespace import Namespace
from engine.namespace.diffs import CURRENT_STATE
from engine.namespace.erasure_coding import ErasureCodingPolicy
from hadoop_common.block import Block
from hadoop_rpc.client_values import AclEntryView
from image_format.inode_features import to_signed
from image_format.kernels.inode import DIRECTORY, FILE, SYMLINK
from image_format.permission import unpack_acl_entry, unpack_permission, unpack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind
from journal.ops import XAttr
from namenode_stub.names.past_states import InodePlace, children_at, copy_at, size_at

_FILE_ATTRIBUTES = pb.INodeFile | pb.INodeDirectory


@dataclass(frozen=True, slots=True)
class EffectivePolicies:
    """Effective policies of an inode, set on itself or on a directory above it.

    Attributes:
        storage: id of the storage policy, 0 if none is set.
        erasure: the erasure coding policy; None if none is set.
    """

    storage: int = 0
    erasure: ErasureCodingPolicy | None = None


NO_POLICIES = EffectivePolicies()


@dataclass(frozen=True, slots=True)
class InodeView:
    """An inode as it is now or in a snapshot; times in ms since the epoch, sizes in bytes.

    Attributes:
        name: local name, empty if the path itself was requested.
        children: number of names in a directory.
        acl: extended entries, None without an ACL.
        snapshottable: whether it may have snapshots.
        hadoop3: whether it is of a namespace of Hadoop 3.
    """

    kind: int
    id: int
    name: bytes
    owner: str
    group: str
    mode: int
    mtime: int
    atime: int
    length: int = 0
    replication: int = 0
    block_size: int = 0
    target: bytes | None = None
    children: int = 0
    acl: tuple[AclEntryView, ...] | None = None
    blocks: tuple[Block, ...] = ()
    is_open: bool = False
    snapshottable: bool = False
    policies: EffectivePolicies = NO_POLICIES
    hadoop3: bool = True


DOT_SNAPSHOT_VIEW = InodeView(kind=DIRECTORY, id=0, name=b"", owner="", group="", mode=0, mtime=0, atime=0)
"""`/dir/.snapshot` has no inode; clients get an empty directory."""


def replication_at(namespace: Namespace, place: InodePlace) -> int:
    """Return the replication factor of a file, now or in a snapshot; 1 if erasure coded, as in Hadoop."""
    if namespace.table.ec_policy[place.row] >= 0:
        return 1
    copy = copy_at(namespace, place)
    return copy.replication if isinstance(copy, pb.INodeFile) else max(0, int(namespace.table.replication[place.row]))


def xattrs_of(namespace: Namespace, place: InodePlace) -> list[XAttr]:
    """Return the extended attributes of an inode, in stored order."""
    copy = copy_at(namespace, place)
    if copy is None:
        held = namespace.table.feature(place.row).xattrs or ()
    else:
        held = tuple((xattr.name, xattr.value) for xattr in copy.xAttrs.xAttrs)
    found = []
    for packed, value in held:
        space, serial = unpack_xattr_name(packed)
        found.append(XAttr(space, namespace.strings.lookup(serial, StringKind.XATTR) or "", value))
    return found


def view_of(
    namespace: Namespace, place: InodePlace, name: bytes = b"", policies: EffectivePolicies = NO_POLICIES
) -> InodeView:
    table, row = namespace.table, place.row
    kind = int(table.kind[row])
    copy = copy_at(namespace, place)
    packed = int(table.permission[row]) if copy is None else copy.permission
    user, group, mode = unpack_permission(packed)
    is_file = kind == FILE
    past = place.snapshot_id != CURRENT_STATE
    times = _times(namespace, row, copy)
    return InodeView(
        kind=kind,
        id=int(table.id[row]),
        name=name,
        owner=namespace.strings.lookup(user, StringKind.USER) or "",
        group=namespace.strings.lookup(group, StringKind.GROUP) or "",
        mode=mode,
        mtime=times[0],
        atime=times[1],
        length=size_at(namespace, place) if is_file else 0,
        replication=replication_at(namespace, place) if is_file else 0,
        block_size=int(table.block_size[row]) if is_file else 0,
        target=table.feature(row).target if kind == SYMLINK else None,
        children=_child_count(namespace, place) if kind == DIRECTORY else 0,
        acl=_acl(namespace, row, copy),
        blocks=tuple(table.file_blocks(row)) if is_file and not past else (),
        is_open=is_file and not past and table.is_under_construction(row),
        snapshottable=kind == DIRECTORY and not past and namespace.snapshots.is_snapshottable(int(table.id[row])),
        policies=policies,
        hadoop3=namespace.hadoop3,
    )


def _times(namespace: Namespace, row: int, copy: _FILE_ATTRIBUTES | None) -> tuple[int, int]:
    """Return modification and access time; directories have no access time."""
    table = namespace.table
    if copy is None:
        return int(table.mtime[row]), 0 if table.kind[row] == DIRECTORY else int(table.atime[row])
    atime = to_signed(copy.accessTime) if isinstance(copy, pb.INodeFile) else 0
    return to_signed(copy.modificationTime), atime


def _child_count(namespace: Namespace, place: InodePlace) -> int:
    if place.snapshot_id == CURRENT_STATE:
        return namespace.tree.child_count(place.row)
    return sum(1 for _ in children_at(namespace, place))


def _acl(namespace: Namespace, row: int, copy: _FILE_ATTRIBUTES | None) -> tuple[AclEntryView, ...] | None:
    entries = namespace.table.feature(row).acl
    if copy is not None:
        entries = tuple(copy.acl.entries) if copy.HasField("acl") else None
    if entries is None:
        return None
    kinds = {0: StringKind.USER, 1: StringKind.GROUP}
    found = []
    for packed in entries:
        scope, kind, serial, permission = unpack_acl_entry(packed)
        name = namespace.strings.lookup(serial, kinds[kind]) if serial and kind in kinds else ""
        found.append(AclEntryView(scope, kind, name or "", permission))
    return tuple(found)
