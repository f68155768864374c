"""Replay of the operations on attributes: owner, mode, times, quotas, policies, ACLs and xattrs."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ReplayError
from image_format.proto import fsimage_pb2 as pb
from journal import ops
from journal.ops import AclEntry, PermissionStatus, XAttr
from tests.engine.image_builder import (
    HADOOP2,
    HADOOP3,
    LAYOUTS,
    OWNER,
    ROOT,
    UINT64,
    UNLIMITED,
    ImageBuilder,
    merge_bytes,
    merged,
    store,
)
from tests.engine.op_makers import LATER, add, delete, mkdir, set_permissions, times

NEW = 20000
NONE = UINT64
USER, GROUP, MASK, OTHER = range(4)
ACCESS, DEFAULT = range(2)
RAM_DISK, SSD, DISK, ARCHIVE, PROVIDED, NVDIMM = range(6)

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def small(layout: int = HADOOP2) -> ImageBuilder:
    image = ImageBuilder(layout)
    image.directory("/d")
    image.file("/d/f")
    image.symlink("/d/l", "f")
    return image


# ---- owner, mode, times ------------------------------------------------------------------------------------


@layouts
def test_set_permissions_and_owner(tmp_path: Path, layout: int) -> None:
    image = merged(
        small(layout).save(tmp_path),
        set_permissions("/d", 0o1770),
        ops.SetOwnerOp(src="/d/f", username="alice"),
        ops.SetOwnerOp(src="/d", groupname="staff"),
        ops.SetOwnerOp(src="/", username="supergroup", groupname="hdfs"),
    )
    assert image.status(image["/d"].directory.permission) == PermissionStatus("hdfs", "staff", 0o1770)
    assert image.status(image["/d/f"].file.permission) == PermissionStatus("alice", "supergroup", 0o755)
    assert image.status(image["/"].directory.permission) == PermissionStatus("supergroup", "hdfs", 0o755)
    assert image.mtime("/d") == 1000


@layouts
def test_names_are_added_to_the_string_table_once(tmp_path: Path, layout: int) -> None:
    source = small(layout).save(tmp_path)
    known = merged(source).strings
    image = merged(
        source, *(ops.SetOwnerOp(src="/d/f", username=f"u{i % 5}", groupname=f"u{i % 5}") for i in range(20))
    )
    added = {number: text for number, text in image.strings.items() if number not in known}
    assert sorted(added.values()) == sorted([f"u{i}" for i in range(5)] * (1 if layout == HADOOP2 else 2))
    assert {number: image.strings[number] for number in known} == known
    if layout == HADOOP2:
        assert sorted(image.strings) == list(range(1, len(image.strings) + 1))


@layouts
def test_modification_and_access_times(tmp_path: Path, layout: int) -> None:
    image = merged(
        small(layout).save(tmp_path), times("/d/f", mtime=7), times("/d/f", atime=8), times("/d", mtime=3, atime=9)
    )
    assert (image["/d/f"].file.modificationTime, image["/d/f"].file.accessTime) == (7, 8)
    assert image.mtime("/d") == 3


@pytest.mark.parametrize(("layout", "applies"), [(HADOOP2, True), (-64, True), (-65, True), (-66, False)])
def test_negative_times_are_applied_up_to_hadoop_3_2(tmp_path: Path, layout: int, applies: bool) -> None:
    def changed(*edits: ops.EditOp) -> tuple[int, int]:
        file = merged(source, *edits)["/d/f"].file
        return file.modificationTime, file.accessTime

    source = small(layout).save(tmp_path)
    mtime, atime = (UINT64 - 4, UINT64 - 1) if applies else (1000, 1000)
    assert changed(times("/d/f", mtime=-5), times("/d/f", atime=-2)) == (mtime, atime)
    assert changed(times("/d/f", mtime=7, atime=-2)) == (7, atime)


# ---- quotas ------------------------------------------------------------------------------------------------


def quotas(inode: pb.INode) -> tuple[int, int, dict[int, int]]:
    found = inode.directory
    return found.nsQuota, found.dsQuota, {q.storageType: q.quota for q in found.typeQuotas.quotas}


def set_quota(ns_quota: int, ds_quota: int, path: str = "/d") -> ops.SetQuotaOp:
    return ops.SetQuotaOp(src=path, ns_quota=ns_quota, ds_quota=ds_quota)


@layouts
def test_quotas_are_set_preserved_and_reset(tmp_path: Path, layout: int) -> None:
    source = small(layout).save(tmp_path)
    assert quotas(merged(source, set_quota(10, 20))["/d"]) == (10, 20, {})
    assert quotas(merged(source, set_quota(10, 20), set_quota(UNLIMITED, 30))["/d"]) == (10, 30, {})
    assert quotas(merged(source, set_quota(10, 20), set_quota(11, UNLIMITED))["/d"]) == (11, 20, {})
    assert quotas(merged(source, set_quota(10, 20), set_quota(-1, -1))["/d"]) == (NONE, NONE, {})
    assert quotas(merged(source, ops.SetNsQuotaOp(src="/d", ns_quota=5))["/d"]) == (5, NONE, {})
    assert quotas(merged(source, set_quota(10, 20), ops.ClearNsQuotaOp(src="/d"))["/d"]) == (NONE, 20, {})


def test_root_always_has_a_namespace_quota(tmp_path: Path) -> None:
    three = small(HADOOP3).save(tmp_path / "3")
    assert quotas(merged(three, set_quota(100, 7, "/"), set_quota(-1, -1, "/"))["/"]) == (UNLIMITED, NONE, {})
    two = small(HADOOP2).save(tmp_path / "2")
    assert quotas(merged(two, set_quota(100, 7, "/"))["/"]) == (100, 7, {})
    with pytest.raises(ReplayError, match="root"):
        merged(two, set_quota(-1, -1, "/"))


def type_quota(kind: int, quota: int) -> ops.SetQuotaByStorageTypeOp:
    return ops.SetQuotaByStorageTypeOp(src="/d", storage_type=kind, ds_quota=quota)


@layouts
def test_quotas_by_storage_type(tmp_path: Path, layout: int) -> None:
    source = small(layout).save(tmp_path)
    given = [type_quota(kind, 10 + kind) for kind in (SSD, DISK, ARCHIVE)]
    image = merged(source, *given)
    assert quotas(image["/d"]) == (NONE, NONE, {pb.SSD: 11, pb.DISK: 12, pb.ARCHIVE: 13})
    image = merged(source, *given, type_quota(DISK, -1), type_quota(SSD, 0))
    assert quotas(image["/d"])[2] == {pb.SSD: 0, pb.ARCHIVE: 13}
    image = merged(source, *given, *(type_quota(kind, -1) for kind in (SSD, DISK, ARCHIVE)))
    assert not image["/d"].directory.HasField("typeQuotas")
    with pytest.raises(ReplayError, match="storage type 9"):
        merged(source, type_quota(9, 1))


@layouts
def test_namespace_quota_is_unlimited_in_a_loaded_directory_with_type_quotas(tmp_path: Path, layout: int) -> None:
    """Hadoop's loader makes the quota unlimited even if no edit affects the directory."""
    builder = small(layout)
    builder.directory("/t").directory.typeQuotas.quotas.add(storageType=pb.SSD, quota=5)
    source = builder.save(tmp_path)
    assert quotas(merged(source)["/t"]) == (UNLIMITED, NONE, {pb.SSD: 5})
    reset = ops.SetQuotaByStorageTypeOp(src="/t", storage_type=SSD, ds_quota=-1)
    assert quotas(merged(source, reset)["/t"]) == (UNLIMITED, NONE, {})


