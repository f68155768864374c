"""One way to damage an image for every finding: tables, inodes, directories and the managers' sections."""

from __future__ import annotations

import tests.image_tools.snapshot_damage  # noqa: F401
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from tests.image_tools.damage_kinds import DAMAGES, DIRECTORY, FAR, FILE, LOST, ROOT, SYMLINK, damage
from tests.image_tools.verify_support import Model

__all__ = ["DAMAGES"]

# ---- NS_INFO, STRING_TABLE ---------------------------------------------------------------------------------


@damage("ns-block-id", "acl", "rename3")
def last_block_too_low(model: Model) -> None:
    model.info.lastAllocatedBlockId = 1 << 30


@damage("ns-block-id", "ec")
def last_striped_block_too_low(model: Model) -> None:
    model.info.lastAllocatedStripedBlockId = 1 << 63


@damage("ns-genstamp", "acl", "ec")
def genstamp_too_low(model: Model) -> None:
    model.info.genstampV2 = 1000


@damage("string-count", "acl", "acl3", restored=True)
def string_count(model: Model) -> None:
    model.string_header.numEntry += 3


@damage("string-id", "acl", also="string-gap inode-user inode-group inode-acl inode-xattr")
def string_id_above_24_bits(model: Model) -> None:
    model.strings[0].id = 1 << 24


@damage("string-gap", "acl", also="inode-user inode-group inode-acl inode-xattr")
def string_id_after_a_gap(model: Model) -> None:
    model.strings[0].id = len(model.strings) + 5


@damage("string-id", "acl3", also="inode-user inode-group inode-acl inode-xattr")
def string_id_zero(model: Model) -> None:
    model.strings[0].id = 0


@damage("string-twice", "acl3", restored=True)
def string_twice(model: Model) -> None:
    model.strings.insert(0, pb.StringTableEntry(id=model.strings[-1].id, str=b"wrong"))
    model.string_header.numEntry += 1


@damage("string-twice", "acl", restored=True)
def string_twice_in_a_single_map(model: Model) -> None:
    model.strings.insert(0, pb.StringTableEntry(id=model.strings[-1].id, str=b"wrong"))
    model.string_header.numEntry += 1


# ---- INODE -------------------------------------------------------------------------------------------------


@damage("inode-count", "acl", "ec", restored=True)
def inode_count(model: Model) -> None:
    model.inode_header.numInodes -= 1


@damage("inode-last-id", "acl", "ec")
def last_inode_id(model: Model) -> None:
    model.inode_header.lastInodeId = 16385


@damage("inode-twice", "acl", "ec", restored=True)
def inode_twice(model: Model) -> None:
    twin = pb.INode()
    twin.CopyFrom(model.kind(FILE)[0])
    twin.file.modificationTime = 1
    model.inodes.insert(0, twin)
    model.inode_header.numInodes += 1


@damage("inode-id", "acl")
def reserved_inode_id(model: Model) -> int:
    inode = model.kind(FILE)[0]
    for entry in model.dirs:
        entry.children[:] = [77 if child == inode.id else child for child in entry.children]
    for found in model.diffs:
        if found.header.inodeId == inode.id:
            found.header.inodeId = 77
    inode.id = 77
    return 77


@damage("inode-kind", "basic", restored=True)
def type_and_message_differ(model: Model) -> None:
    model.kind(FILE)[0].type = SYMLINK


@damage("inode-kind", "ec", restored=True)
def two_messages(model: Model) -> None:
    model.kind(DIRECTORY)[0].symlink.target = b"x"


@damage("inode-user", "acl", "acl3", also="inode-group inode-acl")
def unknown_user(model: Model) -> int:
    inode = model.kind(FILE)[0]
    inode.file.permission = inode.file.permission & (1 << 40) - 1 | (len(model.strings) + 9) << 40
    return inode.id


@damage("inode-user", "acl", "acl3")
def user_far_behind(model: Model) -> int:
    inode = model.kind(FILE)[0]
    inode.file.permission = inode.file.permission & (1 << 40) - 1 | FAR << 40
    return inode.id


