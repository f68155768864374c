"""The kernels of the tables, compiled and uncompiled, compared with plain twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, encode_varint
from pipeline.kernels import blocks, features

_UINT64 = st.integers(0, (1 << 64) - 1)
_IDS = st.integers(1, (1 << 63) - 1)
_BLOCKS = st.builds(pb.BlockProto, blockId=_UINT64, genStamp=_UINT64, numBytes=_UINT64)
_FILES = st.builds(
    pb.INodeFile,
    replication=st.integers(0, 1000),
    permission=_UINT64,
    blocks=st.lists(_BLOCKS, max_size=5),
    fileUC=st.none() | st.just(pb.FileUnderConstructionFeature(clientName="c")),
    acl=st.none() | st.just(pb.AclFeatureProto(entries=[1, 2])),
    xAttrs=st.none() | st.just(pb.XAttrFeatureProto(xAttrs=[pb.XAttrCompactProto(name=64, value=b"v")])),
    blockType=st.none() | st.sampled_from([pb.CONTIGUOUS, pb.STRIPED]),
    erasureCodingPolicyID=st.none() | st.integers(0, 255),
)
_QUOTA = st.builds(pb.QuotaByStorageTypeEntryProto, storageType=st.integers(1, 6), quota=st.integers(0, (1 << 63) - 1))
_DIRECTORIES = st.builds(
    pb.INodeDirectory,
    nsQuota=st.none() | _UINT64,
    dsQuota=st.none() | _UINT64,
    permission=_UINT64,
    acl=st.none() | st.just(pb.AclFeatureProto(entries=[1])),
    xAttrs=st.none() | st.just(pb.XAttrFeatureProto()),
    typeQuotas=st.none() | st.builds(pb.QuotaByStorageTypeFeatureProto, quotas=st.lists(_QUOTA, max_size=4)),
)
_INODES = st.one_of(
    st.builds(pb.INode, type=st.just(pb.INode.FILE), id=_IDS, name=st.binary(max_size=9), file=_FILES),
    st.builds(pb.INode, type=st.just(pb.INode.DIRECTORY), id=_IDS, name=st.binary(max_size=9), directory=_DIRECTORIES),
    st.builds(
        pb.INode,
        type=st.just(pb.INode.SYMLINK),
        id=_IDS,
        symlink=st.builds(pb.INodeSymlink, target=st.binary(max_size=9)),
    ),
)


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def section(inodes: list[pb.INode]) -> tuple[np.ndarray, Packed]:
    records = [encode_delimited(inode) for inode in inodes]
    offsets = np.cumsum([0, *map(len, records)])[:-1].astype(np.int64)
    return np.frombuffer(b"".join(records), np.uint8), Packed.of(offsets)


def expected_blocks(inodes: list[pb.INode]) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    for inode in inodes:
        file = inode.file
        policy = file.erasureCodingPolicyID if file.HasField("erasureCodingPolicyID") else -1
        for index, block in enumerate(file.blocks):
            triple = signed(block.blockId), signed(block.genStamp), signed(block.numBytes)
            marks = file.replication, int(file.blockType == pb.STRIPED), policy, int(file.HasField("fileUC"))
            rows.append((inode.id, index, *triple, *marks))
    return rows


def collected_blocks(function: Callable[..., Any], inodes: list[pb.INode], size: int) -> list[tuple[int, ...]]:
    buf, offsets = section(inodes)
    rows: list[tuple[int, ...]] = []
    slot = given_blocks = 0
    while slot < len(inodes):
        out = np.full((blocks.COLUMNS, size), -77, np.int64)
        count, slot, given_blocks, damaged = function(buf, offsets, slot, len(inodes), given_blocks, out)
        assert not damaged
        assert count == size or slot == len(inodes)
        rows += map(tuple, out[:, :count].T.tolist())
    return rows


@given(st.lists(_INODES, max_size=6), st.integers(1, 9), st.booleans())
def test_blocks_are_collected_in_order_for_any_batch_size(inodes: list[pb.INode], size: int, compiled: bool) -> None:
    function = blocks.collect_blocks if compiled else blocks.collect_blocks.plainly
    assert collected_blocks(function, inodes, size) == expected_blocks(inodes)


@given(st.lists(_INODES, min_size=1, max_size=3), st.data())
def test_damaged_blocks_never_cause_reads_beyond_the_buffer(inodes: list[pb.INode], data: st.DataObject) -> None:
    buf, offsets = section(inodes)
    broken = buf.copy()
    broken[data.draw(st.integers(0, buf.size - 1))] = data.draw(st.integers(0, 255))
    broken = broken[: data.draw(st.integers(1, buf.size))]
    plain_offsets = offsets.all()
    offsets = Packed.of(plain_offsets[plain_offsets < broken.size])
    out = [np.zeros((blocks.COLUMNS, 100), np.int64) for _ in range(2)]
    compiled = blocks.collect_blocks(broken, offsets, 0, offsets.size, 0, out[0])
    plain = blocks.collect_blocks.plainly(broken, offsets, 0, offsets.size, 0, out[1])
    assert tuple(compiled) == tuple(plain)
    assert out[0][:, : compiled[0]].tolist() == out[1][:, : plain[0]].tolist()


def test_a_block_without_its_id_is_damage() -> None:
    record = pb.INode(type=pb.INode.FILE, id=7, name=b"f").SerializeToString() + b"\x22\x04\x32\x02\x10\x05"
    buf = np.frombuffer(encode_varint(len(record)) + record, np.uint8)
    out = np.zeros((blocks.COLUMNS, 4), np.int64)
    assert blocks.collect_blocks(buf, Packed.of(np.zeros(1, np.int64)), 0, 1, 0, out) == (0, 0, 0, True)


def expected_marks(inode: pb.INode) -> int:
    body = inode.file if inode.HasField("file") else inode.directory
    marks = features.DIRECTORY if inode.HasField("directory") else 0
    marks |= features.ACL * body.HasField("acl") | features.XATTRS * body.HasField("xAttrs")
    return marks | features.OPEN * (inode.HasField("file") and inode.file.HasField("fileUC"))


@given(st.lists(_INODES, min_size=1, max_size=6), st.booleans())
def test_features_of_inodes_are_found(inodes: list[pb.INode], compiled: bool) -> None:
    buf, offsets = section(inodes)
    function = features.mark_features if compiled else features.mark_features.plainly
    assert function(buf, offsets, 1, len(inodes)).tolist() == [expected_marks(inode) for inode in inodes[1:]]


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_truncated_record_is_marked_damaged(cut: int) -> None:
    inode = pb.INode(
        type=pb.INode.FILE, id=7, file=pb.INodeFile(replication=3, blocks=[pb.BlockProto(blockId=1, genStamp=2)])
    )
    buf, offsets = section([inode])
    assert features.mark_features(buf[:-cut], offsets, 0, 1).tolist() == [features.DAMAGED]


def expected_quotas(directory: pb.INodeDirectory) -> list[int]:
    limits = [signed(directory.nsQuota), signed(directory.dsQuota), *[-1] * features.TYPES]
    for entry in directory.typeQuotas.quotas:
        limits[features.FIRST_TYPE_QUOTA + entry.storageType - 1] = entry.quota
    return limits


@given(st.lists(_DIRECTORIES, min_size=1, max_size=5), st.booleans())
def test_quotas_of_directories_are_read(directories: list[pb.INodeDirectory], compiled: bool) -> None:
    inodes = [pb.INode(type=pb.INode.DIRECTORY, id=9 + i, directory=each) for i, each in enumerate(directories)]
    buf, offsets = section(inodes)
    ids, out = np.zeros(len(inodes), np.int64), np.zeros((features.QUOTA_ROWS, len(inodes)), np.int64)
    function = features.directory_quotas if compiled else features.directory_quotas.plainly
    assert function(buf, offsets, np.arange(len(inodes)), ids, out) == len(inodes)
    assert ids.tolist() == [inode.id for inode in inodes]
    assert out.T.tolist() == [expected_quotas(each) for each in directories]


def test_quotas_stop_at_a_damaged_directory() -> None:
    inode = pb.INode(type=pb.INode.DIRECTORY, id=9, directory=pb.INodeDirectory(nsQuota=5, dsQuota=6))
    buf, offsets = section([inode, inode])
    ids, out = np.zeros(2, np.int64), np.zeros((features.QUOTA_ROWS, 2), np.int64)
    assert features.directory_quotas(buf[:-1], offsets, np.arange(2), ids, out) == 1


_ENTRIES = st.builds(
    pb.DirEntry,
    parent=_IDS,
    children=st.lists(_IDS, max_size=5),
    refChildren=st.lists(st.integers(0, (1 << 32) - 1), max_size=5),
)


@given(st.lists(_ENTRIES, min_size=1, max_size=4), st.booleans())
def test_children_of_directories_are_counted(entries: list[pb.DirEntry], compiled: bool) -> None:
    records = [encode_delimited(entry) for entry in entries]
    starts = np.array([-1, *np.cumsum([0, *map(len, records)])[:-1]], np.int64)
    function = features.children_counts if compiled else features.children_counts.plainly
    counts = function(np.frombuffer(b"".join(records), np.uint8), starts)
    assert counts.tolist() == [[0, 0], *[[len(each.children), len(each.refChildren)] for each in entries]]
