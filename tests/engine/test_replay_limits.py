"""Operations that clients never cause: replay accepts and refuses the same operations as a NameNode.

Each expected result is the result of a Hadoop 2.7.3 NameNode; `tests/interop/test_crafted.py` contains many more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ReplayError, UnsupportedNamespaceError, UnsupportedOperationError
from image_format.proto import fsimage_pb2 as pb
from journal import ops
from journal.ops import AclEntry, CachePoolInfo, DelegationKey, DelegationTokenIdent, EditOp, PermissionStatus, XAttr
from tests.engine.image_builder import HADOOP2, LAYOUTS, ImageBuilder, merged
from tests.engine.op_makers import add, close, mkdir, rename, rename_old, set_permissions, times
from tests.engine.snapshot_support import allow, create, retitle

NEW = 20_000
LARGEST = (1 << 63) - 1
USER, GROUP, MASK, OTHER = range(4)
ACCESS, DEFAULT = range(2)
RAM_DISK, SSD, DISK, ARCHIVE, PROVIDED, NVDIMM = range(6)

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def small(layout: int = HADOOP2) -> ImageBuilder:
    image = ImageBuilder(layout)
    image.directory("/d")
    image.file("/d/f", blocks=[(1, 128, 1001)])
    image.file("/d/g", blocks=[(2, 64, 1002)])
    image.file("/d/open", open_by="client")
    image.directory("/e")
    image.symlink("/d/l", "/d/f")
    return image


def upgrade(time: int) -> EditOp:
    return ops.RollingUpgradeStartOp(time=time)


def token(number: int) -> EditOp:
    ident = DelegationTokenIdent("eve", "yarn", "", 5000, LARGEST // 2, number, 1)
    return ops.GetDelegationTokenOp(token=ident, expiry_time=LARGEST // 2)


def master_key(material: bytes | None) -> EditOp:
    return ops.UpdateMasterKeyOp(key=DelegationKey(1, LARGEST // 2, material))


def acl(path: str, *entries: AclEntry) -> EditOp:
    return ops.SetAclOp(src=path, acl_entries=entries)


def policy(path: str, number: int) -> EditOp:
    return ops.SetStoragePolicyOp(path=path, policy_id=number)


def type_quota(kind: int, quota: int, path: str = "/d") -> EditOp:
    return ops.SetQuotaByStorageTypeOp(src=path, storage_type=kind, ds_quota=quota)


def concat(*sources: str) -> EditOp:
    return ops.ConcatDeleteOp(trg="/d/f", srcs=sources, timestamp=7000)


ENTRIES = (AclEntry(USER, ACCESS, 7), AclEntry(GROUP, ACCESS, 5), AclEntry(OTHER, ACCESS, 1))

REFUSED = {
    "a link's mode": [set_permissions("/d/l", 0o700)],
    "a link's times": [times("/d/l", 1, 1)],
    "a link's replication": [ops.SetReplicationOp(path="/d/l", replication=2)],
    "a negative quota": [ops.SetQuotaOp(src="/d", ns_quota=-5, ds_quota=LARGEST)],
    "a negative quota on space": [ops.SetQuotaOp(src="/d", ns_quota=LARGEST, ds_quota=-2)],
    "a negative quota of a type": [type_quota(SSD, -5)],
    "LAZY_PERSIST for a file": [policy("/d/f", 15)],
    "another policy after LAZY_PERSIST": [add("/n", NEW, storage_policy_id=15), policy("/n", 7)],
    "an unknown policy": [policy("/d/f", 3)],
    "a negative policy of a directory": [policy("/d", -1)],
    "a directory's policy above 15": [policy("/d", 16)],
    "a second rolling upgrade": [upgrade(1), upgrade(2)],
    ".snapshot as a directory": [mkdir("/d/.snapshot", NEW)],
    ".snapshot as a file": [add("/d/.snapshot", NEW)],
    ".snapshot by a rename": [rename("/d/f", "/e/.snapshot")],
    ".snapshot by the old rename": [rename_old("/d/f", "/e/.snapshot")],
    ".reserved in the root": [mkdir("/.reserved", NEW)],
    "blocks too large": [add("/n", NEW, block_size=1 << 48)],
    "a negative block size": [add("/n", NEW, block_size=-1)],
    "a block of negative length": [close("/d/open", blocks=(ops.Block(5, -1, 1005),))],
    "an ACL of two entries": [acl("/d", *ENTRIES[:2])],
    "an ACL without the owner's entries": [acl("/d", *(e._replace(scope=DEFAULT) for e in (*ENTRIES, ENTRIES[0])))],
    "an attribute twice": [ops.SetXAttrOp(src="/d", xattrs=(XAttr(0, "a", b"1"), XAttr(0, "a", b"2")))],
    "a link to its target": [rename("/d/l", "/d/f", overwrite=True)],
    "a key without material": [master_key(b"key"), token(1), master_key(None)],
    "a token of a key without material": [master_key(None), token(1)],
    "a pool without a name": [ops.AddCachePoolOp(pool=CachePoolInfo("", "eve", "staff"))],
    "a pool with a negative limit": [ops.AddCachePoolOp(pool=CachePoolInfo("p", "eve", "staff", limit=-1))],
    "a snapshottable directory that moves": [allow("/d"), create("s", "/d"), rename_old("/d", "/none/x")],
}


@layouts
@pytest.mark.parametrize("edits", REFUSED.values(), ids=REFUSED)
def test_edit_that_a_namenode_refuses_is_refused(tmp_path: Path, layout: int, edits: list[EditOp]) -> None:
    with pytest.raises(ReplayError, match=f"at txid {100 + len(edits)}: "):
        merged(small(layout).save(tmp_path), *edits)


IGNORED = {
    "replication of a directory": ops.SetReplicationOp(path="/d", replication=2),
    "replication of nothing": ops.SetReplicationOp(path="/none", replication=2),
    "no times": times("/d", -1, -1),
    "no attributes": ops.SetXAttrOp(src="/d", xattrs=()),
    "the old rename of a link to its target": rename_old("/d/l", "/d/f"),
}


@layouts
@pytest.mark.parametrize("op", IGNORED.values(), ids=IGNORED)
def test_edit_that_a_namenode_ignores_is_ignored(tmp_path: Path, layout: int, op: EditOp) -> None:
    source = small(layout).save(tmp_path)
    assert merged(source, op).sections["INODE"] == merged(source, ops.StartLogSegmentOp()).sections["INODE"]


@layouts
def test_negative_key_id_does_not_become_the_current_one(tmp_path: Path, layout: int) -> None:
    key = ops.UpdateMasterKeyOp(key=DelegationKey(-1, LARGEST, b"key"))
    section = merged(small(layout).save(tmp_path), master_key(b"key"), key).first(
        "SECRET_MANAGER", pb.SecretManagerSection
    )
    assert (section.currentId, section.numKeys) == (1, 2)


@layouts
def test_mode_bits_above_01777_are_dropped(tmp_path: Path, layout: int) -> None:
    odd = PermissionStatus("hdfs", "supergroup", 0o177777)
    image = merged(
        small(layout).save(tmp_path),
        mkdir("/n", NEW, permissions=odd),
        add("/n/f", NEW + 1, permissions=odd._replace(mode=0o4755)),
        set_permissions("/d", 0o2750),
        ops.AddCachePoolOp(pool=CachePoolInfo("p", "eve", "staff", 0o7777)),
    )
    assert [image.owner(path)[2] for path in ("/n", "/n/f", "/d")] == [0o1777, 0o755, 0o750]


@layouts
def test_a_block_size_of_0_becomes_1(tmp_path: Path, layout: int) -> None:
    image = merged(small(layout).save(tmp_path), add("/n", NEW, block_size=0), add("/m", NEW + 1, block_size=1))
    assert [image[path].file.preferredBlockSize for path in ("/n", "/m")] == [1, 1]


@layouts
def test_ram_disk_quota_is_not_saved(tmp_path: Path, layout: int) -> None:
    quotas = merged(small(layout).save(tmp_path), type_quota(RAM_DISK, 5))["/d"].directory
    assert quotas.HasField("typeQuotas")
    assert list(quotas.typeQuotas.quotas) == []


@pytest.mark.parametrize(
    ("layout", "op"),
    [
        (HADOOP2, type_quota(PROVIDED, 5)),
        (HADOOP2, policy("/d/f", 1)),
        (HADOOP2, policy("/d", 1)),
        (HADOOP2, ops.AllocateBlockIdOp(block_id=-16)),
        (-66, type_quota(NVDIMM, 5)),
        (-66, policy("/d/f", 14)),
        (-66, policy("/d", 14)),
    ],
)
def test_values_that_the_layout_cannot_store_are_refused(tmp_path: Path, layout: int, op: EditOp) -> None:
    with pytest.raises(
        UnsupportedOperationError, match=f"at txid 101 .* the image has layout version {layout}"
    ) as reported:
        merged(small(layout).save(tmp_path), op)
    assert "`--layout`" in reported.value.hint


def test_new_file_with_a_storage_policy_newer_than_the_layout_is_refused(tmp_path: Path) -> None:
    source = small(-66).save(tmp_path)
    with pytest.raises(UnsupportedNamespaceError, match="storage policy 14 requires layout version"):
        merged(source, add("/n", NEW, storage_policy_id=14))


def test_existing_file_keeps_a_storage_policy_newer_than_the_layout(tmp_path: Path) -> None:
    """A Hadoop 3 NameNode loads an image that contains this file."""
    builder = small(-66)
    builder.inodes["/d/f"].file.storagePolicyID = 14
    image = merged(builder.save(tmp_path), times("/d/f", 777, 888))
    assert (image["/d/f"].file.storagePolicyID, image["/d/f"].file.modificationTime) == (14, 777)
    with pytest.raises(UnsupportedNamespaceError, match="storage policy 14"):
        merged(builder.save(tmp_path), times("/d/f", 777, 888), add("/n", NEW, storage_policy_id=14))


def test_unknown_storage_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="at txid 101"):
        merged(small(-67).save(tmp_path), type_quota(NVDIMM + 1, 5))
    known = [type_quota(PROVIDED, 5), type_quota(NVDIMM, 5), policy("/d/f", 14), policy("/d", 1)]
    merged(small(-67).save(tmp_path), *known)


@layouts
def test_set_quota_without_a_type_quota_uses_the_space_quota(tmp_path: Path, layout: int) -> None:
    edits = [ops.SetQuotaOp(src="/d", ns_quota=-1, ds_quota=77), type_quota(SSD, LARGEST)]
    found = merged(small(layout).save(tmp_path), *edits)["/d"].directory.typeQuotas.quotas
    assert [(each.storageType, each.quota) for each in found] == [(pb.SSD, 77)]


@layouts
def test_concat_of_the_same_source_twice_appends_it_twice(tmp_path: Path, layout: int) -> None:
    image = merged(small(layout).save(tmp_path), concat("/d/g", "/d/g"))
    assert image.blocks("/d/f") == [(1, 128, 1001), (2, 64, 1002), (2, 64, 1002)]
    assert "/d/g" not in image


@layouts
def test_acl_of_three_entries_sets_the_mode_whatever_their_scope(tmp_path: Path, layout: int) -> None:
    image = merged(small(layout).save(tmp_path), acl("/d", *(entry._replace(scope=DEFAULT) for entry in ENTRIES)))
    assert image.owner("/d")[2] == 0o751
    assert image.acl("/d") == []


@layouts
def test_entries_after_the_first_default_entry_stay_in_the_acl(tmp_path: Path, layout: int) -> None:
    late = AclEntry(USER, ACCESS, 3, "eve")
    image = merged(small(layout).save(tmp_path), acl("/d", *ENTRIES, AclEntry(USER, DEFAULT, 6), late))
    assert image.owner("/d")[2] == 0o751
    assert image.acl("/d") == [(USER, DEFAULT, 6, ""), (USER, ACCESS, 3, "eve")]


def test_snapshots_may_have_reserved_names(tmp_path: Path) -> None:
    source = small().save(tmp_path)
    image = merged(source, allow("/d"), create(".snapshot", "/d"), create("t", "/d"), retitle("t", ".reserved", "/d"))
    assert image.first("SNAPSHOT", pb.SnapshotSection).numSnapshots == 2