@damage("inode-group", "acl", "acl3")
def unknown_group(model: Model) -> int:
    inode = model.kind(DIRECTORY)[0]
    inode.directory.permission = inode.directory.permission & ~(0xFFFFFF << 16) | 900 << 16
    return inode.id


@damage("inode-acl", "acl", "acl3")
def unknown_acl_name(model: Model) -> int:
    inode = next(inode for inode in model.inodes if inode.directory.acl.entries)
    inode.directory.acl.entries.append(FAR << 6 | 7)
    return inode.id


@damage("inode-xattr", "acl", "acl3")
def unknown_xattr_name(model: Model) -> int:
    inode = next(inode for inode in model.inodes if inode.file.xAttrs.xAttrs)
    inode.file.xAttrs.xAttrs.add(name=FAR << 6, value=b"v")
    return inode.id


@damage("inode-group", "acl", "acl3")
def unknown_group_of_a_snapshot(model: Model) -> None:
    model.snapshots[0].root.directory.permission = 1 << 40 | FAR << 16 | 0o755


@damage("inode-user", "rename", "rename3")
def unknown_user_of_a_diff(model: Model) -> None:
    copy = next(d.snapshotCopy for f in model.diffs for d in f.diffs if d.HasField("snapshotCopy"))
    copy.permission = FAR << 40 | 1 << 16 | 0o644


@damage("inode-replication", "acl", "acl3")
def too_many_replicas(model: Model) -> int:
    inode = model.kind(FILE)[0]
    inode.file.replication = 5000
    return inode.id


@damage("inode-replication", "acl")
def no_replication_in_hadoop_2(model: Model) -> int:
    inode = model.kind(FILE)[0]
    inode.file.ClearField("replication")
    return inode.id


@damage("inode-no-replicas", "acl3")
def no_replication(model: Model) -> int:
    inode = model.kind(FILE)[0]
    inode.file.replication = 0
    return inode.id


@damage("inode-redundancy", "ec", restored=True)
def replication_and_policy(model: Model) -> None:
    next(inode for inode in model.inodes if inode.file.HasField("erasureCodingPolicyID")).file.replication = 3


@damage("inode-block-type", "ec", restored=True)
def policy_of_contiguous_file(model: Model) -> None:
    next(inode for inode in model.inodes if inode.file.HasField("erasureCodingPolicyID")).file.blockType = pb.CONTIGUOUS


@damage("inode-value", "acl", "ec")
def block_size_zero(model: Model) -> int:
    inode = model.kind(FILE)[0]
    inode.file.preferredBlockSize = 0
    return inode.id


@damage("inode-value", "acl")
def negative_block_length(model: Model) -> int:
    inode = next(inode for inode in model.inodes if inode.file.blocks)
    inode.file.blocks[0].numBytes = (1 << 64) - 7
    inode.file.blocks[0].genStamp = (1 << 64) - 7
    inode.file.storagePolicyID = 99
    return inode.id


@damage("inode-value", "acl", "ec", restored=True)
def negative_quota(model: Model) -> None:
    inode = next(i for i in model.kind(DIRECTORY) if i.directory.nsQuota == (1 << 64) - 1)
    inode.directory.nsQuota = (1 << 64) - 5


@damage("inode-name", "acl", "ec", also="dir-child-order lease-path")
def name_with_a_slash(model: Model) -> int:
    inode = model.kind(FILE)[0]
    inode.name = b"zz/zz"
    return inode.id


@damage("inode-name", "acl", restored=True)
def root_with_a_name(model: Model) -> None:
    model.inode(ROOT).name = b"root"


@damage("inode-unreachable", "acl", "ec")
def child_not_listed(model: Model) -> int:
    return model.entry().children.pop()


@damage("inode-unreachable", "rename", "rename3")
def directory_not_listed(model: Model) -> None:
    entry = next(e for e in model.dirs if e.parent == ROOT)
    del entry.children[:1]


