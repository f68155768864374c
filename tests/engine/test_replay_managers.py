"""Replay of operations outside the tree, and the registry of replay functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ReplayError, UnsupportedOperationError
from image_format.proto import fsimage_pb2 as pb
from journal import ops
from journal.errors import TransactionGapError
from journal.ops import CacheDirectiveInfo, CachePoolInfo, DelegationKey, DelegationTokenIdent
from tests.engine.image_builder import (
    HADOOP2,
    HADOOP3,
    LAYOUTS,
    UNLIMITED,
    ImageBuilder,
    Saved,
    delimited,
    merge_bytes,
    merged,
    messages,
    store,
)
from tests.engine.op_makers import delete, mkdir

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def test_operation_without_a_replay_function_is_an_error(tmp_path: Path) -> None:
    class FutureOp(ops.EditOp):
        name = "OP_FUTURE"

    with pytest.raises(UnsupportedOperationError, match="OP_FUTURE at txid 101") as caught:
        merged(ImageBuilder().save(tmp_path), FutureOp())
    assert caught.value.exit_code == 5


def test_txids_must_be_consecutive(tmp_path: Path) -> None:
    from engine.merge import load_image
    from engine.replay import replay
    from image_format.reader import ImageFile

    with ImageFile.open(ImageBuilder().save(tmp_path)) as image:
        namespace = load_image(image).namespace
        with pytest.raises(TransactionGapError):
            replay(namespace, [ops.StartLogSegmentOp(txid=102)])
        assert replay(namespace, [ops.StartLogSegmentOp(txid=101), ops.EndLogSegmentOp(txid=102)]) == 2
        assert namespace.last_txid == 102


# ---- tokens ------------------------------------------------------------------------------------------------

KEY = DelegationKey(key_id=4, expiry_date=99, key=b"secret")
TOKEN = DelegationTokenIdent(
    owner="o", renewer="r", real_user="", issue_date=1, max_date=2, sequence_number=8, master_key_id=4
)


def secrets(image: Saved) -> tuple[pb.SecretManagerSection, list[pb.DelegationKey], list[pb.PersistToken]]:
    section = image.sections["SECRET_MANAGER"]
    header = next(messages(section, [pb.SecretManagerSection]))
    kinds = [pb.SecretManagerSection, *[pb.DelegationKey] * header.numKeys, *[pb.PersistToken] * header.numTokens]
    found = list(messages(section, kinds))
    split = 1 + header.numKeys
    return header, found[1:split], found[split:]  # type: ignore[return-value]


@layouts
def test_delegation_keys_and_tokens(tmp_path: Path, layout: int) -> None:
    source = ImageBuilder(layout).save(tmp_path)
    known = [ops.UpdateMasterKeyOp(key=KEY), ops.GetDelegationTokenOp(token=TOKEN, expiry_time=50)]
    header, keys, tokens = secrets(merged(source, *known))
    assert (header.currentId, header.tokenSequenceNumber) == (4, 8)
    assert [(key.id, key.expiryDate, key.key) for key in keys] == [(4, 99, b"secret")]
    assert [(t.owner, t.realUser, t.maxDate, t.expiryDate, t.masterKeyId) for t in tokens] == [("o", "", 2, 50, 4)]
    renewed = [*known, ops.RenewDelegationTokenOp(token=TOKEN, expiry_time=60)]
    first = store(tmp_path / "1", merge_bytes(source, renewed), 103)
    assert secrets(merged(first))[2][0].expiryDate == 60
    header, keys, tokens = secrets(merged(first, ops.CancelDelegationTokenOp(token=TOKEN)))
    assert (header.tokenSequenceNumber, len(keys), tokens) == (8, 1, [])
    with pytest.raises(ReplayError, match="exists"):
        merged(first, ops.GetDelegationTokenOp(token=TOKEN, expiry_time=1))


def test_unknown_delegation_tokens_are_ignored(tmp_path: Path) -> None:
    source = ImageBuilder().save(tmp_path)
    given = (
        ops.GetDelegationTokenOp(token=TOKEN, expiry_time=50),
        ops.RenewDelegationTokenOp(token=TOKEN, expiry_time=60),
        ops.CancelDelegationTokenOp(token=TOKEN),
    )
    assert merged(source, *given).sections["SECRET_MANAGER"] == merged(source).sections["SECRET_MANAGER"]


def test_an_older_key_does_not_become_the_current_one(tmp_path: Path) -> None:
    image = merged(
        ImageBuilder().save(tmp_path),
        ops.UpdateMasterKeyOp(key=KEY),
        ops.UpdateMasterKeyOp(key=KEY._replace(key_id=3, key=None)),
        ops.UpdateMasterKeyOp(key=KEY._replace(expiry_date=100)),
    )
    header, keys, _ = secrets(image)
    assert header.currentId == 4
    assert [(key.id, key.expiryDate, key.HasField("key")) for key in keys] == [(4, 100, True), (3, 99, False)]


# ---- caches ------------------------------------------------------------------------------------------------


def caches(image: Saved) -> tuple[int, dict[str, pb.CachePoolInfoProto], dict[int, pb.CacheDirectiveInfoProto]]:
    section = image.sections["CACHE_MANAGER"]
    header = next(messages(section, [pb.CacheManagerSection]))
    kinds = [
        pb.CacheManagerSection,
        *[pb.CachePoolInfoProto] * header.numPools,
        *[pb.CacheDirectiveInfoProto] * header.numDirectives,
    ]
    _, *found = messages(section, kinds)
    pools, directives = found[: header.numPools], found[header.numPools :]
    return (
        header.nextDirectiveId,
        {pool.poolName: pool for pool in pools},  # type: ignore[attr-defined]
        {directive.id: directive for directive in directives},  # type: ignore[attr-defined]
    )


DIRECTIVE = CacheDirectiveInfo(id=3, path="/d", replication=2, pool="p", expiration=77)


@layouts
def test_cache_pools(tmp_path: Path, layout: int) -> None:
    source = ImageBuilder(layout).save(tmp_path)
    bare = ops.AddCachePoolOp(pool=CachePoolInfo(pool_name="p"))
    pool = caches(merged(source, bare))[1]["p"]
    assert (pool.mode, pool.limit, pool.HasField("ownerName")) == (0o755, UNLIMITED, False)
    assert (pool.maxRelativeExpiry == UNLIMITED // 4) == (layout == HADOOP3)
    change = CachePoolInfo(pool_name="p", owner_name="o", limit=5, max_relative_expiry=6)
    pool = caches(merged(source, bare, ops.ModifyCachePoolOp(pool=change)))[1]["p"]
    assert (pool.ownerName, pool.mode, pool.limit) == ("o", 0o755, 5)
    assert pool.HasField("maxRelativeExpiry") == (layout == HADOOP3)
    for wrong in (bare, ops.RemoveCachePoolOp(pool_name="none"), ops.ModifyCachePoolOp(pool=CachePoolInfo("none"))):
        with pytest.raises(ReplayError):
            merged(source, bare, type(wrong)(**{f.name: getattr(wrong, f.name) for f in wrong.fields}))


def test_expiry_limits_of_cache_pools_are_kept_in_hadoop_2_10_images(tmp_path: Path) -> None:
    """Hadoop 2.10 has the layout of Hadoop 2.7, whose images lack the field."""
    builder = ImageBuilder(HADOOP2)
    header = pb.CacheManagerSection(nextDirectiveId=1, numPools=1, numDirectives=0)
    builder.sections["CACHE_MANAGER"] = delimited([header, pb.CachePoolInfoProto(poolName="p", maxRelativeExpiry=7)])
    change = CachePoolInfo(pool_name="p", max_relative_expiry=6)
    added = [CachePoolInfo("q", max_relative_expiry=5), CachePoolInfo("r")]
    given = [ops.ModifyCachePoolOp(pool=change), *(ops.AddCachePoolOp(pool=pool) for pool in added)]
    pools = caches(merged(builder.save(tmp_path), *given))[1]
    assert {name: pool.maxRelativeExpiry for name, pool in pools.items()} == {"p": 6, "q": 5, "r": UNLIMITED // 4}


@layouts
def test_lone_surrogates_in_names_of_cache_pools_become_question_marks(tmp_path: Path, layout: int) -> None:
    source = ImageBuilder(layout).save(tmp_path)
    odd, other = "p\ud800", "p?"
    added = [ops.AddCachePoolOp(pool=CachePoolInfo(odd)), ops.ModifyCachePoolOp(pool=CachePoolInfo(odd, limit=5))]
    directive = ops.AddCacheDirectiveOp(directive=DIRECTIVE._replace(pool=odd))
    _, pools, directives = caches(merged(source, *added, directive))
    assert (pools[other].limit, directives[3].pool) == (5, other)
    assert caches(merged(source, *added, directive, ops.RemoveCachePoolOp(pool_name=odd)))[1:] == ({}, {})
    with pytest.raises(ReplayError, match="does not exist"):
        merged(source, *added, ops.RemoveCachePoolOp(pool_name=other))
    for names in ((odd, other), (other, odd), (odd, "p\udfff")):
        with pytest.raises(ReplayError, match="two cache pools that are both saved as p"):
            merged(source, *(ops.AddCachePoolOp(pool=CachePoolInfo(name)) for name in names))


@layouts
def test_cache_directives(tmp_path: Path, layout: int) -> None:
    source = ImageBuilder(layout).save(tmp_path)
    pools = [ops.AddCachePoolOp(pool=CachePoolInfo(pool_name=name)) for name in ("q", "p")]
    first = store(tmp_path / "1", merge_bytes(source, [*pools, ops.AddCacheDirectiveOp(directive=DIRECTIVE)]), 103)
    following, found, directives = caches(merged(first))
    assert (following, list(found), list(directives)) == (4, ["p", "q"], [3])
    assert (directives[3].path, directives[3].expiration.millis, directives[3].expiration.isRelative) == (
        "/d",
        77,
        False,
    )
    change = ops.ModifyCacheDirectiveOp(directive=CacheDirectiveInfo(id=3, replication=9, pool="q"))
    directive = caches(merged(first, change))[2][3]
    assert (directive.replication, directive.pool, directive.path) == (9, "q", "/d")
    following, found, directives = caches(merged(first, ops.RemoveCacheDirectiveOp(id=3)))
    assert (following, len(found), directives) == (4, 2, {})
    _, found, directives = caches(merged(first, ops.RemoveCachePoolOp(pool_name="p")))
    assert (list(found), directives) == (["q"], {})
    for wrong in (
        ops.AddCacheDirectiveOp(directive=DIRECTIVE._replace(id=8, pool="none")),
        ops.ModifyCacheDirectiveOp(directive=DIRECTIVE._replace(id=8)),
        ops.RemoveCacheDirectiveOp(id=8),
    ):
        with pytest.raises(ReplayError):
            merged(first, wrong)


@layouts
@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/a//b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/a/b/..", "/a"),
        ("/..", "/.."),
        ("rel", ""),
        ("//host", ""),
        ("", ""),
    ],
)
def test_paths_of_cache_directives_are_normalized_as_in_java(tmp_path: Path, layout: int, path: str, kept: str) -> None:
    source = ImageBuilder(layout).save(tmp_path)
    given = [
        ops.AddCachePoolOp(pool=CachePoolInfo(pool_name="p")),
        ops.AddCacheDirectiveOp(directive=DIRECTIVE._replace(path=path)),
    ]
    if not kept:
        with pytest.raises(ReplayError):
            merged(source, *given)
        return
    assert caches(merged(source, *given))[2][3].path == kept


# ---- erasure coding, upgrades ------------------------------------------------------------------------------


def policies(image: Saved) -> dict[int, pb.ErasureCodingPolicyProto]:
    return {p.id: p for p in image.first("ERASURE_CODING", pb.ErasureCodingSection).policies}


def policy(codec: str, cell_size: int = 65536, data: int = 4) -> ops.AddErasureCodingPolicyOp:
    return ops.AddErasureCodingPolicyOp(
        codec_name=codec, data_units=data, parity_units=2, cell_size=cell_size, extra_options=(("k", "v"),)
    )


def test_erasure_coding_policies(tmp_path: Path) -> None:
    source = ImageBuilder(HADOOP3).save(tmp_path)
    given = [policy("rs"), policy("rs"), policy("xor"), ops.EnableErasureCodingPolicyOp(policy_name="RS-6-3-1024k")]
    image = merged(source, *given)
    found = policies(image)
    assert {number: p.name for number, p in found.items() if number > 63} == {64: "RS-4-2-64k", 65: "XOR-4-2-64k"}
    assert (found[1].state, found[64].state) == (pb.ENABLED, pb.DISABLED)
    assert (found[64].schema.codecName, found[64].schema.options[0].key, found[64].cellSize) == ("rs", "k", 65536)
    system = ops.AddErasureCodingPolicyOp(codec_name="rs", data_units=6, parity_units=3, cell_size=1 << 20)
    assert len(policies(merged(source, system))) == 5
    gone = [policy("rs"), ops.RemoveErasureCodingPolicyOp(policy_name="RS-4-2-64k"), policy("xor", data=7)]
    assert {n: p.state for n, p in policies(merged(source, *gone)).items() if n > 63} == {
        64: pb.REMOVED,
        65: pb.DISABLED,
    }
    with pytest.raises(ReplayError, match="built in"):
        merged(source, ops.RemoveErasureCodingPolicyOp(policy_name="RS-6-3-1024k"))
    with pytest.raises(ReplayError, match="does not exist"):
        merged(source, ops.DisableErasureCodingPolicyOp(policy_name="RS-1-1-1k"))
    assert 64 in policies(merged(source, policy("rs", data=14)))
    with pytest.raises(ReplayError, match="txid 101: an erasure coding policy has 17 units"):
        merged(source, policy("rs", data=15))
    for size in (0, -1024, 1025):
        # A NameNode does not load an image with such a policy.
        with pytest.raises(ReplayError, match=f"txid 101: an erasure coding policy has cells of {size} bytes"):
            merged(source, policy("rs", cell_size=size))


def test_built_in_policy_of_a_later_release_is_preserved_or_refused(tmp_path: Path) -> None:
    builder = ImageBuilder(HADOOP3)
    later = pb.ErasureCodingPolicyProto(id=6, state=pb.ENABLED)
    builder.sections["ERASURE_CODING"] = delimited([pb.ErasureCodingSection(policies=[later])])
    source = builder.save(tmp_path)
    assert merged(source, mkdir("/d", 20000)).sections["ERASURE_CODING"] == builder.sections["ERASURE_CODING"]
    with pytest.raises(UnsupportedOperationError, match="policy 6"):
        merged(source, policy("rs"))


@layouts
def test_rolling_upgrades(tmp_path: Path, layout: int) -> None:
    source = ImageBuilder(layout).save(tmp_path)
    image = merged(source, ops.RollingUpgradeStartOp(time=123))
    assert image.info.rollingUpgradeStartTime == 123
    image = merged(source, ops.RollingUpgradeStartOp(time=123), ops.RollingUpgradeFinalizeOp(time=124))
    assert not image.info.HasField("rollingUpgradeStartTime")


@layouts
def test_rolling_upgrade_of_the_image_does_not_prevent_a_later_start(tmp_path: Path, layout: int) -> None:
    builder = ImageBuilder(layout)
    builder.info.rollingUpgradeStartTime = 123
    image = merged(builder.save(tmp_path), ops.RollingUpgradeStartOp(time=125))
    assert image.info.rollingUpgradeStartTime == 125


# ---- snapshottable directories -----------------------------------------------------------------------------


def snapshottable(image: Saved) -> list[int]:
    return list(image.first("SNAPSHOT", pb.SnapshotSection).snapshottableDir)


@layouts
def test_allow_and_disallow_snapshot(tmp_path: Path, layout: int) -> None:
    builder = ImageBuilder(layout)
    for path in ("/a", "/b"):
        builder.directory(path)
    source = builder.save(tmp_path)
    allow = [ops.AllowSnapshotOp(snapshot_root=path) for path in ("/b", "/a", "/b")]
    b, a = builder.inodes["/b"].id, builder.inodes["/a"].id
    assert snapshottable(merged(source, *allow)) == [b, a]
    assert snapshottable(merged(source, *allow, ops.DisallowSnapshotOp(snapshot_root="/b"))) == [a]
    assert snapshottable(merged(source, *allow, delete("/a"))) == [b]
    assert snapshottable(merged(source, ops.DisallowSnapshotOp(snapshot_root="/b"))) == []
    builder.file("/f")
    with pytest.raises(ReplayError, match="not a directory"):
        merged(builder.save(tmp_path / "f"), ops.AllowSnapshotOp(snapshot_root="/f"))


@pytest.mark.parametrize("layout", [HADOOP2, HADOOP3])
@pytest.mark.parametrize("touched", [False, True])
def test_deletion_removes_snapshottable_marks_and_empty_diff_lists(tmp_path: Path, layout: int, touched: bool) -> None:
    """Empty directories and files far below would otherwise not be read; dangling ids stop a NameNode."""
    builder = ImageBuilder(layout)
    for path in ("/t", "/t/mid", "/t/mid/empty", "/stays"):
        builder.directory(path)
    builder.file("/t/mid/f")
    ids = {path: inode.id for path, inode in builder.inodes.items()}
    marked = [ids["/stays"], ids["/t/mid/empty"]]
    builder.sections["SNAPSHOT"] = delimited(
        [pb.SnapshotSection(snapshotCounter=1, snapshottableDir=marked, numSnapshots=0)]
    )
    kinds = {"/": 2, "/t/mid/f": 1, "/stays": 2, "/t/mid/empty": 2}
    entries = [pb.DiffEntry(type=kind, inodeId=ids[path], numOfDiff=0) for path, kind in kinds.items()]  # type: ignore[arg-type]
    builder.sections["SNAPSHOT_DIFF"] = delimited(entries)
    source = builder.save(tmp_path)
    touch = [mkdir("/t/mid/empty/x", 20000)] if touched else []
    image = merged(source, *touch, delete("/t"))
    assert snapshottable(image) == [ids["/stays"]]
    assert image.sections["SNAPSHOT_DIFF"] == delimited([entries[0], entries[2]])
    assert merged(source, delete("/stays")).sections["SNAPSHOT_DIFF"] == delimited([*entries[:2], entries[3]])


@pytest.mark.parametrize(
    "op",
    [
        policy("rs"),
        ops.EnableErasureCodingPolicyOp(policy_name="RS-6-3-1024k"),
        ops.DisableErasureCodingPolicyOp(policy_name="RS-6-3-1024k"),
        ops.RemoveErasureCodingPolicyOp(policy_name="RS-6-3-1024k"),
    ],
    ids=lambda op: op.name,
)
def test_erasure_coding_is_refused_in_a_hadoop_2_image(tmp_path: Path, op: ops.EditOp) -> None:
    source = ImageBuilder(HADOOP2).save(tmp_path)
    text = "an erasure coding policy requires layout version -64 or newer; the image has layout version -63"
    with pytest.raises(UnsupportedOperationError, match=text) as reported:
        merged(source, op)
    assert (reported.value.exit_code, "of one cluster" in reported.value.hint) == (5, False)