def test_directories_with_type_quotas_are_among_changed_inodes(tmp_path: Path) -> None:
    """The records of unread directories are written at their places between the records of changed inodes."""
    builder = small(-67)
    for number in range(4):
        builder.file(f"/f{number}")
        builder.directory(f"/t{number}").directory.typeQuotas.quotas.add(storageType=pb.SSD, quota=number + 1)
        builder.file(f"/g{number}")
    # record order differs from id order, and from the order of the edits
    builder.order = lambda inode: -inode.id
    numbers = (2, 0, 3)
    changes = [set_permissions(f"/{kind}{number}", 0o700 + number) for number in numbers for kind in "gf"]
    image = merged(builder.save(tmp_path), *changes, delete("/t1"))
    for number in numbers:
        assert quotas(image[f"/t{number}"]) == (UNLIMITED, NONE, {pb.SSD: number + 1})
        assert [image[f"/{kind}{number}"].file.permission & 0o777 for kind in "fg"] == [0o700 + number] * 2
    assert "/t1" not in image
    assert [image[path].file.permission & 0o777 for path in ("/f1", "/g1")] == [OWNER.mode] * 2


# ---- storage policies, xattrs ------------------------------------------------------------------------------


@layouts
def test_storage_policies_are_set_and_reset(tmp_path: Path, layout: int) -> None:
    source = small(layout).save(tmp_path)
    give = [ops.SetStoragePolicyOp(path=path, policy_id=12) for path in ("/d", "/d/f")]
    image = merged(source, *give)
    assert image["/d/f"].file.storagePolicyID == 12
    assert image.xattrs("/d") == [(3, "hsm.block.storage.policy.id", b"\x0c")]
    image = merged(source, *give, *(ops.SetStoragePolicyOp(path=path, policy_id=0) for path in ("/d", "/d/f")))
    assert image["/d/f"].file.storagePolicyID == 0
    # Hadoop 2.7 stores the default policy as it stores any other policy
    default = [(3, "hsm.block.storage.policy.id", b"\0")] if layout == HADOOP2 else []
    assert image.xattrs("/d") == default