@damage("inode-unreachable", "acl")
def a_circle(model: Model) -> None:
    (root,) = (entry for entry in model.dirs if entry.parent == ROOT)
    child = root.children.pop()
    inner = model.inode_header.lastInodeId + 1
    model.inodes.append(pb.INode(type=DIRECTORY, id=inner, name=b"inner"))
    model.inodes[-1].directory.permission = model.inode(ROOT).directory.permission
    model.inode_header.lastInodeId = inner
    model.inode_header.numInodes += 1
    model.dirs.append(pb.DirEntry(parent=inner, children=[child]))
    mine = next((entry for entry in model.dirs if entry.parent == child), None)
    if mine is None:
        mine = pb.DirEntry(parent=child)
        model.dirs.append(mine)
    mine.children.append(inner)
    mine.children.sort(key=lambda number: name_key(model.inode(number).name))


# ---- INODE_DIR ---------------------------------------------------------------------------------------------


@damage("dir-parent", "acl", "ec", restored=True)
def parent_is_no_inode(model: Model) -> None:
    model.dirs.append(pb.DirEntry(parent=LOST, children=[ROOT]))


@damage("dir-parent", "acl", "ec", restored=True)
def parent_is_a_file(model: Model) -> None:
    model.dirs.insert(0, pb.DirEntry(parent=model.kind(FILE)[0].id, children=[ROOT]))


@damage("dir-parent-twice", "acl", "ec", restored=True)
def two_entries(model: Model) -> None:
    entry = model.entry()
    model.dirs.append(pb.DirEntry(parent=entry.parent, children=[entry.children.pop(0)]))


@damage("dir-child-missing", "acl", "ec", restored=True)
def child_is_no_inode(model: Model) -> None:
    model.entry().children.append(LOST)


@damage("dir-child-twice", "acl", "ec", restored=True)
def child_twice_in_one_directory(model: Model) -> None:
    entry = model.entry()
    entry.children.append(entry.children[-1])


@damage("dir-child-twice", "acl", "ec", restored=True)
def child_in_two_directories(model: Model) -> None:
    child = model.dirs[0].children[0]
    model.dirs[-1].children.append(child)
    model.dirs[-1].children.sort(key=lambda number: name_key(model.inode(number).name))


@damage("dir-child-twice", "acl", restored=True, also="dir-child-order")
def root_as_a_child(model: Model) -> None:
    model.entry().children.append(ROOT)


@damage("dir-child-order", "acl", "ec", "rename", restored=True)
def children_unsorted(model: Model) -> None:
    entry = model.entry()
    entry.children[:] = list(reversed(entry.children))


@damage("dir-child-name", "acl", "ec")
def two_children_of_one_name(model: Model) -> int:
    entry = next(e for e in model.dirs if sum(model.inode(c).type == FILE for c in e.children) >= 2)
    files = [child for child in entry.children if model.inode(child).type == FILE]
    model.inode(files[1]).name = model.inode(files[0]).name
    entry.children.remove(files[1])
    entry.children.insert(list(entry.children).index(files[0]) + 1, files[1])
    model.leases = [lease for lease in model.leases if lease.inodeId != files[1]]
    model.inode(files[1]).file.ClearField("fileUC")
    return files[1]


@damage("dir-child-reserved", "acl", "ec", also="lease-path")
def child_of_the_root_with_a_reserved_name(model: Model) -> int:
    entry = next(entry for entry in model.dirs if entry.parent == ROOT and entry.children)
    child = entry.children[-1]
    model.inode(child).name = b".reserved"
    entry.children.sort(key=lambda number: name_key(model.inode(number).name))
    return child


@damage("dir-reference-range", "rename", "rename3", "acl", restored=True)
def reference_that_is_not_there(model: Model) -> None:
    model.entry().refChildren.append(len(model.refs))


@damage("dir-reference-twice", "rename", "rename3", restored=True)
def reference_used_twice(model: Model) -> None:
    entry = model.referring()
    entry.refChildren.append(entry.refChildren[0])


@damage("dir-child-referenced", "rename", "rename3", restored=True)
def child_and_reference(model: Model) -> None:
    number = model.referring().refChildren[0]
    entry = next(entry for entry in model.dirs if entry.parent == ROOT)
    entry.children.append(model.refs[number].referredId)
    entry.children.sort(key=lambda child: name_key(model.inode(child).name))


