"""Damage to snapshot data: references, snapshots and their diffs."""

from __future__ import annotations

import itertools

from image_format.proto import fsimage_pb2 as pb
from tests.image_tools.damage_kinds import DIRECTORY, FILE, LOST, damage
from tests.image_tools.verify_support import Diffs, Model


@damage("reference-inode", "rename", "rename3", restored=True)
def reference_to_no_inode(model: Model) -> None:
    """Insert the reference at number 0, so that all other numbers change."""
    model.refs.insert(0, pb.INodeReference(referredId=LOST, name=b"!", lastSnapshotId=0))
    for entry in model.dirs:
        entry.refChildren[:] = [number + 1 for number in entry.refChildren]
    for found in model.diffs:
        for diff in found.diffs:
            if isinstance(diff, pb.DirectoryDiff):
                diff.deletedINodeRef[:] = [number + 1 for number in diff.deletedINodeRef]
    model.referring().refChildren.append(0)


@damage("reference-dst-twice", "rename", "rename3", restored=True)
def two_dst_references(model: Model) -> None:
    number = next(n for e in model.dirs for n in e.refChildren if model.refs[n].HasField("dstSnapshotId"))
    twin = pb.INodeReference()
    twin.CopyFrom(model.refs[number])
    model.refs.append(twin)
    empty = next(entry for entry in reversed(model.dirs) if number not in entry.refChildren)
    empty.refChildren.append(len(model.refs) - 1)


@damage("reference-name-twice", "rename", "rename3", restored=True, also="diff-deleted-order diff-size")
def two_names_for_one_snapshot(model: Model) -> None:
    found, index = model.directory_diffs(references=1)
    twin = pb.INodeReference()
    twin.CopyFrom(model.refs[found.diffs[index].deletedINodeRef[0]])
    twin.name = b"\x7f\x7f"
    model.refs.append(twin)
    found.diffs[index].deletedINodeRef.append(len(model.refs) - 1)


@damage("reference-snapshot", "rename", "rename3", also="diff-size")
def name_that_ends_before_its_directory(model: Model) -> None:
    """End a child's WithName at an earlier snapshot than the WithName of its directory."""
    directories = {inode.id for inode in model.kind(DIRECTORY)}
    files = {inode.id: inode for inode in model.kind(FILE)}
    created = {name for found in model.diffs for names in found.created for name in names}
    outer, entry, child = next(
        (outer, entry, child)
        for outer in model.refs
        for entry in model.dirs
        for child in entry.children
        if outer.HasField("lastSnapshotId") and entry.parent == outer.referredId in directories
        if outer.lastSnapshotId and child in files and files[child].name not in created
    )
    early = pb.INodeReference(referredId=child, name=files[child].name, lastSnapshotId=outer.lastSnapshotId - 1)
    entry.children.remove(child)
    entry.refChildren.append(len(model.refs))
    model.refs.append(early)


@damage("reference-unused", "rename", "rename3", restored=True)
def reference_unused(model: Model) -> None:
    model.refs.append(pb.INodeReference(referredId=model.kind(FILE)[0].id, name=b"n", lastSnapshotId=99))


@damage("snapshot-count", "rename", "rename3", restored=True)
def snapshot_count(model: Model) -> None:
    model.snapshot_header.numSnapshots += 1


@damage("snapshot-counter", "rename", "rename3")
def snapshot_counter(model: Model) -> None:
    model.snapshot_header.snapshotCounter = 0


@damage("snapshot-twice", "rename", "rename3", restored=True)
def snapshot_twice(model: Model) -> None:
    twin = pb.Snapshot()
    twin.CopyFrom(model.snapshots[-1])
    model.snapshots.append(twin)
    model.snapshot_header.numSnapshots += 1


@damage("snapshot-directory", "rename", "rename3", restored=True)
def snapshottable_file(model: Model) -> None:
    model.snapshot_header.snapshottableDir.append(model.kind(FILE)[0].id)


@damage("snapshot-directory-twice", "rename", restored=True)
def snapshottable_twice(model: Model) -> None:
    model.snapshot_header.snapshottableDir.append(model.snapshot_header.snapshottableDir[0])


@damage("snapshot-root", "rename", "rename3", restored=True)
def not_snapshottable(model: Model) -> None:
    kept = [d for d in model.snapshot_header.snapshottableDir if d != model.snapshots[-1].root.id]
    del model.snapshot_header.snapshottableDir[:]
    model.snapshot_header.snapshottableDir.extend([*kept])


@damage("snapshot-root-missing", "rename", "rename3", restored=True)
def snapshot_of_nothing(model: Model) -> None:
    model.snapshots.append(pb.Snapshot(snapshotId=9999))
    model.snapshots[-1].root.CopyFrom(model.snapshots[0].root)
    model.snapshots[-1].root.id = LOST
    model.snapshot_header.numSnapshots += 1


@damage("snapshot-order", "rename", "rename3", restored=True)
def snapshots_unsorted(model: Model) -> None:
    model.snapshots.reverse()


@damage("snapshot-name", "rename", "rename3")
def two_snapshots_of_one_name(model: Model) -> None:
    pairs = itertools.pairwise(model.snapshots)
    a, b = next((a, b) for a, b in pairs if a.root.id == b.root.id)
    b.root.name = a.root.name


@damage("diff-inode", "rename", "rename3", restored=True)
def diffs_of_no_inode(model: Model) -> None:
    header = pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=LOST)
    model.diffs.append(Diffs(header, [pb.FileDiff(snapshotId=model.snapshots[0].snapshotId)], [[]]))