@layouts
def test_new_xattrs_precede_existing_ones(tmp_path: Path, layout: int) -> None:
    source = small(layout).save(tmp_path)
    first = ops.SetXAttrOp(src="/d/f", xattrs=(XAttr(0, "a", b"1"), XAttr(4, "b", b"2"), XAttr(1, "a", b"3")))
    second = ops.SetXAttrOp(src="/d/f", xattrs=(XAttr(0, "z", b""), XAttr(4, "b", b"9")))
    image = merged(source, first, second)
    assert image.xattrs("/d/f") == [(0, "z", b""), (4, "b", b"9"), (0, "a", b"1"), (1, "a", b"3")]
    gone = ops.RemoveXAttrOp(src="/d/f", xattrs=(XAttr(0, "a"), XAttr(3, "z")))
    assert merged(source, first, second, gone).xattrs("/d/f") == [(0, "z", b""), (4, "b", b"9"), (1, "a", b"3")]
    every = ops.RemoveXAttrOp(src="/d/f", xattrs=(XAttr(0, "a"), XAttr(1, "a"), XAttr(4, "b")))
    assert not merged(source, first, every)["/d/f"].file.HasField("xAttrs")


def test_xattrs_are_set_on_a_new_file_but_not_on_a_new_directory(tmp_path: Path) -> None:
    given = (XAttr(2, "capability", b"v"),)
    image = merged(small().save(tmp_path), add("/d/n", NEW, xattrs=given), mkdir("/d/m", NEW + 1, xattrs=given))
    assert image.xattrs("/d/n") == [(2, "capability", b"v")]
    assert image.xattrs("/d/m") == []


# ---- ACLs --------------------------------------------------------------------------------------------------

FULL = (
    AclEntry(USER, ACCESS, 7),
    AclEntry(USER, ACCESS, 6, "bob"),
    AclEntry(GROUP, ACCESS, 5),
    AclEntry(GROUP, ACCESS, 4, "bob"),
    AclEntry(MASK, ACCESS, 3),
    AclEntry(OTHER, ACCESS, 1),
)
MINIMAL = (AclEntry(USER, ACCESS, 6), AclEntry(GROUP, ACCESS, 4), AclEntry(OTHER, ACCESS, 0))
DEFAULTS = (
    AclEntry(USER, DEFAULT, 7),
    AclEntry(USER, DEFAULT, 5, "eve"),
    AclEntry(GROUP, DEFAULT, 6),
    AclEntry(MASK, DEFAULT, 7),
    AclEntry(OTHER, DEFAULT, 4),
)
MINIMAL_DEFAULTS = (DEFAULTS[0], DEFAULTS[2], DEFAULTS[4])