@damage("dir-child-referenced", "rename", restored=True, also="diff-size")
def child_and_deleted_reference(model: Model) -> None:
    found, index = model.directory_diffs()
    model.refs.append(pb.INodeReference(referredId=model.entry().children[0], name=b"\x7f", lastSnapshotId=99))
    found.diffs[index].deletedINodeRef.append(len(model.refs) - 1)


# ---- FILES_UNDERCONSTRUCTION -------------------------------------------------------------------------------


@damage("lease-inode", "leases", "leases3", restored=True)
def lease_of_nothing(model: Model) -> None:
    model.leases.append(pb.FileUnderConstructionEntry(inodeId=LOST, fullPath="/nothing"))


@damage("lease-closed", "leases", "leases3", restored=True)
def lease_of_a_closed_file(model: Model) -> None:
    closed = next(inode for inode in model.kind(FILE) if not inode.file.HasField("fileUC"))
    model.leases.append(pb.FileUnderConstructionEntry(inodeId=closed.id, fullPath="/closed"))


@damage("lease-twice", "leases", "leases3", restored=True)
def lease_twice(model: Model) -> None:
    model.leases.append(model.leases[0])


@damage("lease-path", "leases", "leases3", restored=True)
def lease_at_another_path(model: Model) -> None:
    model.leases[0].fullPath = "/elsewhere"


@damage("lease-missing", "leases", restored=True)
def lease_missing(model: Model) -> None:
    model.leases.pop()


@damage("lease-missing", "leases3")
def lease_missing_in_hadoop3(model: Model) -> None:
    model.leases.pop()


# ---- SECRET_MANAGER, CACHE_MANAGER, ERASURE_CODING ---------------------------------------------------------


@damage("secret-count", "tokens", restored=True)
def token_count(model: Model) -> None:
    model.secret_header.numTokens -= 1
    model.secret_header.numKeys += 1


@damage("secret-key-twice", "tokens", restored=True)
def key_twice(model: Model) -> None:
    model.keys.insert(0, pb.DelegationKey(id=model.keys[-1].id, expiryDate=1, key=b"old"))
    model.secret_header.numKeys += 1


@damage("secret-token-twice", "tokens", restored=True)
def token_twice(model: Model) -> None:
    model.tokens.append(model.tokens[0])
    model.secret_header.numTokens += 1


@damage("secret-token-key", "tokens", restored=True)
def token_without_key(model: Model) -> None:
    token = pb.PersistToken()
    token.CopyFrom(model.tokens[0])
    used = {token.sequenceNumber for token in model.tokens}
    free = min(set(range(model.secret_header.tokenSequenceNumber)) - used)
    token.sequenceNumber, token.masterKeyId = free, 4000
    model.tokens.append(token)
    model.secret_header.numTokens += 1


@damage("secret-counter", "tokens")
def token_counter(model: Model) -> None:
    model.secret_header.tokenSequenceNumber = 0
    model.secret_header.currentId = 0


@damage("cache-count", "cache", restored=True)
def pool_count(model: Model) -> None:
    model.cache_header.numPools += 1


@damage("cache-pool-twice", "cache", restored=True)
def pool_twice(model: Model) -> None:
    model.pools.append(model.pools[0])
    model.cache_header.numPools += 1


@damage("cache-directive-pool", "cache", restored=True)
def directive_without_pool(model: Model) -> None:
    model.directives.append(pb.CacheDirectiveInfoProto(id=0, pool="none"))
    model.cache_header.numDirectives += 1


@damage("cache-directive-twice", "cache", restored=True)
def directive_twice(model: Model) -> None:
    model.directives.append(model.directives[0])
    model.cache_header.numDirectives += 1


@damage("cache-next-id", "cache")
def next_directive_id(model: Model) -> None:
    model.cache_header.nextDirectiveId = 1


@damage("ec-twice", "ec", restored=True)
def policy_twice(model: Model) -> None:
    assert model.policies is not None
    model.policies.policies.append(model.policies.policies[0])
