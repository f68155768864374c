"""The kernels of the inode table and the index, each compared with a plain twin built on the protobuf library."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import RecordError
from image_format.index import ImageIndex
from image_format.inode_table import InodeTable
from image_format.kernels import scan, wire
from image_format.name_order import name_key
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited, encode_varint
from tests.image_format.image_support import has_its_references
from tests.image_format.inode_table_support import inodes, names, unsigned
from tests.image_format.kernel_values import octets

RECORDED = Path(__file__).parent.parent / "recorded"
IMAGES = sorted(
    path
    for path in RECORDED.glob("*/*/*/fsimage_???????????????????")
    if path.parent.name in ("before", "after") and path.parent.parent.name != "rolling-upgrade-from-2.7.3"
    if has_its_references(path)
)

longs = st.integers(-(1 << 63), (1 << 63) - 1)


def encoded(table: InodeTable, rows: Sequence[int]) -> bytes:
    records = table.encode(np.array(rows))
    return b"".join(records.record(number) for number in range(len(rows)))


@given(st.lists(inodes(), min_size=1, max_size=4))
def test_a_row_encodes_to_the_record_it_was_decoded_from(messages: list[pb.INode]) -> None:
    table = InodeTable(-63)
    for number, message in enumerate(messages):
        message.id = number + 1
    data = b"".join(map(encode_delimited, messages))
    ids, offsets = np.zeros(9, np.int64), np.zeros(9, np.int64)
    quotas = np.zeros(9, np.int64)
    count, limited, end, damaged = scan.scan_inodes(octets(data), 0, len(data), ids, offsets, 0, quotas, 0)
    assert quotas[:limited].tolist() == [i for i, m in enumerate(messages) if m.directory.HasField("typeQuotas")]
    assert (count, end, damaged) == (len(messages), len(data), False)
    rows = [table.load(octets(data), int(offset), slot) for slot, offset in enumerate(offsets[:count])]
    assert [table.name(row) for row in rows] == [message.name for message in messages]
    assert encoded(table, rows) == data


@given(st.lists(inodes(), min_size=1, max_size=6), st.data())
def test_a_batch_of_rows_is_loaded_like_single_rows(messages: list[pb.INode], drawn: st.DataObject) -> None:
    for number, message in enumerate(messages):
        message.id = number + 1
    records = [*map(encode_delimited, messages), b"\x04\x08\x01\x10\x05"]
    data, offsets = octets(b"".join(records)), np.cumsum([0, *map(len, records)], dtype=np.int64)[:-1]
    order = np.array(drawn.draw(st.permutations(range(len(messages)))), np.int64)
    each, at_once = InodeTable(-63), InodeTable(-63)
    for slot in order.tolist():
        each.load(data, int(offsets[slot]), slot)
    at_once.load_all(data, offsets[order], order)
    # damage ends the walk, and earlier results stay
    with pytest.raises(RecordError, match="no inode record"):
        at_once.load_all(data, offsets[-1:], order[:1])
    assert at_once.count == each.count == order.size
    assert at_once.rows[: order.size].tobytes() == each.rows[: order.size].tobytes()
    assert at_once.features == each.features
    ids = np.arange(8)
    assert at_once.row_of.get_all(ids).tolist() == each.row_of.get_all(ids).tolist()
    assert at_once.row_of.count == each.row_of.count
    assert encoded(at_once, range(order.size)) == b"".join(records[slot] for slot in order.tolist())


@pytest.mark.parametrize(("size", "blocks"), [(300, 0), (3, 4)], ids=["names", "blocks"])
def test_a_batch_reserves_space_before_it_is_loaded(size: int, blocks: int) -> None:
    """The names or the blocks of the batch exceed the space of a new table, and the kernel does not check the space."""
    block = pb.BlockProto(blockId=1, genStamp=1, numBytes=1)
    named = [b"%0*d" % (size, number) for number in range(400)]
    messages = [
        pb.INode(type=pb.INode.FILE, id=number, name=name, file=pb.INodeFile(permission=1, blocks=[block] * blocks))
        for number, name in enumerate(named, 1)
    ]
    records = [*map(encode_delimited, messages)]
    offsets = np.cumsum([0, *map(len, records)], dtype=np.int64)[:-1]
    table = InodeTable(-63)
    table.load_all(octets(b"".join(records)), offsets, np.arange(400))
    assert table.names_used == 400 * size <= table.names.size
    assert table.blocks_used == 400 * blocks <= table.blocks.size
    assert [table.name(row) for row in range(400)] == named


@given(inodes())
def test_unknown_fields_set_a_flag(message: pb.INode) -> None:
    body = message.SerializeToString() + encode_varint(99 << 3) + b"\x05"
    data = encode_varint(len(body)) + body
    table = InodeTable(-63)
    row = table.load(octets(data), 0, 0)
    assert table.flags[row] & 4


@pytest.mark.parametrize("kind", [0, 2, 3, 4, 256 + 1, (1 << 64) - 255])
def test_a_type_that_contradicts_the_body_is_damage(kind: int) -> None:
    """The record counts as damaged even if the lowest byte of the type matches."""
    body = pb.INode(type=pb.INode.FILE, id=5, file=pb.INodeFile(permission=1)).SerializeToString()
    body = b"\x08" + encode_varint(kind) + body[2:]
    with pytest.raises(RecordError):
        InodeTable(-63).load(octets(encode_varint(len(body)) + body), 0, 0)


@given(inodes(), st.sampled_from([{"file": pb.INodeFile()}, {"directory": pb.INodeDirectory()}]))
def test_a_damaged_record_does_not_affect_the_next_record(damaged: pb.INode, bare: dict[str, Any]) -> None:
    body = damaged.SerializeToString() + b"\x1a\x7f"
    data = encode_varint(len(body)) + body
    following = encode_delimited(pb.INode(type=pb.INode.FILE if "file" in bare else pb.INode.DIRECTORY, id=7, **bare))
    table, untouched = InodeTable(-63), InodeTable(-63)
    with pytest.raises(RecordError):
        table.load(octets(data), 0, 0)
    row = table.load(octets(data + following), len(data), 1)
    assert table.message(row) == untouched.message(untouched.load(octets(following), 0, 1))


@pytest.mark.parametrize(
    ("field", "largest"),
    [("replication", 0x7FFFFFFF), ("storagePolicyID", 0xFF), ("blockType", 1), ("erasureCodingPolicyID", 0xFF)],
)
def test_numbers_too_large_for_a_row_count_as_unknown_fields(field: str, largest: int) -> None:
    tag = encode_varint(pb.INodeFile.DESCRIPTOR.fields_by_name[field].number << 3)
    for value in (largest, largest + 1, (1 << 32) - 1, (1 << 64) - 1):
        inode = pb.INode(type=pb.INode.FILE, id=5)
        inode.file.MergeFromString(tag + encode_varint(value))
        table = InodeTable(-67)
        row = table.load(octets(encode_delimited(inode)), 0, 0)
        assert bool(table.flags[row] & 4) == (value > largest)


@given(st.binary(max_size=60))
def test_no_bytes_crash_the_kernels(data: bytes) -> None:
    buffer = octets(encode_varint(len(data)) + data)
    ids, offsets = np.zeros(64, np.int64), np.zeros(64, np.int64)
    count, _, pos, damaged = scan.scan_inodes(buffer, 0, buffer.size, ids, offsets, 0, np.zeros(64, np.int64), 0)
    assert damaged or pos == buffer.size
    with contextlib.suppress(RecordError):
        InodeTable(-63).load(buffer, 0, 0)
    plain, references = scan.count_children(buffer, 0)
    if plain >= 0:
        scan.collect_children(buffer, 0, np.zeros(plain, np.int64), np.zeros(references, np.int64))
    assert count <= 64


@given(unsigned)
def test_varint_kernels_agree_with_the_plain_codec(value: int) -> None:
    signed = value - (1 << 64) if value >> 63 else value
    out = np.zeros(10, np.uint8)
    end = wire.put_varint(out, 0, np.int64(signed))
    assert out[:end].tobytes() == encode_varint(value)
    assert wire.varint_size(np.int64(signed)) == end
    decoded, position = wire.read_varint(out, 0, end)
    assert (int(decoded), position) == (signed, end)
    assert wire.read_varint(out, 0, end - 1)[1] == wire.VARINT_ERROR


@given(st.sets(names, max_size=30), st.lists(names, max_size=10))
def test_names_are_located_as_in_a_sorted_list(present: set[bytes], wanted: list[bytes]) -> None:
    ordered = sorted(present, key=name_key)
    records = [pb.INode(type=pb.INode.DIRECTORY, id=100 + i, name=name) for i, name in enumerate(ordered)]
    for record in records:
        record.directory.permission = 1
    encoded = [encode_delimited(record) for record in records]
    data = octets(b"".join(encoded) or b"\0")
    sizes = [len(record) for record in encoded]
    offsets = np.cumsum([0, *sizes], dtype=np.int64)[:-1]
    ids = np.arange(100, 100 + len(ordered), dtype=np.int64)
    inodes = (Packed.of(ids), np.zeros(0, np.uint32), Packed.of(offsets))
    wanted = [*wanted, *ordered]
    spans = np.array([len(name) for name in wanted], np.int64)
    starts = np.cumsum([0, *spans], dtype=np.int64)[:-1]
    positions, found = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    packed = octets(b"".join(wanted) or b"\0")
    assert scan.locate_names(ids, *inodes, data, packed, starts, spans, positions, found)
    keys = [name_key(name) for name in ordered]
    for name, position, hit in zip(wanted, positions.tolist(), found.tolist(), strict=True):
        assert hit == (name in present)
        assert position == sum(key < name_key(name) for key in keys)
    assert scan.children_in_order(ids, *inodes, data) == scan.MISSING


@pytest.mark.recorded
@pytest.mark.parametrize("path", IMAGES, ids=lambda p: "/".join(p.parts[-4:-1]))
def test_every_recorded_inode_is_reproduced_byte_for_byte(path: Path) -> None:
    with ImageFile.open(path, verify_md5=False) as image:
        index = ImageIndex(image)
        table = InodeTable(image.layout_version)
        for slot in range(index.slot_count):
            table.load(index.inode_buffer, index.inode_offset(slot), slot)
        records = encoded(table, range(table.count))
        assert records == index.inode_buffer[index.records_start :].tobytes()


@pytest.mark.recorded
@pytest.mark.parametrize("path", IMAGES[::7], ids=lambda p: "/".join(p.parts[-4:-1]))
def test_every_recorded_child_is_found_by_name(path: Path) -> None:
    with ImageFile.open(path, verify_md5=False) as image:
        index = ImageIndex(image)
        for directory in index.directory_ids.tolist():
            for child in index.children(directory).tolist():
                assert index.child(directory, index.name(child)) == child
            assert index.child(directory, b"no such name") == 0