def mode(status: PermissionStatus) -> str:
    return oct(status.mode)


@layouts
def test_acl_feature_holds_only_what_mode_bits_cannot_express(tmp_path: Path, layout: int) -> None:
    source = small(layout).save(tmp_path)
    image = merged(source, set_permissions("/d/f", 0o1000), ops.SetAclOp(src="/d/f", acl_entries=FULL))
    assert image.acl("/d/f") == [(USER, ACCESS, 6, "bob"), (GROUP, ACCESS, 5, ""), (GROUP, ACCESS, 4, "bob")]
    assert mode(image.status(image["/d/f"].file.permission)) == oct(0o1731)
    image = merged(source, ops.SetAclOp(src="/d/f", acl_entries=FULL), ops.SetAclOp(src="/d/f", acl_entries=MINIMAL))
    assert not image["/d/f"].file.HasField("acl")
    assert mode(image.status(image["/d/f"].file.permission)) == oct(0o640)
    image = merged(source, ops.SetAclOp(src="/d", acl_entries=(*MINIMAL, *DEFAULTS)))
    assert image.acl("/d") == [(e.type, e.scope, e.permission, e.name or "") for e in DEFAULTS]
    assert mode(image.status(image["/d"].directory.permission)) == oct(0o640)


@layouts
def test_acl_removal_restores_the_group_bits(tmp_path: Path, layout: int) -> None:
    source = small(layout).save(tmp_path)
    image = merged(source, ops.SetAclOp(src="/d/f", acl_entries=FULL), ops.SetAclOp(src="/d/f"))
    assert not image["/d/f"].file.HasField("acl")
    assert mode(image.status(image["/d/f"].file.permission)) == oct(0o751)
    only_defaults = ops.SetAclOp(src="/d", acl_entries=(*MINIMAL, *DEFAULTS))
    image = merged(source, only_defaults, ops.SetAclOp(src="/d"))
    assert not image["/d"].directory.HasField("acl")
    assert mode(image.status(image["/d"].directory.permission)) == oct(0o640)
    assert merged(source, ops.SetAclOp(src="/d/f"))["/d/f"] == merged(source)["/d/f"]


@layouts
def test_children_inherit_extended_default_acls(tmp_path: Path, layout: int) -> None:
    image = merged(
        small(layout).save(tmp_path),
        ops.SetAclOp(src="/d", acl_entries=(*MINIMAL, *DEFAULTS)),
        mkdir("/d/m", NEW, permissions=OWNER._replace(mode=0o1750)),
        add("/d/n", NEW + 1, permissions=OWNER._replace(mode=0o640)),
        ops.SymlinkOp(path="/d/s", inode_id=NEW + 2, target="x", mtime=1, atime=1, permissions=OWNER),
        mkdir("/d/m/deep", NEW + 3, permissions=OWNER._replace(mode=0o777)),
    )
    named = [(USER, ACCESS, 5, "eve"), (GROUP, ACCESS, 6, "")]
    default = [(e.type, e.scope, e.permission, e.name or "") for e in DEFAULTS]
    assert image.acl("/d/m") == named + default
    assert mode(image.status(image["/d/m"].directory.permission)) == oct(0o1750)
    assert image.acl("/d/n") == named
    assert mode(image.status(image["/d/n"].file.permission)) == oct(0o640)
    assert image.acl("/d/m/deep") == named + default
    assert mode(image.status(image["/d/m/deep"].directory.permission)) == oct(0o774)
    assert mode(image.status(image["/d/s"].symlink.permission)) == oct(0o755)


def test_minimal_default_acl_gives_a_new_file_mode_bits_only(tmp_path: Path) -> None:
    image = merged(
        small().save(tmp_path),
        ops.SetAclOp(src="/d", acl_entries=(*MINIMAL, *MINIMAL_DEFAULTS)),
        add("/d/n", NEW, permissions=OWNER._replace(mode=0o677)),
        mkdir("/d/m", NEW + 1, permissions=OWNER._replace(mode=0o777)),
    )
    assert not image["/d/n"].file.HasField("acl")
    assert mode(image.status(image["/d/n"].file.permission)) == oct(0o664)
    assert image.acl("/d/m") == [(e.type, e.scope, e.permission, "") for e in MINIMAL_DEFAULTS]
    assert mode(image.status(image["/d/m"].directory.permission)) == oct(0o764)