@damage("diff-kind", "rename", "rename3", restored=True)
def diffs_of_another_kind(model: Model) -> None:
    taken = {found.header.inodeId for found in model.diffs}
    inode = next(inode for inode in model.kind(DIRECTORY) if inode.id not in taken)
    header = pb.DiffEntry(type=pb.DiffEntry.FILEDIFF, inodeId=inode.id)
    model.diffs.append(Diffs(header, [], []))


@damage("diff-twice", "rename", "rename3", restored=True)
def two_lists_of_diffs(model: Model) -> None:
    found = next(found for found in model.diffs if len(found.diffs) > 1)
    header = pb.DiffEntry()
    header.CopyFrom(found.header)
    model.diffs.append(Diffs(header, found.diffs[1:], found.created[1:]))
    del found.diffs[1:], found.created[1:]


@damage("diff-order", "rename", "rename3", restored=True, also="diff-size diff-created diff-deleted-twice")
def oldest_diff_first(model: Model) -> None:
    found = next(f for f in model.diffs if len(f.diffs) > 1 and f.header.type == pb.DiffEntry.FILEDIFF)
    found.diffs.reverse()


@damage("diff-snapshot-twice", "rename", "rename3", restored=True)
def two_diffs_for_one_snapshot(model: Model) -> None:
    found = next(f for f in model.diffs if f.diffs and f.header.type == pb.DiffEntry.FILEDIFF)
    found.diffs.append(found.diffs[-1])
    found.created.append([])


@damage("diff-root", "rename", "rename3", also="diff-snapshot")
def root_diff_of_no_snapshot(model: Model) -> None:
    found = next(f for f in model.diffs if f.header.type == pb.DiffEntry.DIRECTORYDIFF and f.diffs)
    diff = pb.DirectoryDiff()
    diff.snapshotId, diff.isSnapshotRoot = 5000, True
    found.diffs.insert(0, diff)
    found.created.insert(0, [])


@damage("diff-root-other", "rename")
def root_diff_of_another_directory(model: Model) -> None:
    taken = {found.header.inodeId for found in model.diffs}
    inode = next(inode for inode in model.kind(DIRECTORY) if inode.id not in taken)
    header = pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=inode.id)
    diff = pb.DirectoryDiff(snapshotId=model.snapshots[0].snapshotId, isSnapshotRoot=True)
    model.diffs.append(Diffs(header, [diff], [[]]))


@damage("diff-snapshot", "rename", "rename3", also="diff-size")
def diff_of_no_snapshot(model: Model) -> None:
    found = next(f for f in model.diffs if f.diffs and f.header.type == pb.DiffEntry.FILEDIFF)
    found.diffs.insert(0, pb.FileDiff(snapshotId=5000, fileSize=1))
    found.created.insert(0, [])


@damage("diff-created", "rename", "rename3", "basic", restored=True, also="diff-size")
def created_name_of_nothing(model: Model) -> None:
    found, index = model.directory_diffs(created=1)
    found.created[index].append(b"~~~")


@damage("diff-created-order", "rename", "rename3", restored=True)
def created_names_unsorted(model: Model) -> None:
    found, index = model.directory_diffs(created=2)
    found.created[index].reverse()


@damage("diff-created-order", "rename", restored=True, also="diff-size")
def created_name_twice(model: Model) -> None:
    found, index = model.directory_diffs(created=1)
    found.created[index].append(found.created[index][-1])


@damage("diff-deleted", "rename", "rename3", restored=True, also="diff-size")
def deleted_inode_of_nothing(model: Model) -> None:
    found, index = model.directory_diffs(deleted=1)
    found.diffs[index].deletedINode.append(LOST)


@damage("diff-deleted-twice", "rename", "rename3", restored=True, also="diff-size diff-deleted-order")
def deleted_inode_that_lives(model: Model) -> None:
    found, index = model.directory_diffs(deleted=1)
    found.diffs[index].deletedINode.append(model.entry().children[-1])


@damage("diff-deleted-order", "rename", "rename3", restored=True)
def deleted_unsorted(model: Model) -> None:
    for found in model.diffs:
        for diff in found.diffs:
            if isinstance(diff, pb.DirectoryDiff):
                diff.deletedINode[:] = list(reversed(diff.deletedINode))
                diff.deletedINodeRef[:] = list(reversed(diff.deletedINodeRef))


@damage("diff-deleted-name", "rename", "rename3", also="diff-size diff-created inode-unreachable diff-deleted-order")
def two_deleted_of_one_name(model: Model) -> int:
    found, index = model.directory_diffs(deleted=1)
    old = model.inode(found.diffs[index].deletedINode[0])
    twin = pb.INode()
    twin.CopyFrom(old)
    twin.id = model.inode_header.lastInodeId + 1
    model.inode_header.lastInodeId += 1
    model.inode_header.numInodes += 1
    model.inodes.append(twin)
    found.diffs[index].deletedINode.insert(1, twin.id)
    return twin.id


@damage("diff-reference-range", "rename", "rename3", restored=True, also="diff-size")
def deleted_reference_that_is_not_there(model: Model) -> None:
    found, index = model.directory_diffs(references=1)
    found.diffs[index].deletedINodeRef.append(len(model.refs))


@damage("diff-reference-twice", "rename", "rename3", restored=True, also="diff-size")
def deleted_reference_twice(model: Model) -> None:
    found, index = model.directory_diffs(references=1)
    found.diffs[index].deletedINodeRef.append(found.diffs[index].deletedINodeRef[0])


@damage("diff-size", "rename", "rename3")
def children_size(model: Model) -> None:
    found, index = model.directory_diffs()
    found.diffs[index].childrenSize += 40
