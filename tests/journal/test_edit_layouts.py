"""Operations and fields of each layout: generated operations, and each condition alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.layout import NEWEST_LAYOUT
from journal import record_kinds
from journal.binary_codec import decode_op, encode_op
from journal.edits_text import fitting
from journal.errors import OpEncodingError
from journal.ops import (
    OPERATIONS,
    AddOp,
    AppendOp,
    CachePoolInfo,
    CloseOp,
    CreateSnapshotOp,
    DeleteSnapshotOp,
    EnableErasureCodingPolicyOp,
    MkdirOp,
    ModifyCachePoolOp,
    PermissionStatus,
    RenameSnapshotOp,
    SetQuotaByStorageTypeOp,
    SetStoragePolicyOp,
    TruncateOp,
    XAttr,
    by_name,
)
from journal.segment_format import SegmentCursor, decode_header, encode_header
from tests.depth import examples, sample
from tests.journal.journal_support import STRATEGIES, numbered, operations, recorded_segments

LAYOUTS = range(-60, NEWEST_LAYOUT - 1, -1)
PERMISSIONS = PermissionStatus("hdfs", "supergroup", 0o644)

# layout that introduced an operation, from NameNodeLayoutVersion.Feature and LayoutVersion.Feature
OPERATION_SINCE = {
    "OP_SET_XATTR": -57,
    "OP_REMOVE_XATTR": -57,
    "OP_SET_STORAGE_POLICY": -60,
    "OP_TRUNCATE": -61,
    "OP_APPEND": -62,
    "OP_SET_QUOTA_BY_STORAGETYPE": -63,
    "OP_ADD_ERASURE_CODING_POLICY": -64,
    "OP_ENABLE_ERASURE_CODING_POLICY": -64,
    "OP_DISABLE_ERASURE_CODING_POLICY": -64,
    "OP_REMOVE_ERASURE_CODING_POLICY": -64,
}
FIELD_SINCE = {
    ("OP_ADD", "xattrs"): -57,
    ("OP_MKDIR", "xattrs"): -57,
    ("OP_ADD", "overwrite"): -58,
    ("OP_ADD", "storage_policy_id"): -60,
    ("OP_ADD", "erasure_coding_policy_id"): -64,
    ("OP_CREATE_SNAPSHOT", "mtime"): -66,
    ("OP_DELETE_SNAPSHOT", "mtime"): -66,
    ("OP_RENAME_SNAPSHOT", "mtime"): -66,
}

# ordinals of StorageType and ids of storage policies
POLICIES = {0: None, 1: -64, 2: None, 5: None, 7: None, 10: None, 12: None, 14: -67, 15: None}
VALUES_SINCE: dict[tuple[str, str], dict[int, int | None]] = {
    ("OP_SET_QUOTA_BY_STORAGETYPE", "storage_type"): {0: None, 1: None, 2: None, 3: None, 4: -64, 5: -67},
    ("OP_SET_STORAGE_POLICY", "policy_id"): POLICIES,
    ("OP_ADD", "storage_policy_id"): POLICIES,
}


def add(**fields: Any) -> AddOp:
    return AddOp(
        txid=1,
        inode_id=16386,
        path="/f",
        replication=3,
        mtime=1,
        atime=1,
        block_size=128,
        permissions=PERMISSIONS,
        client_name="c",
        client_machine="m",
        **fields,
    )


def body(op: Any, layout_version: int) -> bytes:
    return encode_op(op, layout_version)[13:-4]


@pytest.mark.parametrize("layout_version", LAYOUTS)
@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
@examples(12)
@given(data=st.data())
def test_operations_round_trip_in_every_layout_that_has_them(cls: Any, layout_version: int, data: Any) -> None:
    op = data.draw(operations(cls, layout_version))
    raw = encode_op(op, layout_version)
    assert decode_op(raw, 0, layout_version) == (op, len(raw))
    possible = (
        (since := values.get(getattr(op, name))) is None or layout_version <= since
        for (operation, name), values in VALUES_SINCE.items()
        if operation == op.name
    )
    if op.present_in(layout_version) and all(possible):
        assert list(fitting([op], layout_version)) == [op]
    else:
        with pytest.raises(OpEncodingError, match=cls.name):
            list(fitting([op], layout_version))


@examples(60)
@given(st.sampled_from(LAYOUTS), st.data())
def test_fields_absent_from_a_layout_read_as_defaults(layout_version: int, data: Any) -> None:
    op = data.draw(operations(layout_version=NEWEST_LAYOUT))
    again, _ = decode_op(encode_op(op, layout_version), 0, layout_version)
    for item in op.fields:
        expected = getattr(op, item.name) if item.present_in(layout_version) else item.default
        assert getattr(again, item.name) == expected


@examples(60)
@given(st.sampled_from(LAYOUTS), st.lists(operations(layout_version=-60), min_size=1, max_size=5))
def test_segments_round_trip_in_every_layout(layout_version: int, ops: list[Any]) -> None:
    numbered(ops, 9)
    content = encode_header(layout_version) + b"".join(encode_op(op, layout_version) for op in ops)
    assert decode_header(content) == layout_version
    assert list(SegmentCursor(content, first_txid=9, last_txid=8 + len(ops))) == ops


def test_layout_conditions_of_the_catalogue_are_complete() -> None:
    assert {cls.name: cls.since for cls in OPERATIONS.values() if cls.since is not None} == OPERATION_SINCE
    conditions = {
        (cls.name, item.name): item.since
        for cls in OPERATIONS.values()
        for item in cls.fields
        if item.since is not None
    }
    assert conditions == FIELD_SINCE
    values = {
        (cls.name, item.name): dict(item.values_since)
        for cls in OPERATIONS.values()
        for item in cls.fields
        if item.values_since
    }
    assert values == VALUES_SINCE


@pytest.mark.parametrize(("name", "since"), OPERATION_SINCE.items())
def test_operations_are_absent_before_their_layout(name: str, since: int) -> None:
    cls = by_name(name)
    assert cls.present_in(since)
    assert cls.present_in(NEWEST_LAYOUT)
    assert not cls.present_in(since + 1)


@pytest.mark.recorded
def test_recorded_segments_contain_only_operations_of_their_layout() -> None:
    for path in sample(sorted(recorded_segments()), 60, "segments of each layout"):
        content = path.read_bytes()
        layout_version = decode_header(content)
        for _ in fitting(SegmentCursor(content), layout_version):
            pass


# ---- each condition, on the bytes ----

RPC_NONE = bytes.fromhex("0000 fffffffe")


@pytest.mark.parametrize(
    ("fields", "since", "size"),
    [
        ({"xattrs": (XAttr(0, "a", b"v"),)}, -57, 11),
        ({"overwrite": True}, -58, 1),
        ({"storage_policy_id": 7}, -60, 1),
        ({"erasure_coding_policy_id": 1}, -64, 1),
    ],
)
def test_fields_of_add(fields: dict[str, Any], since: int, size: int) -> None:
    op = add(**fields)
    plain = add()
    assert body(op, since + 1) == body(plain, since + 1)
    assert body(op, since) != body(plain, since)
    # only a layout in which the field exists contains the encoding of an empty field
    grown = len(body(op, since)) - len(body(op, since + 1))
    assert grown == size
    assert decode_op(encode_op(op, since), 0, since)[0] == op
    assert decode_op(encode_op(op, since + 1), 0, since + 1)[0] == plain


def test_last_fields_of_add_in_each_layout() -> None:
    op = add(overwrite=True, storage_policy_id=7, erasure_coding_policy_id=5)
    client = b"\x00\x01c\x00\x01m"
    assert body(op, -57).endswith(client + RPC_NONE)
    assert body(op, -58).endswith(client + b"\x01" + RPC_NONE)
    assert body(op, -60).endswith(client + b"\x01\x07" + RPC_NONE)
    assert body(op, -63).endswith(client + b"\x01\x07" + RPC_NONE)
    assert body(op, -64).endswith(client + b"\x01\x07\x05" + RPC_NONE)
    assert body(op, -67) == body(op, -64)


@pytest.mark.parametrize(
    "op",
    [
        CreateSnapshotOp(txid=1, snapshot_root="/d", snapshot_name="s", mtime=5),
        DeleteSnapshotOp(txid=1, snapshot_root="/d", snapshot_name="s", mtime=5),
        RenameSnapshotOp(txid=1, snapshot_root="/d", snapshot_old_name="s", snapshot_new_name="t", mtime=5),
    ],
    ids=lambda op: op.name,
)
def test_snapshot_times_exist_from_layout_66(op: Any) -> None:
    assert body(op, -65).endswith(b"\x00\x01" + op_last_name(op) + RPC_NONE)
    assert body(op, -66).endswith(b"\x00\x01" + op_last_name(op) + (5).to_bytes(8, "big") + RPC_NONE)
    assert decode_op(encode_op(op, -65), 0, -65)[0].mtime == 0
    assert decode_op(encode_op(op, -66), 0, -66)[0] == op
    assert list(fitting([op], -66)) == [op]
    with pytest.raises(OpEncodingError, match="mtime") as caught:
        list(fitting([op], -65))
    assert caught.value.txid == 1
    assert caught.value.hint


def op_last_name(op: Any) -> bytes:
    return str(getattr(op, "snapshot_new_name", None) or op.snapshot_name).encode()


@pytest.mark.parametrize(
    ("op", "raw"),
    [
        (SetStoragePolicyOp(txid=1, path="/f", policy_id=12), "0002 2f66 0c"),
        (
            TruncateOp(txid=1, src="/f", client_name="c", client_machine="m", new_length=3, timestamp=4),
            "0002 2f66 0001 63 0001 6d 0000000000000003 0000000000000004 00",
        ),
        (
            AppendOp(txid=1, path="/f", client_name="c", client_machine="m", new_block=True),
            "0002 2f66 0001 63 0001 6d 01 0000 fffffffe",
        ),
        (SetQuotaByStorageTypeOp(txid=1, src="/d", storage_type=1, ds_quota=9), "0002 2f64 00000001 0000000000000009"),
        (EnableErasureCodingPolicyOp(txid=1, policy_name="p"), "0001 70 0000 fffffffe"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_operations_added_by_a_layout(op: Any, raw: str) -> None:
    for layout_version in LAYOUTS:
        if op.present_in(layout_version):
            assert body(op, layout_version) == bytes.fromhex(raw)


def test_close_and_mkdir_are_unchanged_since_layout_60() -> None:
    close = CloseOp(txid=1, path="/f", replication=3, mtime=1, atime=1, block_size=128, permissions=PERMISSIONS)
    mkdir = MkdirOp(txid=1, inode_id=9, path="/d", timestamp=5, permissions=PERMISSIONS, xattrs=(XAttr(0, "a"),))
    for op in (close, mkdir):
        assert len({body(op, layout_version) for layout_version in LAYOUTS}) == 1


def test_default_replication_of_a_cache_pool_has_its_own_flag() -> None:
    pool = CachePoolInfo("p", default_replication=3)
    op = ModifyCachePoolOp(txid=1, pool=pool)
    assert body(op, -67) == bytes.fromhex("0001 70 00000020 0003") + RPC_NONE


def test_strategies_exist_for_every_field_kind() -> None:
    kinds = {item.kind for cls in OPERATIONS.values() for item in cls.fields}
    assert kinds <= set(STRATEGIES)
    assert record_kinds.EXTRA_OPTIONS in kinds


@pytest.mark.parametrize(
    ("op", "since"),
    [
        (SetQuotaByStorageTypeOp(txid=1, src="/d", storage_type=4, ds_quota=9), -64),
        (SetQuotaByStorageTypeOp(txid=1, src="/d", storage_type=5, ds_quota=9), -67),
        (SetStoragePolicyOp(txid=1, path="/f", policy_id=14), -67),
        (add(storage_policy_id=1), -64),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_values_do_not_fit_layouts_whose_releases_lack_them(op: Any, since: int) -> None:
    assert list(fitting([op], since)) == [op]
    with pytest.raises(OpEncodingError, match=f"has no .* in {op.name}, added in {since}") as caught:
        list(fitting([op], since + 1))
    assert caught.value.txid == 1
    assert caught.value.hint


def test_default_value_of_a_field_fits_every_layout() -> None:
    op = add()
    assert list(fitting([op], -56)) == [op]
    changed = dataclasses.replace(op, erasure_coding_policy_id=1)
    with pytest.raises(OpEncodingError, match="erasure_coding_policy_id"):
        list(fitting([changed], -63))