def test_acl_of_the_operation_overrides_the_inherited_acl(tmp_path: Path) -> None:
    image = merged(
        small().save(tmp_path),
        ops.SetAclOp(src="/d", acl_entries=(*MINIMAL, *DEFAULTS)),
        add("/d/n", NEW, acl_entries=FULL),
        mkdir("/d/m", NEW + 1, acl_entries=MINIMAL),
    )
    assert image.acl("/d/n") == [(USER, ACCESS, 6, "bob"), (GROUP, ACCESS, 5, ""), (GROUP, ACCESS, 4, "bob")]
    assert not image["/d/m"].directory.HasField("acl")


def test_moved_inode_inherits_no_acl(tmp_path: Path) -> None:
    builder = small()
    builder.file("/f")
    image = merged(
        builder.save(tmp_path),
        ops.SetAclOp(src="/d", acl_entries=(*MINIMAL, *DEFAULTS)),
        ops.RenameOp(src="/f", dst="/d/moved", timestamp=LATER),
    )
    assert not image["/d/moved"].file.HasField("acl")


@pytest.mark.parametrize(
    "op",
    [
        ops.SetAclOp(src="/d/f", acl_entries=FULL[:2]),
        ops.SetAclOp(src="/d/f", acl_entries=DEFAULTS),
        ops.SetAclOp(src="/d/f", acl_entries=(*MINIMAL, *DEFAULTS)),
        ops.SetAclOp(src="/none", acl_entries=MINIMAL),
        ops.SetStoragePolicyOp(path="/d/f", policy_id=16),
        ops.SetStoragePolicyOp(path="/d/l", policy_id=2),
        ops.SetQuotaOp(src="/d/f", ns_quota=1, ds_quota=1),
        ops.SetOwnerOp(src="/none", username="u"),
        set_permissions("/none", 0),
        times("/none", 1),
        ops.SetXAttrOp(src="/none", xattrs=(XAttr(0, "a", b""),)),
        ops.RemoveXAttrOp(src="/none", xattrs=(XAttr(0, "a"),)),
    ],
)
def test_invalid_operation_is_refused_with_its_txid(tmp_path: Path, op: ops.EditOp) -> None:
    with pytest.raises(ReplayError, match=f"{op.name} at txid 101"):
        merged(small().save(tmp_path), op)


def test_owner_with_string_id_0_is_preserved(tmp_path: Path) -> None:
    builder = small()
    builder.inodes["/d/f"].file.permission = 0o644
    image = merged(builder.save(tmp_path), ops.SetOwnerOp(src="/d/f", groupname="g"))
    permission = image["/d/f"].file.permission
    assert (permission >> 40, permission & 0xFFFF) == (0, 0o644)
    assert image.string(permission >> 16 & 0xFFFFFF, 2) == "g"


@layouts
def test_rare_features_survive_a_second_merge(tmp_path: Path, layout: int) -> None:
    builder = small(layout)
    acl = [builder.acl_entry(USER, ACCESS, 6, "bob"), builder.acl_entry(GROUP, ACCESS, 5)]
    builder.inodes["/d/f"].file.acl.entries.extend(acl)
    builder.inodes["/d/f"].file.xAttrs.xAttrs.add(name=builder.xattr_name(4, "raw"), value=b"\0\1")
    first = store(tmp_path / "1", merge_bytes(builder.save(tmp_path), [set_permissions("/d/f", 0o700)]), 101)
    image = merged(first, times("/d/f", mtime=77), set_permissions("/d", 0o111))
    assert image.acl("/d/f") == [(USER, ACCESS, 6, "bob"), (GROUP, ACCESS, 5, "")]
    assert image.xattrs("/d/f") == [(4, "raw", b"\0\1")]
    assert image.mtime("/d/f") == 77
    assert image["/d/f"].id == ROOT + 2
