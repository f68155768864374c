"""Values that tables compute: space of block groups, times that no timestamp can represent, text that is not UTF-8."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.erasure_policies import ErasurePolicy, policies_of, raw_bytes
from image_format.errors import BufferOrigin, RecordError
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringTable
from image_format.varint import encode_delimited
from image_tools.dump.records import CacheRecords
from pipeline.schema import TIMESTAMP
from pipeline.sources.image_tables.batches import rows_to_batches, text, to_micros
from pipeline.sources.image_tables.blocks import block_batches
from pipeline.sources.image_tables.inodes import acl_rows, xattr_rows
from pipeline.sources.image_tables.managers import cache_rows
from pipeline.sources.image_tables.snapshots import diff_cuts
from pipeline.tables.inodes import BLOCKS
from pipeline.tables.managers import CACHE


def internal_block_length(data: int, policy: ErasurePolicy, index: int) -> int:
    """Compute StripedBlockUtil.getInternalBlockLength, statement by statement."""
    stripe = policy.cell_size * policy.data_units
    last = data % stripe
    if last == 0:
        return data // policy.data_units
    stripes = (data - 1) // stripe + 1
    size = last
    if index < policy.data_units:
        size = max(0, size - index * policy.cell_size)
    return (stripes - 1) * policy.cell_size + min(size, policy.cell_size)


@given(
    st.lists(st.integers(0, 1 << 40), max_size=5),
    st.builds(
        ErasurePolicy, st.just("p"), st.just("rs"), st.integers(1, 20), st.integers(1, 6), st.integers(1, 1 << 21)
    ),
)
def test_space_of_a_block_group_equals_hadoops(sizes: list[int], policy: ErasurePolicy) -> None:
    expected = [
        data + internal_block_length(data, policy, policy.data_units + 1) * policy.parity_units for data in sizes
    ]
    assert raw_bytes(np.array(sizes, np.int64), policy).tolist() == expected


def test_policies_of_the_image_extend_the_built_in_ones() -> None:
    section = pb.ErasureCodingSection()
    section.policies.add(id=1, state=pb.ENABLED)
    own = section.policies.add(id=64, name="XOR-2-1-64k", cellSize=65536)
    own.schema.codecName, own.schema.dataUnits, own.schema.parityUnits = "xor", 2, 1
    found = policies_of(section)
    assert found[64] == ErasurePolicy("XOR-2-1-64k", "xor", 2, 1, 65536, id=64)
    assert found[1] == ErasurePolicy("RS-6-3-1024k", "rs", 6, 3, 1 << 20, id=1)


def test_an_unknown_policy_is_named_by_number_and_has_no_space() -> None:
    file = pb.INodeFile(blocks=[pb.BlockProto(blockId=1, genStamp=2, numBytes=9)], blockType=pb.STRIPED)
    file.erasureCodingPolicyID = 99
    policies = policies_of(pb.ErasureCodingSection())
    buf = np.frombuffer(encode_delimited(pb.INode(type=pb.INode.FILE, id=7, file=file)), np.uint8)
    (batch,) = block_batches(buf, Packed.of(np.zeros(1, np.int64)), range(1), BLOCKS.names, policies, BufferOrigin())
    (row,) = batch.to_pylist()
    assert (row["ec_policy"], row["striped"], row["raw_bytes"], row["bytes"]) == ("99", True, None, 9)


@pytest.mark.parametrize("millis", [(1 << 63) - 1, 1 << 63, (1 << 63) // 1000 + 1])
def test_a_time_beyond_the_timestamp_range_is_null(millis: int) -> None:
    assert to_micros(millis) is None


@pytest.mark.parametrize("millis", [0, 1795228611911, (1 << 63) // 1000, (1 << 64) - 5])
def test_other_times_are_kept(millis: int) -> None:
    signed = millis - (1 << 64) if millis >> 63 else millis
    assert pa.array([to_micros(millis)], TIMESTAMP).cast(pa.int64()).to_pylist() == [signed * 1000]


def test_text_is_decoded_as_in_java() -> None:
    assert text(b"a\xff") == "a\ufffd"
    assert text("a\udcff") == "a\ufffd"
    assert text(None) is None


def test_a_directive_that_never_expires_has_only_the_stored_number() -> None:
    header = pb.CacheManagerSection(nextDirectiveId=2, numPools=0, numDirectives=2)
    never = pb.CacheDirectiveInfoExpirationProto(millis=(1 << 61) + 5, isRelative=False)
    relative = pb.CacheDirectiveInfoExpirationProto(millis=5000, isRelative=True)
    directives = [pb.CacheDirectiveInfoProto(id=i, pool="p", expiration=e) for i, e in enumerate((never, relative), 1)]
    (batch,) = rows_to_batches(CACHE, CACHE.names, cache_rows(CacheRecords(header, [], directives)))
    rows = [(row["expiration"], row["expiration_millis"], row["expiration_is_relative"]) for row in batch.to_pylist()]
    assert rows == [(None, (1 << 61) + 5, False), (None, 5000, True)]


def test_rows_are_returned_in_batches_of_bounded_size() -> None:
    rows = ({"kind": "POOL", "pool": str(i)} for i in range(10))
    batches = list(rows_to_batches(CACHE, ("pool",), rows, size=4))
    assert [batch.num_rows for batch in batches] == [4, 4, 2]
    assert pa.Table.from_batches(batches).column("pool").to_pylist() == [str(i) for i in range(10)]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 15))
def test_parts_of_snapshot_diffs_contain_whole_lists(created: list[int], parts: int) -> None:
    lists = []
    for number, count in enumerate(created):
        head = pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=20 + number, numOfDiff=1)
        names = [pb.CreatedListEntry(name=b"n" * i) for i in range(count)]
        records = [head, pb.DirectoryDiff(snapshotId=1, createdListSize=count), *names]
        lists.append(b"".join(map(encode_delimited, records)))
    bounds = np.cumsum([0, *map(len, lists)]).tolist()
    cuts = diff_cuts(np.frombuffer(b"".join(lists), np.uint8), parts, len(lists))
    assert len(cuts) <= parts
    assert [cuts[0][0], *(end for _, end in cuts)] == sorted({start for start, _ in cuts} | {bounds[-1]})
    assert {position for cut in cuts for position in cut} <= set(bounds)


def test_the_error_for_an_invalid_acl_entry_or_xattr_names_the_inode() -> None:
    place, strings = BufferOrigin("fsimage_1", "INODE"), StringTable.empty(3)
    file = pb.INodeFile(acl=pb.AclFeatureProto(entries=[1 << 31]))
    file.xAttrs.xAttrs.add(name=1)
    found = [(0, pb.INode(type=pb.INode.FILE, id=7, file=file))]
    for rows in (acl_rows, xattr_rows):
        with pytest.raises(RecordError, match="fsimage_1, section INODE: inode 7: "):
            list(rows(found, strings, lambda _slot, _name: None, place))
